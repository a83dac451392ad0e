"""`python -m fairway.runner.supervising DIRECTORY [SETTINGS]`: becomes the supervisor of a state directory.

Returns when there is one that can be connected to: 0 if this is it, which lives on in the background, and `HELD` if
another one has the directory.
"""

import ctypes
import os
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec

from fairway.runner.supervising import proc, spawning
from fairway.runner.supervising.cgroups import Cgroups
from fairway.runner.supervising.journal import Journal
from fairway.runner.supervising.loop import Loop, note
from fairway.runner.supervising.places import (
    HELD,
    Enforceable,
    SupervisorSettings,
    folder_of,
    limits_of,
    socket_of,
    through,
)
from fairway.runner.supervising.supervisor import Supervisor
from fairway.runtime.lease import AlreadyRunning, Hold

_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    directory = sys.argv[1]
    settings = msgspec.json.decode(sys.argv[2] if len(sys.argv) > 2 else "{}", type=SupervisorSettings)
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        said = os.read(ready, 1)
        os._exit(said[0] if said else 1)
    os.close(ready)
    os.chdir("/")
    try:
        with Hold.acquire(folder_of(Path(directory))):
            _serve(directory, settings, tell)
    except AlreadyRunning:
        os.write(tell, bytes([HELD]))
    except Exception:  # noqa: BLE001 - the last one who can say what went wrong
        note(f"ended: {traceback.format_exc()}")
        os._exit(1)


def _serve(directory: str, settings: SupervisorSettings, tell: int) -> None:
    """With the hold on the directory, so everything in it that belongs to a supervisor is ours."""
    _adopt_orphans()
    spawning.prepare(settings.soft_files)
    folder = folder_of(Path(directory))
    journal = Journal(folder / "journal", proc.machine(), time.time())
    cgroups = Cgroups.of_this_machine(f"fairway-{journal.token}")
    _say_limits(folder, cgroups)
    listener = _listen(Path(directory))
    os.write(tell, b"\0")
    os.close(tell)
    try:
        Supervisor(Loop(), journal, cgroups, listener, settings, directory).run()
    finally:
        socket_of(Path(directory)).unlink(missing_ok=True)
        listener.close()
        cgroups.close()
        journal.close()


def _say_limits(folder: Path, cgroups: Cgroups) -> None:
    """For `fairway doctor`: what can be enforced here, and why the rest cannot."""
    said = limits_of(folder)
    with suppress(OSError):
        said.touch(mode=0o600)
        said.write_bytes(msgspec.json.encode(Enforceable(controllers=cgroups.controllers, note=cgroups.note)))


def _listen(directory: Path) -> socket.socket:
    path = socket_of(directory)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with through(path.parent) as short:
            listener.bind(f"{short}/{path.name}")
    finally:
        os.umask(before)
    listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
    listener.listen(64)
    return listener


def _adopt_orphans() -> None:
    """A process whose parent ends becomes a child of this one, so nothing that a job starts can get away."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel does not support PR_SET_CHILD_SUBREAPER")


if __name__ == "__main__":
    main()
