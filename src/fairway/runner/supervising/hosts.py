"""A file in the place of /etc/hosts, for one process and all that it starts.

The process gets a mount namespace of its own: as root at once, otherwise in a user namespace where its user stays who
it is. Where the system allows neither, the program begins with the machine's own /etc/hosts.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

_HOSTS: Final = b"/etc/hosts"
_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_BIND: Final = 0x1000
_RECURSIVE: Final = 0x4000
_SLAVE: Final = 0x80000
"""Flags of `unshare` and `mount`: what is mounted on the machine later appears here, and nothing the other way."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def use(file: str) -> None:
    """Put `file` in the place of /etc/hosts for this process; `OSError` if that is not allowed."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW_MOUNTS if user == 0 else _NEW_MOUNTS | _NEW_USERS)
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _call("mount", b"none", b"/", None, _RECURSIVE | _SLAVE, None)
    _call("mount", os.fsencode(file), _HOSTS, None, _BIND, None)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
