"""One process at a time: the others are other processes, killed for real."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairway.runtime.lease import AlreadyRunning, Hold, holder

HOLD = """
import sys
from pathlib import Path
from fairway.runtime.lease import Hold
hold = Hold.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process_holding(directory: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_hold_names_its_process_and_ends_with_release(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    with Hold.acquire(tmp_path) as hold:
        assert holder(tmp_path) == os.getpid()
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
        assert hold.directory == tmp_path
    assert holder(tmp_path) is None
    with Hold.acquire(tmp_path):
        pass


def test_asking_for_the_holder_leaves_no_trace(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_same_process_cannot_hold_twice(tmp_path: Path) -> None:
    with Hold.acquire(tmp_path), pytest.raises(AlreadyRunning) as refusal:
        Hold.acquire(tmp_path)

    assert refusal.value.pid == os.getpid()


def test_another_process_is_named_in_the_refusal(tmp_path: Path) -> None:
    with another_process_holding(tmp_path) as process:
        assert holder(tmp_path) == process.pid
        with pytest.raises(
            AlreadyRunning, match=f"is in use by process {process.pid}, which is still running"
        ) as error:
            Hold.acquire(tmp_path)
        assert error.value.pid == process.pid


def test_the_hold_of_a_killed_process_is_free_although_its_name_is_still_there(tmp_path: Path) -> None:
    with another_process_holding(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "lock").read_text() == f"{process.pid}\n"

    assert holder(tmp_path) is None
    with Hold.acquire(tmp_path):
        assert holder(tmp_path) == os.getpid()


@pytest.mark.parametrize("left_behind", [b"", b"not a pid", b"\xff\xfe\x00", b"1\n", b"99999999999999999999\n", b"-5"])
def test_what_is_left_in_the_file_means_nothing(tmp_path: Path, left_behind: bytes) -> None:
    (tmp_path / "lock").write_bytes(left_behind)

    assert holder(tmp_path) is None
    with Hold.acquire(tmp_path):
        assert holder(tmp_path) == os.getpid()


def test_a_holder_that_does_not_say_who_it_is_still_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.runtime.lease._SECONDS_TO_NAME_ITSELF", 0.02)
    with Hold.acquire(tmp_path):
        (tmp_path / "lock").write_text("scribble")
        with pytest.raises(AlreadyRunning, match="is in use by another process") as refusal:
            Hold.acquire(tmp_path)

    assert refusal.value.pid is None


def test_a_child_process_does_not_inherit_the_hold(tmp_path: Path) -> None:
    hold = Hold.acquire(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        hold.release()
        assert holder(tmp_path) is None
        child.communicate()


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    with Hold.acquire(tmp_path):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_directory_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Hold.acquire(tmp_path / "missing")
