"""The supervisor's journal: an append-only file of starts, ends and acknowledgements.

That a process is about to be started is written before it is, so a successor knows of everything that may have run.
Writes go to the operating system and survive the death of this process; only a new version of the whole file waits for
the disk, because after a power failure nothing of what was running is left anyway.
"""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from fairway.runner.processes import Ended, Process
from fairway.runner.supervising.loop import note

FORMAT = 1
_SMALL = 1024 * 1024
"""Bytes; a file below this size is never written anew."""


class Header(Struct, frozen=True, tag="journal", kw_only=True):
    format: int
    token: str
    """Marks the processes of this state directory in their environment."""

    machine: str
    directory: str
    """Which directory this is: in a copy of it, the processes of the original are not ours."""


class Begun(Struct, frozen=True, tag="begun"):
    """About to be started."""

    id: str


class Started(Struct, frozen=True, tag="started"):
    id: str
    pid: int
    at: float
    birth: int
    """The start of the process as the kernel counts it, which tells it from a later one with the same pid."""


class Over(Struct, frozen=True, tag="over"):
    process: Process


class Forgotten(Struct, frozen=True, tag="forgotten"):
    id: str


class Trace(Struct, frozen=True):
    """What to recognise a process by; no pid if the predecessor did not live to write it down."""

    pid: int | None = None
    birth: int | None = None


Record = Header | Begun | Started | Over | Forgotten

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


class Journal:
    """Every process that is not forgotten; changing one here is noting it in the file."""

    def __init__(self, path: Path, machine: str, now: float) -> None:
        """Takes over what is there. What ran on another machine, or before this one was restarted, is lost."""
        self._path = path
        self.processes: dict[str, Process] = {}
        self.traces: dict[str, Trace] = {}
        """Those that have not ended."""

        self._header = Header(format=FORMAT, token=secrets.token_hex(12), machine=machine, directory=_identity(path))
        self._load(now)
        self._unwritten: list[bytes] = []
        self._torn = False
        self._file = -1
        self._size = self._kept = 0
        self._write_anew()

    @property
    def token(self) -> str:
        return self._header.token

    def begun(self, process_id: str) -> None:
        """Raises `OSError` where that cannot be noted: then the process must not be started."""
        self._append(Begun(process_id))
        self.processes[process_id] = Process(id=process_id)
        self.traces[process_id] = Trace()

    def started(self, process_id: str, pid: int, at: float, birth: int) -> Process:
        process = self.processes[process_id] = Process(id=process_id, pid=pid, started_at=at)
        self.traces[process_id] = Trace(pid, birth)
        self._append_some_time(Started(process_id, pid, at, birth))
        return process

    def over(self, process_id: str, ended: Ended) -> Process:
        known = self.processes[process_id]
        process = Process(id=process_id, pid=known.pid, started_at=known.started_at, ended=ended)
        self.processes[process_id] = process
        self.traces.pop(process_id, None)
        self._append_some_time(Over(process))
        return process

    def forgotten(self, process_id: str) -> None:
        del self.processes[process_id]
        self.traces.pop(process_id, None)
        self._append_some_time(Forgotten(process_id))
        if self._size > _SMALL and self._size > 2 * self._kept:
            try:
                self._write_anew()
            except OSError as error:
                self._kept = self._size  # not again for a good while
                note(f"cannot rewrite {self._path}: {error}")

    def close(self) -> None:
        os.fsync(self._file)
        os.close(self._file)

    def _load(self, now: float) -> None:
        header: Header | None = None
        for record in _records(self._path):
            match record:
                case Header():
                    header = record
                case Begun(id=process_id):
                    self.processes[process_id] = Process(id=process_id)
                    self.traces[process_id] = Trace()
                case Started(id=process_id, pid=pid, at=at, birth=birth):
                    self.processes[process_id] = Process(id=process_id, pid=pid, started_at=at)
                    self.traces[process_id] = Trace(pid, birth)
                case Over(process=process):
                    self.processes[process.id] = process
                    self.traces.pop(process.id, None)
                case Forgotten(id=process_id):
                    self.processes.pop(process_id, None)
        if header is not None and header.directory == self._header.directory:
            self._header = msgspec.structs.replace(self._header, token=header.token)
            if header.machine == self._header.machine:
                return
        for process_id in self.traces:
            known = self.processes[process_id]
            self.processes[process_id] = msgspec.structs.replace(known, ended=Ended(at=now, lost=True))
        self.traces.clear()

    def _append(self, record: Record) -> None:
        self._write(_encoder.encode(record) + b"\n")

    def _append_some_time(self, record: Record) -> None:
        """What cannot be written now, as on a full disk, is written before the next record."""
        try:
            self._append(record)
        except OSError as error:
            note(f"cannot write {self._path}: {error}; retrying with the next record")
            self._unwritten.append(_encoder.encode(record) + b"\n")

    def _write(self, line: bytes) -> None:
        data = b"".join((b"\n" if self._torn else b"", *self._unwritten, line))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        finally:
            if written:
                self._torn = written < len(data)
            self._size += written
        self._unwritten.clear()

    def _write_anew(self) -> None:
        lines = [_encoder.encode(record) for record in self._living()]
        data = b"\n".join(lines) + b"\n"
        new = self._path.with_suffix(".new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "wb", closefd=False) as whole:
                whole.write(data)
            os.fsync(file)
            new.replace(self._path)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file = file
        self._size = self._kept = len(data)
        self._unwritten.clear()
        self._torn = False

    def _living(self) -> Iterable[Record]:
        yield self._header
        for process_id, process in self.processes.items():
            trace = self.traces.get(process_id)
            if trace is None:
                yield Over(process)
            elif trace.pid is None or trace.birth is None:
                yield Begun(process_id)
            else:
                yield Started(process_id, trace.pid, process.started_at or 0.0, trace.birth)


def _identity(path: Path) -> str:
    place = path.parent.stat()
    return f"{place.st_dev:x}:{place.st_ino:x}"


def _records(path: Path) -> Iterable[Record]:
    """What can be read: a line that the writer did not finish says of something that it did not do."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            note(f"{path}, line {number}: {error}; skipped")
