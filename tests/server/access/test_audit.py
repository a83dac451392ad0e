"""The audit log: what it says, what it never says, and what happens when the disk does not play along."""

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.server.access import audit
from fairway.server.access.audit import AuditEntry, AuditLog

TIME = datetime(2026, 11, 16, 8, 30, 0, 123456, tzinfo=UTC)


def entry(name: str = "train", user: str = "ben") -> AuditEntry:
    return AuditEntry(time=TIME, user=user, verb="create", group="batch", resource="jobs", code=201, name=name)


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]


def test_a_line_says_who_did_what_to_which_object_and_how_it_ended(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.record(
        AuditEntry(
            time=TIME, user="ben", verb="patch", group="batch", resource="jobs", code=200, subresource="status",
            namespace="research", name="train", source="127.0.0.1:5312", dry_run=True, resource_version="42",
            duration=0.25,
        )
    )  # fmt: skip
    log.close()

    assert lines(tmp_path) == [
        {
            "time": "2026-11-16T08:30:00.123456Z", "user": "ben", "verb": "patch", "group": "batch", "resource": "jobs",
            "code": 200, "subresource": "status", "namespace": "research", "name": "train", "source": "127.0.0.1:5312",
            "dryRun": True, "resourceVersion": "42", "duration": 0.25,
        }
    ]  # fmt: skip


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    AuditLog(tmp_path).close()

    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


def test_lines_are_written_without_being_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Event()
    append = AuditLog._append

    def append_and_tell(log: AuditLog, data: bytes) -> None:
        append(log, data)
        written.set()

    monkeypatch.setattr(AuditLog, "_append", append_and_tell)
    log = AuditLog(tmp_path, write_every=0.001)
    for name in ("first", "second"):
        log.record(entry(name))
        assert written.wait(10)
        assert lines(tmp_path)[-1]["name"] == name
        written.clear()
    log.close()
    log.close()  # again does nothing


def test_entries_come_in_order_and_none_is_missing(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, write_every=0.0001)
    for number in range(5000):
        log.record(entry(str(number)))
    log.close()

    assert [line["name"] for line in lines(tmp_path)] == [str(number) for number in range(5000)]
    assert log.lost == 0


@given(text=st.text(st.characters(exclude_categories=()), max_size=30))
def test_nothing_that_is_sent_breaks_out_of_its_line(text: str) -> None:
    line = audit._line(entry(name=text, user=text))

    assert line.count(b"\n") == 1
    assert line.isascii()
    assert min(line[:-1]) >= 0x20
    assert json.loads(line)["user"] == text


def test_long_values_are_cut(tmp_path: Path) -> None:
    line = json.loads(audit._line(entry(name="x" * 100_000)))

    assert line["name"] == "x" * 256 + "…"


def test_a_full_file_is_put_aside_and_only_so_many_are_kept(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, largest_file=300, files=3, write_every=0)
    for number in range(12):
        log._append(audit._line(entry(str(number))))
    log.close()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(path.stat().st_size <= 300 for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    assert [line["name"] for line in lines(tmp_path)][-1] == "11"
    older = [json.loads(line)["name"] for line in (tmp_path / "audit.log.1").read_text().splitlines()]
    assert older[-1] == str(int(str(lines(tmp_path)[0]["name"])) - 1)


def test_a_line_cut_short_by_a_crash_does_not_spoil_the_next(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_text('{"time":"2026')
    log = AuditLog(tmp_path)
    log.record(entry())
    log.close()

    cut, whole = (tmp_path / "audit.log").read_text().splitlines()
    assert cut == '{"time":"2026'
    assert json.loads(whole)["name"] == "train"


def test_when_too_much_waits_entries_are_given_up_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_MOST_PENDING", 3)
    log = AuditLog(tmp_path, write_every=60)
    for number in range(5):
        log.record(entry(str(number)))
    log.close()

    assert [line.get("name") or line for line in lines(tmp_path)] == ["0", "1", "2", {"lost": 2}]
    assert log.lost == 2


def test_a_full_disk_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditLog(tmp_path, write_every=60)
    log.record(entry())
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, log._file)
    os.close(full)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # /dev/full has nothing to make durable
    log.close()

    assert log.lost == 1
    assert "The audit log cannot be written; 1 lines are lost" in caplog.text
