"""Requests in the words of the API: get, create, patch, apply, delete, watch, stream, upload, transact."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Self
from urllib.parse import quote

import msgspec

from fairway import __version__
from fairway.client.rest import paths, refusals
from fairway.client.rest.access import Access
from fairway.client.rest.errors import AnswerLost, Garbled, Unreachable, Unreadable
from fairway.client.rest.http import Dropped, SyncConnection, SyncResponse
from fairway.client.rest.kubeconfig import Endpoint, load_context
from fairway.client.rest.wire import (
    JSON,
    LONGEST_EVENT,
    LONGEST_WAIT,
    PATCHES,
    Query,
    decode,
    decode_event,
    query_string,
    retry_after,
    warnings,
)
from fairway.errors import Forbidden, NotFound, Unavailable

if TYPE_CHECKING:
    from fairway.client.rest.websocket import Executed

PatchType = Literal["merge", "json", "strategic"]
Body = bytes | Callable[[], Iterable[bytes]] | None
"""Bytes, or what makes them piece by piece, once more if the request is sent once more."""

SILENT_SECONDS: Final = 60.0
_PATIENCE: Final = 60.0
"""How long a transaction whose answer was lost is sent again."""

_BETWEEN_TRIES: Final = 0.25
_MOST_WARNINGS: Final = 100
_PIECE: Final = 256 << 10


class Rest:
    """One server, as the user of one context. For one thread; others take a `clone`.

    Query parameters are keywords by their names in the API: `rest.get(path, labelSelector="a=b", limit=500)`. `None`
    leaves one out, and a `_` at the end is for names that Python has taken (`continue_`). Refusals are subclasses of
    `fairway.errors.ApiError`; no connection is `Unreachable`.
    """

    def __init__(self, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self._access = access
        self._sleep = sleep
        self._idle: SyncConnection | None = None
        self._connections: set[SyncConnection] = set()
        self._aborted = False
        self.context = access.context.name
        self.user = access.context.user_name
        """As the kubeconfig calls it."""

        self.namespace = access.context.namespace
        """Of the context; `default` if it names none."""

        self.silent_seconds = SILENT_SECONDS
        """So long the server may say nothing before it is given up; those who watch and follow wait for ever."""

        self.warnings: list[str] = []
        """Recent warnings of the server; the printer clears them."""

    @property
    def server(self) -> str:
        """Its URL, as the kubeconfig has it."""
        return self._access.context.endpoint.url

    @property
    def endpoint(self) -> Endpoint:
        """Where the server is and whose certificate it shows, as the kubeconfig has it."""
        return self._access.context.endpoint

    def get(self, path: str, **query: Query) -> Any:
        return self._json("GET", path, query)

    def create(self, path: str, manifest: Mapping[str, Any], **query: Query) -> Any:
        return self._json("POST", path, query, msgspec.json.encode(manifest), JSON)

    def replace(self, path: str, manifest: Mapping[str, Any], **query: Query) -> Any:
        return self._json("PUT", path, query, msgspec.json.encode(manifest), JSON)

    def patch(self, path: str, patch: Any, *, patch_type: PatchType = "merge", **query: Query) -> Any:
        return self._json("PATCH", path, query, msgspec.json.encode(patch), PATCHES[patch_type])

    def apply(
        self, path: str, manifest: Mapping[str, Any], *, manager: str, force: bool = False, **query: Query
    ) -> Any:
        """Server-side apply, in the name of a manager; `force` takes fields over from others."""
        query = {"fieldManager": manager, "force": force or None, **query}
        return self._json("PATCH", path, query, msgspec.json.encode(manifest), PATCHES["apply"])

    def delete(self, path: str, body: Mapping[str, Any] | None = None, **query: Query) -> Any:
        """Delete one object, or all of a list; `body` are DeleteOptions."""
        if body is None:
            return self._json("DELETE", path, query)
        return self._json("DELETE", path, query, msgspec.json.encode(body), JSON)

    def upload(self, path: str, file: BinaryIO, size: int, content_type: str = "application/gzip") -> Any:
        """Send a file, from where it stands, piece by piece; `size` is what is left of it."""
        start = file.tell()

        headers = [("Content-Type", content_type), ("Content-Length", str(size))]
        answer = self._read(self._asked("PUT", path, {}, lambda: _pieces_of(file, start, size), headers))
        return decode(answer, self.server) if answer else None

    def execute(
        self,
        path: str,
        container: str,
        command: Sequence[str],
        file: BinaryIO,
        size: int,
        progress: Callable[[int], None] = lambda _sent: None,
        seconds: float = SILENT_SECONDS,
    ) -> "Executed":
        """Run a command in a container of the pod at this path (`pods/exec`), with the next `size` bytes of a file as
        its standard input; `seconds` is how long it may be silent afterwards."""
        from fairway.client.rest import websocket  # noqa: PLC0415 - for large files only

        words = "&".join(f"command={quote(word, safe='')}" for word in command)
        key = websocket.new_key()
        query: dict[str, Query] = {"container": container, "stdin": True, "stdout": True, "stderr": True}
        response = self._asked("GET", f"{path}/exec?{words}", query, headers=websocket.handshake(key), accept="*/*")
        connection = response.connection
        try:
            if not websocket.is_accepted(response.status, response.headers, key):
                raise Garbled(
                    f"{self.server} does not open a WebSocket for exec (HTTP {response.status}); it is needed to send "
                    "files to a pod. Kubernetes 1.30 and later do, unless a proxy in between does not let it through"
                )
            stream, received = connection.taken_over()
            exec_stream = websocket.ExecStream(stream, self.server, seconds)
            return exec_stream.run(received, _pieces_of(file, file.tell(), size), progress)
        finally:
            connection.close()
            self._connections.discard(connection)

    def exists(self, path: str) -> bool:
        """Whether there is something (HEAD).

        False also if one may not look: the answer to HEAD has no words, that to the request that follows has.
        """
        try:
            self._read(self._asked("HEAD", path, {}))
        except (NotFound, Forbidden):
            return False
        return True

    def raw(self, path: str, accept: str = "*/*", **query: Query) -> bytes:
        """An answer as it comes."""
        return self._read(self._asked("GET", path, query, accept=accept))

    def watch(self, path: str, *, accept: str = JSON, **query: Query) -> Generator[dict[str, Any], None, None]:
        """The events of a watch, until the server ends it; an ERROR event is raised as what it says, such as `Expired`.

        Closing it hangs up. It has a connection of its own, so other requests may be sent meanwhile.
        """
        return self._events(self._asked("GET", path, {**query, "watch": True}, accept=accept, lasting=True))

    def stream(self, path: str, **query: Query) -> Generator[bytes, None, None]:
        """What comes, as it comes, until the server ends it; closing it hangs up."""
        return self._streamed(self._asked("GET", path, query, accept="*/*", lasting=True))

    def transact(
        self,
        namespace: str,
        operations: Sequence[Mapping[str, Any]],
        on_retry: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """Several writes in one commit, all or nothing; the results in their order, `None` for what is gone.

        It has an idempotency key: if the answer is lost it is sent again, for a minute, and never carried out twice.
        """
        spec = {"idempotencyKey": os.urandom(16).hex(), "operations": operations}
        body = msgspec.json.encode({"apiVersion": "fairway.dev/v1alpha1", "kind": "Transaction", "spec": spec})
        path = paths.transactions(namespace)
        try:
            answer = self._json("POST", path, {}, body, JSON)
        except AnswerLost as lost:
            answer = self._sent_again(path, body, lost, on_retry)
        results = (answer.get("status") or {}).get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise Garbled(f"{self.server} answered a transaction without its results")
        return results

    def _sent_again(self, path: str, body: bytes, lost: Unreachable, on_retry: Callable[[], None]) -> Any:
        """The answer to a transaction whose answer was lost."""
        on_retry()
        left = _PATIENCE
        while left > 0 and not self._aborted:
            self._sleep(_BETWEEN_TRIES)
            left -= _BETWEEN_TRIES
            try:
                return self._json("POST", path, {}, body, JSON)
            except (Unreachable, Unavailable):
                self._access.moved()  # a restarted server may listen elsewhere
        raise AnswerLost(
            f"{lost}; the response was lost, and the request may have been applied: check before you repeat it"
        ) from lost

    def clone(self) -> "Rest":
        """The same for another thread, on a connection of its own."""
        other = Rest(self._access, self._sleep)
        other.silent_seconds = self.silent_seconds
        return other

    def abort(self) -> None:
        """For good, and from any thread: whatever waits for the server ends with `Unreachable`."""
        self._aborted = True
        for connection in list(self._connections):
            connection.abort()

    def close(self) -> None:
        """Hang up. The next request would connect again."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._idle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking

    def _json(self, method: str, path: str, query: Mapping[str, Query], body: Body = None, content: str = "") -> Any:
        headers = [("Content-Type", content)] if content else []
        return decode(self._read(self._asked(method, path, query, body, headers)), self.server)

    def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, Query],
        body: Body = None,
        headers: Sequence[tuple[str, str]] = (),
        *,
        accept: str = JSON,
        lasting: bool = False,
    ) -> SyncResponse:
        """Send a request until it is answered with yes, or with a no that waiting does not change."""
        target = f"{path}{query_string(query, path)}"
        sent = [("User-Agent", f"fairway/{__version__}"), ("Accept", accept), *headers]
        seconds = None if lasting else self.silent_seconds
        waited, renewed = 0.0, False
        while True:
            response = self._sent(method, target, sent, body, seconds)
            if 200 <= response.status < 300 or response.status == 101:
                self.warnings += warnings(response.headers)
                del self.warnings[:-_MOST_WARNINGS]
                return response
            if 300 <= response.status < 400:
                raise self._not_the_api(response)
            error = refusals.refusal(response.status, self._read(response), f"{method} {path}")
            if error.code == 401 and not renewed and self._access.renew():
                renewed = True
                self.close()  # a certificate that is no longer good belongs to the connection
                continue
            pause = retry_after(method, response.status, response.headers)
            if pause is None or waited + pause > LONGEST_WAIT:
                raise error
            self._sleep(pause)
            waited += pause

    def _sent(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: Body, seconds: float | None
    ) -> SyncResponse:
        repeatable = method in {"GET", "HEAD"}
        for attempt in range(3):
            connection = self._taken()
            everything = [*headers, *self._access.headers()]
            whole = f"{self._access.context.endpoint.base}{target}"
            try:
                return connection.request(method, whole, everything, body() if callable(body) else body, seconds)
            except BaseException as error:
                self._connections.discard(connection)
                if attempt == 0 and repeatable and isinstance(error, Dropped):
                    continue
                moved = isinstance(error, Unreachable) and not self._aborted and self._access.moved()
                if not (moved and repeatable and attempt < 2):
                    raise
        raise AssertionError("the last try returns or raises")

    def _taken(self) -> SyncConnection:
        connection, self._idle = self._idle, None
        if connection is not None and (connection.is_stale() or connection.address is not self._access.address()):
            connection.close()
            self._connections.discard(connection)
            connection = None
        if connection is None:
            connection = SyncConnection(self._access.address())
            self._connections.add(connection)
        if self._aborted:
            connection.close()
            raise Unreachable(f"{self.server} is no longer used: the client was closed")
        return connection

    # Reading

    def _read(self, response: SyncResponse) -> bytes:
        return b"".join(self._streamed(response))

    def _streamed(self, response: SyncResponse) -> Generator[bytes, None, None]:
        connection = response.connection
        try:
            yield from response.stream()
        finally:
            if connection.usable and self._idle is None:
                self._idle = connection
            else:
                connection.close()
                self._connections.discard(connection)

    def _events(self, response: SyncResponse) -> Generator[dict[str, Any], None, None]:
        held = b""
        for piece in self._streamed(response):
            *lines, held = (held + piece).split(b"\n")
            if len(held) > LONGEST_EVENT:
                raise Garbled(f"{self.server} sent an event of more than {LONGEST_EVENT >> 20} MiB")
            for line in lines:
                if line.strip():
                    yield decode_event(line, self.server)

    def _not_the_api(self, response: SyncResponse) -> Garbled:
        to = response.headers.get("location", "elsewhere")[:200]
        response.connection.close()
        return Garbled(f"{self.server} redirects to {to!r}; give the address of the API server itself")


def _pieces_of(file: BinaryIO, start: int, size: int) -> Generator[bytes, None, None]:
    """So many bytes of a file."""
    left = size
    try:
        file.seek(start)
        while left:
            piece = file.read(min(_PIECE, left))
            if not piece:
                raise Unreadable(f"the file to be sent has {left} bytes less than it had; was it changed?")
            left -= len(piece)
            yield piece
    except OSError as error:
        raise Unreadable(f"the file to be sent cannot be read: {error.strerror}") from error


def open_rest(kubeconfig: Path | str, context: str = "") -> Rest:
    """The server of a context, of the current one unless named; `KubeconfigError` if the files cannot be used.

    `kubeconfig` is a file, or several with `:` between them as in `$KUBECONFIG`; if it is empty, the service account
    of this pod is used. Nothing is sent yet.
    """
    found = load_context(kubeconfig, context)
    # By its name: the current context may be another one by then.
    return Rest(Access(found, reread=lambda: load_context(kubeconfig, found.name)))
