"""The state directory belongs to one user: it holds tokens, keys and what jobs wrote.

A directory that its group or others may enter, or that belongs to another user, is refused and not changed
here, because its permissions may be intended.
"""

import os
import shlex
import stat
from pathlib import Path

from fairway.errors import FairwayError

_OTHERS = 0o077


class NotPrivateError(FairwayError):
    """Another user can get at the directory, or owns it."""


def make_private(directory: Path) -> None:
    """Create a directory for its owner alone (mode 0700), or check that an existing one is."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(directory)


def check_private(directory: Path) -> None:
    """Raise `NotPrivateError` unless the directory is ours alone."""
    found = exposure(directory)
    if found is not None:
        problem, way_out = found
        raise NotPrivateError(f"the state directory {problem}; {way_out}")


def exposure(directory: Path) -> tuple[str, str] | None:
    """What exposes an existing directory to other users, and the way out; `None` if nothing does."""
    found = directory.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        return (
            f"{directory} belongs to {_user_name(found.st_uid)}, and this is {_user_name(os.geteuid())}",
            "choose one of your own with --state or $FAIRWAY_STATE",
        )
    if mode & _OTHERS:
        return (
            f"{directory} can be read by others (mode {mode:04o}): it holds tokens and keys",
            f"chmod 700 {shlex.quote(str(directory))}",
        )
    return None


def _user_name(uid: int) -> str:
    import pwd  # noqa: PLC0415 - only for the message

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"
