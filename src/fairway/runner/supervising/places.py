"""Paths and settings of the supervisor of a state directory, shared by both ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from fairway.runner.shortages import explained

HELD = 3
"""The exit code of a supervisor that was not needed, because there is one."""


class SupervisorSettings(Struct, frozen=True, kw_only=True):
    """What can be set about a supervisor."""

    idle_seconds: float = 30.0
    """It ends when nothing has run and no server was connected for so long."""

    log_limit_bytes: int = 10 * 1024 * 1024
    soft_files: int | None = None
    """How many files programs may have open (the soft limit); `None` for as many as the supervisor was given."""


class Enforceable(Struct, frozen=True, kw_only=True):
    """What a supervisor can enforce with control groups, as it notes it in its folder."""

    controllers: dict[str, int]
    """`cpu`, `memory`: the version of control groups that does it."""

    note: str = ""
    """Why something cannot be enforced."""


def limits_of(folder: Path) -> Path:
    return folder / "limits"


def folder_of(directory: Path) -> Path:
    """What belongs to the supervisor alone: its hold, its journal and its socket."""
    return directory / "supervisor"


def socket_of(directory: Path) -> Path:
    return folder_of(directory) / "socket"


def log_of(directory: Path) -> Path:
    return directory / "supervisor.log"


def make_home(path: str) -> str:
    """Make a directory for its owner alone, if it is not there; why that cannot be done, or nothing."""
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102 - for every process, and several times faster than a Path's
    except FileExistsError:
        return ""
    except OSError as error:
        return explained(error)
    except ValueError as error:
        return str(error)
    return ""


@contextmanager
def through(folder: Path) -> Iterator[str]:
    """A short name for a directory: the address of a socket has at most 107 bytes, a path may be longer."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)
