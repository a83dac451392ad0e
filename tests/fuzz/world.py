"""The whole API without a network: a store in memory and everything that keeps it tidy, called as a connection would.

    with World(tmp_path) as world:
        answer = world.ask("GET", "/api/v1/namespaces/default")

Whatever is asked, `ask` checks what must always hold of an answer: no code of a broken server, an error that explains
itself, nothing in the log that nobody expected.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from fairway.apis.registry import default_registry
from fairway.runtime.clock import SystemClock
from fairway.server import http
from fairway.server.access.audit import AuditLog
from fairway.server.access.roles import Binding, Role
from fairway.server.access.users import Users
from fairway.server.app import Api
from fairway.server.http.exchange import Headers
from fairway.server.limits import Limits
from fairway.server.responses import Response
from fairway.store.gc import EventExpiry, GarbageCollector, NamespaceKeeper
from fairway.store.log import Log
from fairway.store.memory import MemoryLog
from fairway.store.store import History, Store
from fairway.store.verbs import Objects

T = TypeVar("T")

_SECONDS_TO_ANSWER = 20.0
_CANARY = "/api/v1/namespaces/canary/configmaps/canary"
_READABLE = ("application/json", "application/vnd.kubernetes.protobuf", "application/com.github.proto-openapi")


class Answer(NamedTuple):
    """What came back for a request."""

    code: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: bytes) -> bytes:
        return next((value for known, value in self.headers if known == name), b"")


class _Wire(http.Exchange):
    """What a connection is for the API, without one: all that is sent goes to the client's end."""

    __slots__ = ("_client", "may_send")

    def __init__(self, client: "Exchange", method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        path, _, query = target.partition(b"?")
        super().__init__(method, path, query, list(headers), "127.0.0.1")
        self._client = client
        self.may_send = True

    @property
    def writable(self) -> bool:
        return self.may_send

    def respond(self, response: Response) -> None:
        if not self.finished and not self.gone:
            self.start(response.code, response.content_type, response.headers)
            self._client.take(b"" if self.method == "HEAD" else response.body)
            self._client.complete = True
        self._end()

    def start(self, code: int, content_type: bytes, headers: Headers = ()) -> None:
        assert not self._client.code, "the response began twice"
        self._client.begin(code, [(b"content-type", content_type), *headers])

    def write(self, data: bytes) -> None:
        if not self.finished and not self.gone:
            self._client.take(data)
            if self._client.hang_up_when_told and (b"watch=" in self.query or b"follow=" in self.query):
                asyncio.get_running_loop().call_soon(self.lose)

    def end(self) -> None:
        self._client.complete = not self.finished and not self.gone
        self._end()

    def abort(self) -> None:
        self._client.cut_off = True
        self._end()

    def _end(self) -> None:
        self.finished = True
        self._client.ended.set()


class Exchange:
    """One request on its way, and what came back for it."""

    def __init__(
        self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], pieces: Iterable[bytes]
    ) -> None:
        self._wire = _Wire(self, method, target, headers)
        self._pieces = [piece for piece in pieces if piece]
        self._news = asyncio.Event()
        self.ended = asyncio.Event()
        self.code = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.sent = bytearray()
        self.sizes: list[int] = []
        """Of the pieces in which it was sent."""

        self.complete = False
        self.cut_off = False
        self.unfinished = False
        """A client that never sends the end of the body."""

        self.hang_up_when_told = False
        """A client that listens only to what is there already."""

        self.task: asyncio.Task[None] | None = None

    async def ask(self, api: Api) -> None:
        """Pass the request on as a connection does, with the first piece of its body; done when it is answered."""
        wire = self._wire
        length = dict(wire.headers).get(b"content-length", b"0")
        for piece in self._pieces[:1]:
            wire.feed(piece)
        if len(self._pieces) < 2 and not self.unfinished and (self._pieces or length == b"0"):
            wire.feed_end()
        before = set(api._tasks)
        api.handle(wire)
        working = api._tasks - before
        for piece in self._pieces[1:]:
            await asyncio.sleep(0)
            wire.feed(piece)
        if not self.unfinished and not wire.complete:
            wire.feed_end()
        if working:
            await asyncio.wait(working)
        else:
            await self.ended.wait()

    def begin(self, code: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.code, self.headers = code, headers
        self._news.set()

    def take(self, data: bytes) -> None:
        assert self.code, "a body before its headers"
        self.sent += data
        self.sizes.append(len(data))
        self._news.set()

    def stop_reading(self) -> None:
        """The client takes nothing any more: the next `send` waits for ever."""
        self._wire.may_send = False

    def read_again(self) -> None:
        self._wire.may_send = True
        self._wire.wake()

    def hang_up(self) -> None:
        self._wire.lose()

    @property
    def is_hung_up(self) -> bool:
        return self._wire.gone

    async def until_said(self, text: bytes) -> None:
        """Wait until this is in the answer."""
        async with asyncio.timeout(_SECONDS_TO_ANSWER):
            while text not in self.sent:
                self._news.clear()
                await self._news.wait()

    async def until_begun(self) -> None:
        async with asyncio.timeout(_SECONDS_TO_ANSWER):
            while not self.code:
                self._news.clear()
                await self._news.wait()

    async def until_ended(self) -> None:
        assert self.task is not None
        async with asyncio.timeout(_SECONDS_TO_ANSWER):
            await self.task

    def events(self) -> list[dict[str, Any]]:
        """Of a watch: what was told, line by line."""
        return [json.loads(line) for line in self.sent.decode().splitlines()]


class _Listener(logging.Handler):
    """Keeps what should not have happened."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


def seconds_apart() -> Callable[[], datetime]:
    """A time of day that is a second later whenever it is asked for: nothing may be the same by being quick."""
    begun, asked = SystemClock().now(), itertools.count()
    return lambda: begun + timedelta(seconds=next(asked))


class World:
    """An API, an event loop to run it in, and an administrator who asks."""

    def __init__(
        self,
        state: Path,
        *,
        limits: Limits | None = None,
        history: History | None = None,
        log: Log | None = None,
    ) -> None:
        self.state = state
        self._log = log or MemoryLog()
        self._limits = limits
        self._history = history
        self._runner = asyncio.Runner()
        self._listener = _Listener()
        self._keepers: list[asyncio.Task[None]] = []
        self.token = ""

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self._listener)
        self.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.run(self._end())
        self._runner.close()
        logging.getLogger().removeHandler(self._listener)

    async def _start(self) -> None:
        self.store = Store(self._log, self._history)
        await self.store.start()
        self.objects = Objects(self.store, default_registry(), seconds_apart())
        namespaces = NamespaceKeeper(self.objects)
        keepers = (GarbageCollector(self.objects), namespaces, EventExpiry(self.objects))
        await namespaces.make_defaults()
        self._keepers = [asyncio.create_task(keeper.run()) for keeper in keepers]
        self.users = Users(self.state)
        self.token = self.add_user("admin", Binding(Role.ADMIN))
        self.audit = AuditLog(self.state)
        self.api = Api(self.objects, self.users, self.audit, self.state, self._limits)

    async def _end(self) -> None:
        self.api.end_streams()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self.audit.close()
        await self.store.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def add_user(self, name: str, *bindings: Binding) -> str:
        """A new user's token."""
        return self.users.add(name, bindings)

    def begin(
        self,
        method: str,
        target: str | bytes,
        body: Any = None,
        *,
        headers: Iterable[tuple[bytes, bytes]] = (),
        pieces: Iterable[bytes] = (),
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Exchange:
        """Send a request; inside the loop only. `pieces` is the body as it arrives, `body` one that is sent as JSON."""
        sent: list[tuple[bytes, bytes]] = [(b"content-type", content_type.encode("latin-1"))]
        token = self.token if token is None else token
        if token:
            sent.append((b"authorization", b"Bearer " + token.encode()))
        if body is not None:
            pieces = [body if isinstance(body, bytes) else json.dumps(body).encode()]
        target = target if isinstance(target, bytes) else target.encode()
        exchange = Exchange(method, target, [*sent, *headers], pieces)
        exchange.task = asyncio.create_task(exchange.ask(self.api))
        return exchange

    async def answer(self, method: str, target: str | bytes, body: Any = None, **how: Any) -> Answer:
        """The whole answer to a request; a stream is hung up on when it has nothing more to say for now."""
        exchange = self.begin(method, target, body, **how)
        exchange.hang_up_when_told = True
        await exchange.until_ended()
        answer = Answer(exchange.code, exchange.headers, bytes(exchange.sent))
        check(answer, method)
        return answer

    def ask(self, method: str, target: str | bytes, body: Any = None, **how: Any) -> Answer:
        """The same, from outside the loop, with a look at the log and at those who keep the store tidy."""
        self._listener.heard.clear()
        answer = self.run(self.answer(method, target, body, **how))
        self.check_calm()
        return answer

    def check_calm(self) -> None:
        """Nothing was logged that somebody would have to look at, and everybody is still at work."""
        assert self._listener.heard == []
        assert not any(keeper.done() for keeper in self._keepers)

    def place_canary(self) -> None:
        """An object that nobody touches: `check_canary` sees whether it sings as before."""
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "canary"}})
        manifest = {"metadata": {"name": "canary", "labels": {"a": "b"}}, "data": {"song": "tweet"}}
        self.ask("POST", _CANARY.rpartition("/")[0], manifest)
        self._song = self.ask("GET", _CANARY).body

    def check_canary(self) -> None:
        assert self.ask("GET", _CANARY).body == self._song
        made = self.ask("POST", "/api/v1/namespaces/canary/configmaps", {"metadata": {"generateName": "egg-"}})
        assert made.code == 201
        egg = f"/api/v1/namespaces/canary/configmaps/{made.json['metadata']['name']}"
        assert self.ask("DELETE", egg).code == 200


def check(answer: Answer, method: str) -> None:
    """What holds of every answer."""
    assert 200 <= answer.code < 500 or answer.code == 504, answer
    if method == "HEAD":
        assert answer.body == b""
        return
    if answer.code >= 400:
        check_status(answer)


def check_status(answer: Answer) -> None:
    """An error explains itself, in Kubernetes' way."""
    assert answer.header(b"content-type") == b"application/json", answer
    status = answer.json
    assert status["kind"] == "Status"
    assert status["apiVersion"] == "v1"
    assert status["status"] == "Failure"
    assert status["code"] == answer.code
    assert isinstance(status["reason"], str)
    assert status["reason"]
    assert isinstance(status["message"], str)
    assert status["message"]
    assert isinstance(status.get("details", {}), dict)
    if answer.code == 504:
        assert "Too large resource version" in status["message"]
    if answer.code == 429:
        assert answer.header(b"retry-after") == b"1"
