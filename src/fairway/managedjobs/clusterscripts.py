"""The commands of a managed job's containers on a cluster. They need `sh`, and `tar` and `cat` where there are files;
`getent`, `nslookup` or `python3` where a task has several nodes. The user's scripts run in bash if the image has it.

Setup and run are one container: what setup installs must be there for run. Our shell is process 1 and passes a SIGTERM
on to all processes of the container, as the runner of one machine does: a program gets its chance to save a checkpoint,
and one that does not care ends at once. How setup failed is said in the termination message (`SETUP_FAILED`).

Names of our variables begin with `_fairway_`, so that none of the task's is changed.
"""

from typing import Final

from fairway.managedjobs.scripts import LONGEST_ARGUMENT, OWN_HOME, pieces_of, verbatim

SETUP_FAILED: Final = "fairway: setup failed"
NOT_TOGETHER: Final = "fairway: nodes missing"
"""How the termination message of a container begins that did not come to its task."""

READY_FILE: Final = "/fairway/ready"
"""Exists in a pod whose setup is done."""

MOST_SECONDS_TO_MEET: Final = 1800
"""How long a node waits for the others: they may have to pull a large image first."""

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

_UNPACK: Final = """\
while [ $# -gt 0 ]; do
  mkdir -p -- "$2" && cat "$1"/* | tar -xzof - -C "$2" ||
    { echo "fairway: the files for $2 cannot be unpacked; the image needs sh, cat, tar and gzip" >&2; exit 1; }
  shift 2
done
"""


def run_command(setup: str, script: str, *, own_home: bool, nodes: int, checkpoints: bool) -> list[str]:
    """Run setup, wait for the other nodes, run the task."""
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
            _TOGETHER if several else "",
        ]
    lines += [_EXPORT.format(""), _start("run", script, arguments), 'exit "$_fairway_code"\n']
    return [*_SHELL, verbatim("".join(lines)), "fairway", *map(verbatim, arguments)]


def files_command(archives: list[tuple[str, str]]) -> list[str]:
    """Unpack archives, each a directory with its parts, into their directories, in order."""
    return [*_SHELL, verbatim(_UNPACK), "files", *(verbatim(part) for pair in archives for part in pair)]


def _start(name: str, script: str, arguments: list[str]) -> str:
    """The line that runs a script, which is an argument; a long one is several, and becomes a file."""
    first = len(arguments) + 1
    if len(script.encode()) <= LONGEST_ARGUMENT:
        arguments.append(script)
        return f'_fairway_run -c "${{{first}}}" {name}\n'
    arguments += pieces_of(script)
    references = " ".join(f'"${{{number}}}"' for number in range(first, len(arguments) + 1))
    return f"printf %s {references} >/fairway/{name} && _fairway_run /fairway/{name}\n"
