"""The protocol of server and supervisor: JSON messages, each after its length in four bytes.

A server sends `Hello` with the versions of this protocol that it speaks. The answer is `Welcome`, then `KnownProcesses`
and `Complete`; or `Rejected`, with what to do. These and the framing stay as they are in every version, so that any two
can at least say why they cannot talk. After that each request carries a number and is answered by `Done` with that
number once it has been taken over; `Changed` comes whenever a process started or ended.
"""

import struct
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from fairway.runner.processes import Process, ProcessSpec

VERSION = 1
LARGEST_MESSAGE = 32 * 1024 * 1024
"""In bytes; far more than a process's arguments and environment can have."""

LONGEST_ID = 1024
LONGEST_GRACE = 1e9

Seconds = Annotated[float, Meta(ge=0, le=LONGEST_GRACE)]

_LENGTH = struct.Struct(">I")


class Hello(Struct, frozen=True, tag="hello"):
    versions: tuple[int, ...]


class StartRequest(Struct, frozen=True, tag="start"):
    number: int
    launch: ProcessSpec


class StopRequest(Struct, frozen=True, tag="stop"):
    number: int
    id: str
    grace_seconds: Seconds


class ForgetRequest(Struct, frozen=True, tag="forget"):
    number: int
    id: str


class ShutdownRequest(Struct, frozen=True, tag="shutdown"):
    """Stop everything, then end."""

    number: int
    grace_seconds: Seconds


class Welcome(Struct, frozen=True, tag="welcome", kw_only=True):
    version: int
    build: str
    """The release of Fairway that the supervisor is from."""

    pid: int
    instance: str
    """Another one than last time: the supervisor was replaced by a new one in between."""

    limits_note: str
    makes_homes: bool = False
    """Whether it makes the `home` of a launch; one that does not was never told of any."""


class KnownProcesses(Struct, frozen=True, tag="known"):
    processes: tuple[Process, ...]


class Complete(Struct, frozen=True, tag="complete"):
    pass


class Changed(Struct, frozen=True, tag="changed"):
    process: Process


class Done(Struct, frozen=True, tag="done"):
    number: int


class StartDeferredReply(Struct, frozen=True, tag="homeless"):
    """Instead of `Done`: nothing was started, because a resource of this machine has run out."""

    number: int
    reason: str


class Rejected(Struct, frozen=True, tag="refused"):
    """The connection ends here; the text is for people."""

    reason: str


Request = Hello | StartRequest | StopRequest | ForgetRequest | ShutdownRequest
Answer = Welcome | KnownProcesses | Complete | Changed | Done | StartDeferredReply | Rejected

_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


class BadMessage(Exception):
    """What came is not of this protocol."""


def frame(message: Request | Answer) -> bytes:
    """A message as it travels."""
    data = _encoder.encode(message)
    if len(data) > LARGEST_MESSAGE:
        raise ValueError(f"a message of {len(data)} bytes is larger than {LARGEST_MESSAGE}, the limit")
    return _LENGTH.pack(len(data)) + data


def request(data: bytes) -> Request:
    try:
        return _requests.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"not a request: {error}") from error


def answer(data: bytes) -> Answer:
    try:
        return _answers.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"not an answer: {error}") from error


def fault_of(launch: ProcessSpec) -> str:
    """Why a request is invalid; empty if it is valid. Whether the program can be started is checked later."""
    if not 0 < len(launch.id) <= LONGEST_ID or not launch.id.isprintable():
        return f"the identity of a process is 1 to {LONGEST_ID} printable characters, not {launch.id[:64]!r}"
    if not launch.log.startswith("/") or "\0" in launch.log:
        return f"log {launch.log!r}: give an absolute path"
    if not launch.cwd.startswith("/"):
        return f"cwd {launch.cwd!r}: give an absolute path"
    if launch.home and not launch.home.startswith("/"):
        return f"home {launch.home!r}: give an absolute path"
    limits = launch.limits
    amounts = (limits.cpu_millis, limits.cpu_share_millis, limits.memory_bytes)
    if any(amount is not None and not 0 < amount < 2**63 for amount in amounts):
        return f"limits {limits!r}: a limit must be greater than 0, or absent"
    return ""


class Frames:
    """Cuts what arrives into messages, wherever the pieces begin and end."""

    __slots__ = ("_data", "_read")

    def __init__(self) -> None:
        self._data = bytearray()
        self._read = 0

    def feed(self, data: bytes) -> None:
        if self._read:
            del self._data[: self._read]
            self._read = 0
        self._data += data

    def __iter__(self) -> Iterator[bytes]:
        """The messages that are whole, each once; iteration can stop at any of them and continue later."""
        while (one := self._next()) is not None:
            yield one

    def _next(self) -> bytes | None:
        begin = self._read + _LENGTH.size
        if len(self._data) < begin:
            return None
        (length,) = _LENGTH.unpack_from(self._data, self._read)
        if length > LARGEST_MESSAGE:
            raise BadMessage(f"a message of {length} bytes is larger than {LARGEST_MESSAGE}, the limit")
        end = begin + length
        if len(self._data) < end:
            return None
        self._read = end
        return bytes(self._data[begin:end])
