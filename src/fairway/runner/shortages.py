"""Resources that this machine can run out of: a start that fails so waits and is retried."""

import errno
import os
from typing import Final

_SENTENCES: Final = {
    errno.EMFILE: "no file descriptors are left for it (ulimit -n)",
    errno.ENFILE: "this machine has no file descriptors left (fs.file-max)",
    errno.EAGAIN: "no more processes are allowed (ulimit -u, pids.max of the control group, or kernel.pid_max)",
    errno.ENOMEM: "there is not enough memory",
    errno.ENOSPC: "there is no space left on the disk, or there are no inodes left",
    errno.EDQUOT: "the disk quota is used up",
}


class MachineExhausted(Exception):
    """Nothing was started, because a resource has run out; the text says which."""


def is_shortage(number: int | None) -> bool:
    """Whether an error number means that something is used up for the moment."""
    return number in _SENTENCES


def explained(error: OSError) -> str:
    """An error of the system as a sentence, with the file that it is about."""
    said = _SENTENCES.get(error.errno or 0) or os.strerror(error.errno or 0)
    return f"{error.filename}: {said}" if error.filename else said
