"""The commands of a managed job's containers on a cluster. They need `sh`, and `tar` and `cat` where there are files;
`getent`, `nslookup` or `python3` where a task has several nodes. The user's scripts run in bash if the image has it.

Setup and run are one container: what setup installs must be there for run. Our shell is process 1 and passes a SIGTERM
on to all processes of the container, as the runner of one machine does: a program gets its chance to save a checkpoint,
and one that does not care ends at once. How setup failed is said in the termination message (`SETUP_FAILED`).

Names of our variables begin with `_fairway_`, so that none of the task's is changed.
"""

from collections.abc import Sequence
from typing import Final

from fairway.managedjobs.scripts import (
    EXECUTE_RAY,
    LONGEST_ARGUMENT,
    MOST_SECONDS_TO_MEET,
    NOT_TOGETHER,
    OWN_HOME,
    pieces_of,
    verbatim,
)

SETUP_FAILED: Final = "fairway: setup failed"
"""How the termination message of a container begins whose setup failed."""

READY_FILE: Final = "/fairway/ready"
"""Exists in a pod whose setup is done."""

_SHELL: Final = ("sh", "-c")

_FUNCTIONS: Final = """\
_fairway_child= _fairway_signals=0 _fairway_early=
_fairway_stop() {
  _fairway_signals=$((_fairway_signals + 1))
  if [ "$_fairway_child" = starting ]; then _fairway_early=yes; return; fi
  if [ $$ -eq 1 ]; then kill -s TERM -- -1 2>/dev/null
  elif [ -n "$_fairway_child" ]; then kill -s TERM "$_fairway_child" 2>/dev/null
  fi
  [ -n "$_fairway_child" ] || exit 143
}
trap _fairway_stop TERM INT
_fairway_shell=sh
if command -v bash >/dev/null 2>&1; then _fairway_shell=bash; fi
_fairway_run() {
  _fairway_child=starting
  "$_fairway_shell" "$@" &
  _fairway_child=$!
  if [ -n "$_fairway_early" ]; then _fairway_early=; _fairway_stop; fi
  while :; do
    _fairway_before=$_fairway_signals
    wait "$_fairway_child"
    _fairway_code=$?
    [ "$_fairway_before" = "$_fairway_signals" ] && break
  done
  _fairway_child=
}
_fairway_fail() {
  echo "$1" >&2
  echo "$1" >/dev/termination-log 2>/dev/null
  exit 1
}
"""

_HOME: Final = f"""\
export HOME="$PWD/{OWN_HOME}"
"""

_CHECKPOINTS: Final = """\
mkdir -p -- "$FAIRWAY_CHECKPOINT_DIR" || _fairway_fail "fairway: cannot create $FAIRWAY_CHECKPOINT_DIR"
"""

_ONE_ADDRESS: Final = """\
_fairway_addresses=$FAIRWAY_POD_IP
"""

# `getent` prints a line a socket type and address; nslookup prints the address of the DNS server first.
_RESOLVE: Final = f"""\
_fairway_domain=$(sed -n 's/^search  *\\([^ ]*\\).*/.\\1/p' /etc/resolv.conf)
_fairway_resolve() {{
  if command -v getent >/dev/null 2>&1; then getent ahosts "$1$_fairway_domain" | sed 's/[[:space:]].*//'
  elif command -v nslookup >/dev/null 2>&1; then
    nslookup "$1$_fairway_domain" | sed -n '/^Name/,$ s/^Address[^:]*: *\\([^ ]*\\).*/\\1/p'
  else
    python3 -c 'import socket, sys; print(*{{a[4][0] for a in socket.getaddrinfo(sys.argv[1], 1)}}, sep="\\n")' \\
      "$1$_fairway_domain"
  fi 2>/dev/null
}}
_fairway_left={MOST_SECONDS_TO_MEET}
_fairway_pause() {{
  _fairway_left=$((_fairway_left - 1))
  [ "$_fairway_left" -gt 0 ] || _fairway_fail "{NOT_TOGETHER}: $1 after {MOST_SECONDS_TO_MEET} s"
  sleep 1
}}
"""

_ALL_ADDRESSES: Final = """\
_fairway_addresses=
for _fairway_node in $FAIRWAY_NODE_NAMES; do
  while :; do
    _fairway_found=$(_fairway_resolve "$_fairway_node.$FAIRWAY_SERVICE" | head -n 1)
    [ -n "$_fairway_found" ] && break
    _fairway_pause "$_fairway_node has no address"
  done
  _fairway_addresses="$_fairway_addresses${_fairway_addresses:+
}$_fairway_found"
done
"""

_EXPORT: Final = """\
export SKYPILOT_{0}NODE_IPS="$_fairway_addresses" FAIRWAY_{0}NODE_IPS="$_fairway_addresses"
"""

# The Service has the addresses of ready pods only, and a pod is ready when its setup is done.
_TOGETHER: Final = f"""\
: >{READY_FILE}
while :; do
  _fairway_ready=" $(_fairway_resolve "$FAIRWAY_SERVICE-ready" | tr '\\n' ' ')"
  _fairway_missing=
  for _fairway_node in $_fairway_addresses; do
    case "$_fairway_ready" in *" $_fairway_node "*) ;; *) _fairway_missing=$_fairway_node ;; esac
  done
  [ -z "$_fairway_missing" ] && break
  _fairway_pause "$_fairway_missing has not finished its setup"
done
"""

_CHECK_SETUP: Final = f"""\
[ "$_fairway_code" -eq 0 ] || {{ echo "{SETUP_FAILED}" >/dev/termination-log; exit "$_fairway_code"; }}
"""

_FORGET: Final = """\
unset SKYPILOT_SETUP_NODE_IPS FAIRWAY_SETUP_NODE_IPS
"""

_FIND_RAY: Final = """\
command -v ray >/dev/null 2>&1 || _fairway_fail "fairway: the image has no ray; name one that has it in image_id, such \
as rayproject/ray:2.60.0, or install it in setup"
"""

_DRIVER: Final = """\
if command -v bash >/dev/null 2>&1; then exec bash -c "$1" "$0"; fi
exec sh -c "$1" "$0"
"""

_LONG_DRIVER: Final = """\
printf %s "$@" >"/fairway/$0" || exit 1
if command -v bash >/dev/null 2>&1; then exec bash "/fairway/$0"; fi
exec sh "/fairway/$0"
"""

_UNPACK: Final = """\
while [ $# -gt 0 ]; do
  mkdir -p -- "$2" && cat "$1"/* | tar -xzof - -C "$2" ||
    { echo "fairway: the files for $2 cannot be unpacked; the image needs sh, cat, tar and gzip" >&2; exit 1; }
  shift 2
done
"""

# At first it finds out whether it may write. As process 1 it gets a SIGTERM only with a trap.
_WAIT_FOR_UPLOAD: Final = """\
cd /fairway-upload && mkdir -p files && : >"files/.$HOSTNAME" && rm "files/.$HOSTNAME" ||
  { echo "fairway: user $(id -u) cannot write to the volume; set securityContext.fsGroup in a pod_config" >&2; exit 1; }
trap 'exit 0' TERM
sleep "$1" &
wait
"""

# All of the input is read, whatever fails: a command that ends before leaves the client of `exec` waiting. This shell
# holds the standard output meanwhile: containerd closes the input of a command whose output is closed.
_STORE: Final = """\
umask 022
_size=$1 _digest=$2 _part=.$3
cd /fairway-upload/files
_fail() { rm -f "$_part"; echo "$1" >&2; exit 1; }
cat >"$_part" || cat >/dev/null
dd if=/dev/null of="$_part" conv=notrunc,fsync 2>/dev/null &
_found=$(sha256sum <"$_part")
_found=${_found%% *}
wait $! || _fail "it cannot be synchronised"
if [ "$_found" != "$_digest" ]; then
  _stored=$(wc -c <"$_part")  # only now: busybox counts byte by byte
  [ "$_stored" -eq "$_size" ] || _fail "it took $((_stored)) of $_size bytes, and is full or failed"
  _fail "what arrived has the SHA-256 $_found instead of $_digest"
fi
mv -f "$_part" archive.tar.gz || _fail "the archive cannot be moved into place"
"""


def run_command(
    setup: str,
    script: str,
    *,
    own_home: bool,
    nodes: int,
    checkpoints: bool,
    ray: Sequence[str] = (),
    is_driver: bool = True,
) -> list[str]:
    """Run setup, wait for the other nodes, run the task; or be a node of a Ray cluster with the arguments `ray`, whose
    driver is the task.
    """
    several = nodes > 1
    lines = [
        _FUNCTIONS,
        _HOME if own_home else "",
        _CHECKPOINTS if checkpoints else "",
        _RESOLVE + _ALL_ADDRESSES if several else _ONE_ADDRESS,
    ]
    arguments: list[str] = []
    if setup:
        lines += [
            _EXPORT.format("SETUP_"),
            _start("setup", setup, arguments),
            _CHECK_SETUP,
            _FORGET,
            _TOGETHER if several and not ray else "",
        ]
    lines.append(_EXPORT.format(""))
    if ray:
        lines += [_FIND_RAY, f"shift {len(arguments)}\n", EXECUTE_RAY]
        node = [*ray, *(map(verbatim, _driver(script)) if is_driver else ())]
        return [*_SHELL, verbatim("".join(lines)), "fairway", *map(verbatim, arguments), *node]
    lines += [_start("run", script, arguments), 'exit "$_fairway_code"\n']
    return [*_SHELL, verbatim("".join(lines)), "fairway", *map(verbatim, arguments)]


def _driver(script: str) -> list[str]:
    if len(script.encode()) <= LONGEST_ARGUMENT:
        return [*_SHELL, _DRIVER, "run", script]
    return [*_SHELL, _LONG_DRIVER, "run", *pieces_of(script)]


def files_command(archives: list[tuple[str, str]]) -> list[str]:
    """Unpack archives, each a directory with its parts, into their directories, in order."""
    return [*_SHELL, verbatim(_UNPACK), "files", *(verbatim(part) for pair in archives for part in pair)]


def ready_command(seconds: int) -> list[str]:
    """Of an uploader pod: wait for an archive."""
    return [*_SHELL, verbatim(_WAIT_FOR_UPLOAD), "ready", str(seconds)]


def store_command(size: int, digest: str, part: str) -> list[str]:
    """Write standard input into the volume of an uploader pod, for `exec`; `part` is a name for what is not complete.
    It needs sh, cat, wc, dd, mv and sha256sum."""
    return [*_SHELL, _STORE, "store", str(size), digest, part]


def _start(name: str, script: str, arguments: list[str]) -> str:
    """The line that runs a script, which is an argument; a long one is several, and becomes a file."""
    first = len(arguments) + 1
    if len(script.encode()) <= LONGEST_ARGUMENT:
        arguments.append(script)
        return f'_fairway_run -c "${{{first}}}" {name}\n'
    arguments += pieces_of(script)
    references = " ".join(f'"${{{number}}}"' for number in range(first, len(arguments) + 1))
    return f"printf %s {references} >/fairway/{name} && _fairway_run /fairway/{name}\n"
