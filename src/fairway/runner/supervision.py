"""The server's client of the supervisor.

Nothing here decides anything: it finds the supervisor or starts one, keeps what it said, and asks again what was not
answered when a connection broke. A request may therefore arrive twice, which the supervisor does not mind.
"""

import asyncio
import logging
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from fairway import __version__
from fairway.errors import FairwayError
from fairway.runner.processes import Ended, Heard, Process, ProcessSpec, StartDeferred
from fairway.runner.supervising import messages
from fairway.runner.supervising.hunting import MODULE
from fairway.runner.supervising.places import HELD, SupervisorSettings, folder_of, log_of, make_home, socket_of, through
from fairway.runtime.clock import Clock

_log = logging.getLogger(__name__)

_SECONDS_TO_ANSWER = 30.0
"""For a supervisor to say what it holds; one that has to end a predecessor's processes first may need ten."""

_SECONDS_TO_BEGIN = 60.0
_ATTEMPTS = 3
_MOST_LOOKS = 300
"""How often to look for a supervisor that another server is starting just now, or that is just ending."""

_SECONDS_TO_HOLD_BACK = 0.05
"""How long a request without a waiter is delayed, to be sent with another one."""

_PAUSE = 0.05
_SECONDS_BETWEEN_ATTEMPTS = 1.0
_LARGE_LOG = 1024 * 1024
_SOFT_FILES, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
"""The limit that this process was given; the server raises its own later, and jobs get the one from before."""


class SupervisorFailed(FairwayError):
    """There is no supervisor to talk to; the text says why and what to do."""


class LocalSupervision:
    """The supervisor of a state directory on this machine."""

    def __init__(self, directory: Path, clock: Clock, settings: SupervisorSettings | None = None) -> None:
        """`directory` is the state directory; it is made if it is not there."""
        self._directory = directory.absolute()
        self._clock = clock
        self._settings = settings or SupervisorSettings(soft_files=_SOFT_FILES)
        self._processes: dict[str, Process] = {}
        self._heard: list[Heard] = []
        self._heard_lost: list[Callable[[], Awaitable[None]]] = []
        self._numbers = count(1)
        self._unanswered: dict[int, _PendingRequest] = {}
        self._held_back: list[bytes] = []
        """Requests without a waiter; they are sent with the next one, or soon."""

        self._link: _Link | None = None
        self._attaching = asyncio.Lock()
        self._instance: str | None = None
        self._closing = self._may_replace = self._makes_homes = self._will_send = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.limits_note = ""
        """Why CPU and memory limits are not enforced; empty if they are. Known once `connect` has returned."""

        self.supervisor_pid: int | None = None

    @property
    def processes(self) -> Mapping[str, Process]:
        return self._processes

    def on_change(self, heard: Heard) -> None:
        self._heard.append(heard)

    def on_lost(self, heard: Callable[[], Awaitable[None]]) -> None:
        self._heard_lost.append(heard)

    async def connect(self) -> None:
        """Raises `SupervisorFailed` if there is no supervisor, and none can be started."""
        self._closing = False
        await self._attach()

    async def start(self, launch: ProcessSpec) -> None:
        """Raises `ValueError` for invalid requests: an empty identity, a relative path."""
        if fault := messages.fault_of(launch):
            raise ValueError(fault)
        if launch.id not in self._processes:
            if launch.home and not self._makes_homes and (fault := make_home(launch.home)):
                raise StartDeferred(fault)
            await self._ask(messages.StartRequest(next(self._numbers), launch))

    async def stop(self, process_id: str, grace_seconds: float) -> None:
        process = self._processes.get(process_id)
        if process is None or process.ended is None:
            grace = min(max(0.0, grace_seconds), messages.LONGEST_GRACE)
            await self._ask(messages.StopRequest(next(self._numbers), process_id, grace))

    async def forget(self, process_id: str) -> None:
        """Forget ended processes; running ones are kept. The supervisor gets this with the next request."""
        process = self._processes.get(process_id)
        if process is None or process.ended is None:
            return
        del self._processes[process_id]
        request = messages.ForgetRequest(next(self._numbers), process_id)
        data = messages.frame(request)
        self._unanswered[request.number] = _PendingRequest(request, data, None)
        self._held_back.append(data)
        if not self._will_send:
            self._will_send = True
            self._clock.call_later(_SECONDS_TO_HOLD_BACK, self._send_held_back)

    async def shutdown(self, grace_seconds: float = 0.0) -> None:
        """Stop every process, and the supervisor when the last one has ended; this connection is closed then."""
        await self.connect()
        self._closing = True
        if self._link is not None:
            grace = min(max(0.0, grace_seconds), messages.LONGEST_GRACE)
            self._send(messages.frame(messages.ShutdownRequest(next(self._numbers), grace)))
            await asyncio.shield(self._link.gone)
        await self.close()

    async def close(self) -> None:
        """Disconnect; the supervisor and all processes keep running."""
        self._closing = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._link is not None:
            self._send()
            self._link.close()
            await asyncio.shield(self._link.gone)
        for unanswered in self._unanswered.values():
            _fail(unanswered.answered, SupervisorFailed("the connection to the supervisor was closed"))

    async def _ask(self, request: messages.StartRequest | messages.StopRequest) -> None:
        if self._instance is None or self._closing:
            raise SupervisorFailed("not connected to a supervisor; connect first")
        data = messages.frame(request)
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unanswered[request.number] = _PendingRequest(request, data, answered)
        try:
            self._send(data)
            await answered
        finally:
            del self._unanswered[request.number]

    def _send(self, data: bytes = b"") -> None:
        """Send this, and before it what was held back; where there is no connection, the next one begins with both."""
        if self._held_back:
            data = b"".join((*self._held_back, data))
            self._held_back.clear()
        if self._link is not None and data:
            self._link.send(data)

    def _send_held_back(self) -> None:
        self._will_send = False
        self._send()

    # Finding the supervisor

    async def _attach(self) -> None:
        """Connected, and everything known, when this returns."""
        async with self._attaching:
            if self._link is None:
                await self._find_or_begin()

    async def _find_or_begin(self) -> None:
        await asyncio.to_thread(self._make_place)
        self._may_replace = True  # once: Fairway may have been upgraded under a server that still runs
        failures = 0
        for _ in range(_MOST_LOOKS):
            link = await self._reach()
            if link is not None and await self._greet(link):
                return
            begun = HELD if link is not None else await asyncio.to_thread(self._begin)
            if begun == HELD:
                await asyncio.sleep(_PAUSE)
            elif begun != 0:
                failures += 1
                if failures == _ATTEMPTS:
                    log = log_of(self._directory)
                    raise SupervisorFailed(f"the supervisor did not start (code {begun}); {log} ends: {_last(log)}")
        raise SupervisorFailed(f"a process holds the lock of {folder_of(self._directory)} but does not answer; kill it")

    async def _reach(self) -> "_Link | None":
        """A connection, if a supervisor listens."""
        path = socket_of(self._directory)
        end = socket.socket(socket.AF_UNIX)
        try:
            end.setblocking(False)  # noqa: FBT003 - the standard library's signature
            with through(path.parent) as short:
                end.connect(f"{short}/{path.name}")
            _, link = await asyncio.get_running_loop().create_unix_connection(lambda: _Link(self), sock=end)
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            end.close()
            return None
        except BaseException:
            end.close()
            raise
        return link

    async def _greet(self, link: "_Link") -> bool:
        """Whether it told everything; if not, it went away, or made way for one of this release."""
        link.send(messages.frame(messages.Hello((messages.VERSION,))))
        try:
            async with asyncio.timeout(_SECONDS_TO_ANSWER):
                if await asyncio.shield(link.complete):
                    return True
                await asyncio.shield(link.gone)
        except TimeoutError:
            hold = folder_of(self._directory) / "lock"
            raise SupervisorFailed(f"the supervisor does not answer; {hold} has its process id") from None
        finally:
            if link is not self._link:
                link.close()
        if link.refusal:
            raise SupervisorFailed(link.refusal)
        return False

    def _make_place(self) -> None:
        for place in (self._directory, folder_of(self._directory)):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _begin(self) -> int:
        """Start a supervisor; the exit code of what starts it in the background."""
        path = log_of(self._directory)
        with suppress(FileNotFoundError):
            if path.stat().st_size > _LARGE_LOG:
                path.replace(f"{path}.1")
        settings = msgspec.json.encode(self._settings).decode()
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.run(  # noqa: S603 - this interpreter
                [sys.executable, "-P", "-m", MODULE, str(self._directory), settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                timeout=_SECONDS_TO_BEGIN,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise SupervisorFailed(
                f"the supervisor did not start within {_SECONDS_TO_BEGIN:.0f} s; see {path}"
            ) from error
        finally:
            os.close(log)

    # What it says

    def replaces(self, welcome: messages.Welcome, known: Mapping[str, Process]) -> bool:
        """Whether to let one of this release take its place, which touches nothing because nothing runs."""
        is_idle = all(process.ended is not None for process in known.values())
        replaces = self._may_replace and welcome.build != __version__ and is_idle
        self._may_replace = self._may_replace and not replaces
        return replaces

    def on_complete(self, link: "_Link", welcome: messages.Welcome, known: dict[str, Process]) -> None:
        """Handle the list of its processes: report missed changes, repeat unanswered requests."""
        first, replaced = self._instance is None, self._instance not in (None, welcome.instance)
        self._link, self._instance = link, welcome.instance
        self.limits_note, self.supervisor_pid = welcome.limits_note, welcome.pid
        self._makes_homes = welcome.makes_homes
        for request, _, _ in self._unanswered.values():
            if isinstance(request, messages.ForgetRequest):
                known.pop(request.id, None)
        for process in self._processes.values():
            if process.id not in known:
                lost = Ended(at=self._clock.now().timestamp(), lost=True)
                known[process.id] = process if process.ended else msgspec.structs.replace(process, ended=lost)
        before = dict(self._processes)
        self._processes.clear()
        self._processes.update(known)
        self._held_back.clear()
        for request, data, answered in self._unanswered.values():
            if isinstance(request, messages.StartRequest) and request.launch.id in known:
                _set(answered)
            else:
                link.send(data)
        if not first:
            for process in known.values():
                if process != before.get(process.id):
                    self._notify(process)
        if replaced:
            _log.warning("the supervisor of %s ended; its processes are lost", self._directory)
            self._run(self._notify_lost())

    def on_answer(self, answer: messages.Answer) -> None:
        match answer:
            case messages.Done(number=number):
                if unanswered := self._unanswered.get(number):
                    _set(unanswered.answered)
                    if unanswered.answered is None:
                        del self._unanswered[number]
            case messages.Changed(process=process):
                self._processes[process.id] = process
                self._notify(process)
            case messages.StartDeferredReply(number=number, reason=reason):
                if unanswered := self._unanswered.get(number):
                    _fail(unanswered.answered, StartDeferred(reason))
            case messages.Rejected(reason=reason):  # it does not say which; all may be asked again, by who knows why
                for unanswered in self._unanswered.values():
                    _fail(unanswered.answered, SupervisorFailed(f"the supervisor refused a request: {reason}"))

    def on_gone(self, link: "_Link") -> None:
        if link is self._link:
            self._link = None
            if not self._closing:
                self._run(self._reattach())

    async def _reattach(self) -> None:
        while True:
            try:
                await self._attach()
            except (SupervisorFailed, OSError):
                _log.exception("no supervisor for %s; retrying", self._directory)
                await self._clock.sleep(_SECONDS_BETWEEN_ATTEMPTS)
            else:
                return

    def _notify(self, process: Process) -> None:
        for heard in self._heard:
            try:
                heard(process)
            except Exception:  # noqa: BLE001 - the other listeners must be called too
                _log.exception("%s: a listener failed", process.id)

    async def _notify_lost(self) -> None:
        for heard in self._heard_lost:
            try:
                await heard()
            except Exception:  # noqa: BLE001 - the other listeners must be called too
                _log.exception("a listener for the end of the supervisor failed")

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _PendingRequest(NamedTuple):
    request: messages.StartRequest | messages.StopRequest | messages.ForgetRequest
    data: bytes
    answered: asyncio.Future[None] | None
    """`None` for a request without a waiter."""


async def end_jobs(directory: Path, clock: Clock, grace_seconds: float = 0.0) -> None:
    """End all processes that the supervisor of a state directory holds, and the supervisor itself."""
    supervision = LocalSupervision(directory, clock)
    await supervision.connect()
    await supervision.shutdown(grace_seconds)


async def end_if_idle(directory: Path, clock: Clock) -> int:
    """End the supervisor of a state directory if it holds no process; how many it holds."""
    supervision = LocalSupervision(directory, clock)
    await supervision.connect()
    running = sum(process.ended is None for process in supervision.processes.values())
    if running:
        await supervision.close()
    else:
        await supervision.shutdown()
    return running


class _Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, owner: LocalSupervision) -> None:
        loop = asyncio.get_running_loop()
        self.complete: asyncio.Future[bool] = loop.create_future()
        """Whether it sent the whole list and can be used."""

        self.gone: asyncio.Future[None] = loop.create_future()
        self.refusal = ""
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._frames = messages.Frames()
        self._welcome: messages.Welcome | None = None
        self._known: dict[str, Process] = {}

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        self._transport = None
        if not self.complete.done():
            self.complete.set_result(False)
        if not self.gone.done():
            self.gone.set_result(None)
        self._owner.on_gone(self)

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        try:
            for one in self._frames:
                self._take(messages.answer(one))
        except messages.BadMessage:
            _log.exception("the supervisor sent an invalid message")
            self.close()

    def _take(self, answer: messages.Answer) -> None:
        match answer:
            case _ if self.complete.done():
                self._owner.on_answer(answer)
            case messages.Welcome():
                self._welcome = answer
            case messages.KnownProcesses(processes=processes):
                self._known.update((process.id, process) for process in processes)
            case messages.Changed(process=process):
                self._known[process.id] = process
            case messages.Rejected(reason=reason):
                self.refusal = reason
            case messages.Complete() if self._welcome is not None:
                if self._owner.replaces(self._welcome, self._known):
                    self.send(messages.frame(messages.ShutdownRequest(0, 0.0)))
                    self.complete.set_result(False)
                else:
                    self.complete.set_result(True)
                    self._owner.on_complete(self, self._welcome, self._known)


def _set(answered: asyncio.Future[None] | None) -> None:
    if answered is not None and not answered.done():
        answered.set_result(None)


def _fail(answered: asyncio.Future[None] | None, error: FairwayError) -> None:
    if answered is not None and not answered.done():
        answered.set_exception(error)


def _last(path: Path) -> str:
    """The last line of a log."""
    try:
        return path.read_text(errors="replace").rstrip().rsplit("\n", 1)[-1]
    except OSError as error:
        return str(error)
