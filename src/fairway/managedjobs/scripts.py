"""The commands of a managed job's containers: a few lines of our own, then the user's script as it was written.

The user's script is never pasted into ours: it is an argument, which ours hands to a bash of its own and becomes
(`exec`), so that its exit code, its traps and its signals are those of the container, `$0` in its error messages is
`setup` or `run`, and nothing of our variables or options is to be seen in it. Ours runs with `-p`: what a task's
variables say to bash (`BASH_ENV`, `SHELLOPTS`, functions) is for the task's shell.

Our lines find what they need in the variables of `environment`, which no task can change.
"""

import re
from collections.abc import Iterable
from typing import Final

OWN_HOME: Final = ".home"
"""Where `~` is, from the working directory, for a task that brings files for it."""

NOT_TOGETHER: Final = "fairway: nodes missing"
"""How the message of a container begins that waited for other nodes in vain."""

MOST_SECONDS_TO_MEET: Final = 1800
"""How long a node waits for the others: they may have to pull a large image first."""

_SHELL: Final = ("/bin/bash", "-p", "-c")
_REFERENCE: Final = re.compile(r"\$(?=[$(])")

LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""In bytes; Linux starts no program with a longer one."""

_PIECE: Final = LONGEST_ARGUMENT // 4
"""In characters, of which none has more than four bytes."""

_CHECKPOINTS: Final = """\
[[ -d $FAIRWAY_CHECKPOINT_DIR ]] || (umask 077; command -p mkdir -p -- "$FAIRWAY_CHECKPOINT_DIR") || exit 1
"""

_HOME: Final = f"""\
export HOME="$PWD/{OWN_HOME}"
"""

# Every node has a pipe, which it creates when it arrives and opens before it counts. A later node creates its own
# first and then writes into all existing ones, so no node misses the last one, without polling. All in
# a subshell: a variable of the task with the name of one of these would be changed for the task, too.
_TOGETHER: Final = """\
(
  gang="${FAIRWAY_CHECKPOINT_DIR%/*}/.gang-${FAIRWAY_CHECKPOINT_DIR##*/}-$FAIRWAY_ATTEMPT" own="$FAIRWAY_NODE_RANK"
  umask 077
  command -p mkdir -p -- "$gang" && cd -- "$gang" && { [[ -p $own ]] || command -p mkfifo "$own"; } || exit 1
  exec {bell}<>"$own" || exit 1
  for one in *; do echo 1<>"$one"; done
  while all=(*); (( ${#all[@]} < FAIRWAY_NUM_NODES )); do read -r -u "$bell"; done
) || exit 1
"""

# The task's own Ray counts before the one of Fairway's environment, which is not on the PATH of jobs.
_FIND_RAY: Final = """\
command -v ray >/dev/null || export PATH="$FAIRWAY_RAY_PATH:$PATH"
command -v ray >/dev/null || {
  echo "fairway: there is no ray on this machine; install it: pip install 'fairway[ray]', or put yours on the PATH" >&2
  exit 1
}
"""

_SCRIPT: Final = """\
exec /bin/bash -c "$1" "$0"
"""

EXECUTE_RAY: Final = """\
_fairway_ray=$(command -v ray)
_fairway_python=$(dirname -- "$_fairway_ray")/python3
if [ -x "$_fairway_python" ]; then exec "$_fairway_python" -c "$@"; fi
exec $(sed -n '1s/^#! *//p' "$_fairway_ray") -c "$@"
"""
"""The shell becomes the node: the arguments are the program's, and `ray` is on the PATH. Its Python is beside it, or in
its first line: pip puts `ray` into /usr/local/bin for a Python in /usr/bin."""

_LONG_SCRIPT: Final = """\
printf %s "$@" >".fairway-$0" && exec /bin/bash ".fairway-$0"
"""

MOST_FILES: Final = 1_000_000
MOST_UNPACKED_BYTES: Final = 20 << 30
"""What an archive may hold; it is looked through before anything is unpacked."""

_UNPACK: Final = (
    f"""\
most_files={MOST_FILES} most_bytes={MOST_UNPACKED_BYTES}
"""
    """\
while (( $# )); do
  [[ -f $1 ]] || { echo "fairway: the files for $2 are not on this machine: there is no $1" >&2; exit 1; }
  command -p tar --numeric-owner -tvzf "$1" | command -p awk '
    !/^[-dlh]/ { exit 3 }
    { bytes += $3 }
    bytes > '"$most_bytes"' || NR > '"$most_files"' { exit 4 }'
  case "${PIPESTATUS[1]}" in
    3) echo "fairway: the files for $2 are not unpacked: there are devices or pipes among them" >&2; exit 1 ;;
    4) echo "fairway: the files for $2 are more than $most_files, or more than $most_bytes bytes" >&2; exit 1 ;;
  esac
  command -p mkdir -p -- "$2" && command -p tar -xzof "$1" -C "$2" ||
    { echo "fairway: the files for $2 cannot be unpacked from $1" >&2; exit 1; }
  shift 2
done
"""
)


def run_command(script: str, *, own_home: bool, together: bool) -> list[str]:
    """Run the task; `together` waits until all nodes have come so far."""
    return _command("run", script, _CHECKPOINTS, _TOGETHER if together else "", _HOME if own_home else "")


def ray_command(arguments: list[str], driver: list[str]) -> list[str]:
    """Run a node of a Ray cluster, the head with its driver."""
    return [*_SHELL, verbatim(_FIND_RAY + EXECUTE_RAY), "ray", *arguments, *driver]


def setup_command(script: str, *, own_home: bool) -> list[str]:
    return _command("setup", script, _CHECKPOINTS, _HOME if own_home else "")


def files_command(archives: Iterable[tuple[str, str]]) -> list[str]:
    """Unpack archives, each into its directory, in order."""
    arguments = (verbatim(part) for pair in archives for part in pair)
    return [*_SHELL, verbatim(_UNPACK), "files", *arguments]


def pieces_of(script: str) -> list[str]:
    """A long script in parts that are each short enough for an argument."""
    return [script[at : at + _PIECE] for at in range(0, len(script), _PIECE)]


def verbatim(text: str) -> str:
    """The text as it is to be written in a pod, where `$(NAME)` and `$$` would be replaced."""
    return _REFERENCE.sub("$$", text)


def _command(name: str, script: str, *lines: str) -> list[str]:
    if len(script.encode()) <= LONGEST_ARGUMENT:
        start, pieces = _SCRIPT, [script]
    else:
        start, pieces = _LONG_SCRIPT, pieces_of(script)
    return [*_SHELL, verbatim("".join((*lines, start))), name, *map(verbatim, pieces)]
