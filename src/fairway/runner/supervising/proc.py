"""Reads processes from `/proc`."""

import os
from collections.abc import Iterator
from typing import NamedTuple

PROCESS_MARK = "FAIRWAY_PROCESS"
"""The environment variable with the identity of a process; whatever it starts inherits it."""

SUPERVISOR_MARK = "FAIRWAY_SUPERVISOR"
"""The environment variable that says which state directory a process belongs to."""

_LARGEST = 4 * 1024 * 1024


class Stat(NamedTuple):
    """The little that matters of `/proc/<pid>/stat`."""

    state: str
    parent: int
    session: int
    birth: int
    """When it started, in the kernel's ticks since boot."""

    @property
    def is_gone(self) -> bool:
        """Ended, but perhaps not reaped yet."""
        return self.state in "ZXx"


def read_stat(pid: int) -> Stat | None:
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Stat(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def marks_of(pid: int) -> tuple[str, str] | None:
    """The state directory and the process identity that are in the environment of a process."""
    marks: dict[bytes, str] = {}
    environment = _read(f"/proc/{pid}/environ")
    if b"FAIRWAY_" not in environment:
        return None
    for entry in environment.split(b"\0"):
        name, _, value = entry.partition(b"=")
        marks.setdefault(name, os.fsdecode(value))
    token, process_id = marks.get(SUPERVISOR_MARK.encode()), marks.get(PROCESS_MARK.encode())
    return None if token is None or process_id is None else (token, process_id)


def command_of(pid: int) -> list[str]:
    """The arguments of a process; those of its parent as long as it has not begun its own program."""
    return os.fsdecode(_read(f"/proc/{pid}/cmdline")).rstrip("\0").split("\0")


def all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - names, not paths


def own_children() -> list[int]:
    """The processes whose parent this one is: those it started, and the orphans it adopted, ended ones too."""
    pid = os.getpid()
    try:
        with open(f"/proc/self/task/{pid}/children", "rb") as file:  # noqa: PTH123 - often, and cheaper so
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [child for child in all_pids() if (stat := read_stat(child)) is not None and stat.parent == pid]


def machine() -> str:
    """Differs after a restart of the machine, and in another container: pids then mean something else."""
    boot = _read("/proc/sys/kernel/random/boot_id").decode().strip()
    first = read_stat(1)
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}/{first.birth if first else 0}"  # noqa: PTH115


def _read(path: str) -> bytes:
    """Empty where there is nothing to read, or no right to."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = b""
        while len(data) < _LARGEST and (piece := os.read(file, 64 * 1024)):
            data += piece
    except OSError:  # it ended in between
        return b""
    else:
        return data
    finally:
        os.close(file)
