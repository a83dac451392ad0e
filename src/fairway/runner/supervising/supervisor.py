"""The supervisor: starts, stops and reports processes.

A process has ended when its main process has ended and nothing that it started is left: as in a container, what is left
is killed. All orphans become children of the supervisor, so whatever is left of a process is found among its children,
or below one of them once that has been killed in turn. Whose an orphan is, its environment says, or its session, or its
control group. One that gives no sign at all can only belong to one of those that were running when it was first seen;
it is killed with the last of these that it may belong to.
"""

import errno
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import islice

import msgspec

from fairway import __version__
from fairway.runner.processes import Ended, Process, ProcessLimits, ProcessSpec
from fairway.runner.shortages import MachineExhausted, explained
from fairway.runner.supervising import messages, proc, sharing, spawning
from fairway.runner.supervising.cgroups import Cgroup, Cgroups
from fairway.runner.supervising.connections import ServerConnection
from fairway.runner.supervising.hunting import Hunt
from fairway.runner.supervising.journal import Journal
from fairway.runner.supervising.loop import READABLE, Loop, note
from fairway.runner.supervising.output import STREAMS, LogFile, OpenLogs, Pipe
from fairway.runner.supervising.places import SupervisorSettings, make_home

MOST_CONNECTIONS = 16
_SECONDS_TO_SHUT_DOWN = 10.0
"""For all processes, when the supervisor gets a SIGTERM."""

_PROCESSES_AT_ONCE = 1000
_SECONDS_FOR_THE_FIRST = 10.0
"""At least so long a new supervisor waits for the server that started it."""

_UNLIMITED = ProcessLimits()
_OUT_OF_REACH = ""
"""The owner of orphans that this user may not end."""

_SECONDS_TO_RECOVER = 10.0
"""A server that comes while strays are being killed waits for that, but not longer than this."""


class Held:
    """One process that has not ended yet."""

    __slots__ = ("deadline", "ended", "failure", "group", "id", "log", "pid", "pipes", "told", "unbegun")

    def __init__(self, process_id: str, pid: int, log: LogFile, pipes: list[Pipe]) -> None:
        self.id = process_id
        self.pid = pid
        self.log = log
        self.pipes = pipes
        self.group: Cgroup | None = None
        self.failure: int | None = None
        """Where a confined process says why it could not begin its program; `None` once it is known."""

        self.unbegun = ("", False)
        """Why it could not, and whether because a resource has run out."""

        self.deadline: float | None = None
        """The end of its grace period, after it was asked to stop."""

        self.ended: Ended | None = None
        """How its main process ended; something that it started may be left."""

        self.told: set[int] = set()
        """Orphans that were asked to stop."""


class Supervisor:
    """All processes of one state directory."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        cgroups: Cgroups,
        listener: socket.socket,
        settings: SupervisorSettings,
        directory: str,
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._cgroups = cgroups
        self._mover = sharing.Mover()
        self._listener = listener
        self._settings = settings
        self._mark = f"{journal.token}.{cgroups.instance}"
        """In the environment of everything that is started by this supervisor."""

        self._held: dict[str, Held] = {}
        self._by_pid: dict[int, Held] = {}
        self._leaving: dict[str, Held] = {}
        """Those whose main process has ended."""

        self._orphans: dict[int, set[str]] = {}
        """Adopted children, and whose they may be."""

        self._connections: list[ServerConnection] = []
        self._waiting: list[ServerConnection] = []
        """Servers that said hello while strays are being killed."""

        self._recovering = bool(journal.traces)
        self._shutting_down = self._is_over = False
        self._stirred = 0
        self._open_logs = OpenLogs()
        loop.on_signal(signal.SIGCHLD, self._on_child)
        loop.on_signal(signal.SIGHUP, lambda: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.on_signal(number, lambda: self._shut_down(_SECONDS_TO_SHUT_DOWN))
        loop.watch(listener.fileno(), READABLE, self._on_connection)
        if self._recovering:
            self._loop.after(_SECONDS_TO_RECOVER, self._welcome_all)
            Hunt(
                loop=loop,
                traces=journal.traces,
                is_ours=lambda mark: mark.startswith(f"{journal.token}.") and mark != self._mark,
                directory=directory,
                confined=cgroups.left_behind,
                over=self._recovered,
            ).go_on()
        else:
            cgroups.clear()

    def run(self) -> None:
        """Until there is nothing more to do."""
        self._stir(max(self._settings.idle_seconds, _SECONDS_FOR_THE_FIRST))
        while not self._is_over:
            self._loop.turn()

    # Servers

    def _on_connection(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError:
            return
        connection = ServerConnection(self._loop, link, self._on_request, self._on_gone)
        self._connections.append(connection)
        self._stir()
        if len(self._connections) > MOST_CONNECTIONS:
            connection.refuse(f"{MOST_CONNECTIONS} servers are connected already")

    def _on_gone(self, connection: ServerConnection) -> None:
        self._connections.remove(connection)
        if connection in self._waiting:
            self._waiting.remove(connection)
        self._stir()

    def _on_request(self, connection: ServerConnection, request: messages.Request) -> None:
        if isinstance(request, messages.Hello):
            self._on_hello(connection, request)
            return
        if not connection.is_welcome:
            connection.refuse("the first request must be hello")
            return
        match request:
            case messages.StartRequest(launch=launch):
                if self._shutting_down:
                    return  # without an answer: the next supervisor will be asked again
                if fault := messages.fault_of(launch):
                    connection.refuse(fault)
                    return
                if launch.id not in self._journal.processes:
                    try:
                        self._start(launch)
                    except MachineExhausted as shortage:
                        connection.send(messages.StartDeferredReply(request.number, str(shortage)))
                        return
            case messages.StopRequest(id=process_id, grace_seconds=grace_seconds):
                self._stop(process_id, grace_seconds)
            case messages.ForgetRequest(id=process_id):
                self._forget(process_id)
            case messages.ShutdownRequest(grace_seconds=grace_seconds):
                self._shut_down(grace_seconds)
        connection.send(messages.Done(request.number))

    def _on_hello(self, connection: ServerConnection, hello: messages.Hello) -> None:
        if connection.is_welcome or connection in self._waiting:
            connection.refuse("hello may be sent only once")
            return
        if messages.VERSION not in hello.versions:
            connection.refuse(self._no_common_version(hello))
            return
        for other in tuple(self._connections):
            if other is not connection:
                other.drain()  # a server that was killed may have asked for something just before
        self._waiting.append(connection)
        if not self._recovering:
            self._welcome_all()

    def _no_common_version(self, hello: messages.Hello) -> str:
        pid, spoken = os.getpid(), ", ".join(map(str, hello.versions))
        return (
            f"the supervisor of this state directory, process {pid}, is from Fairway {__version__} and speaks version "
            f"{messages.VERSION} of its protocol, not {spoken}; it holds {len(self._held)} processes. Let them "
            f"end under the Fairway that started them, or end them with 'kill {pid}', and try again"
        )

    def _welcome_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.is_welcome = True
            connection.send(
                messages.Welcome(
                    version=messages.VERSION,
                    build=__version__,
                    pid=os.getpid(),
                    instance=self._cgroups.instance,
                    limits_note=self._cgroups.note,
                    makes_homes=True,
                )
            )
            processes = iter(self._journal.processes.values())
            while some := tuple(islice(processes, _PROCESSES_AT_ONCE)):
                connection.send(messages.KnownProcesses(some))
            connection.send(messages.Complete())

    def _broadcast(self, process: Process) -> None:
        changed = messages.Changed(process)
        for connection in tuple(self._connections):
            if connection.is_welcome:
                connection.send(changed)

    # Starting and stopping

    def _start(self, launch: ProcessSpec) -> None:
        """Start a process, or report why it can never be; `MachineExhausted` leaves no trace of it."""
        self._stir()
        if launch.home and (fault := make_home(launch.home)):
            raise MachineExhausted(f"cannot create the working directory: {fault}")
        try:
            self._journal.begun(launch.id)
        except OSError as error:
            raise MachineExhausted(f"cannot write the supervisor's journal: {explained(error)}") from error
        try:
            held = self._spawn(launch)
        except (spawning.CannotStart, ValueError) as error:
            reason = str(error) if isinstance(error, spawning.CannotStart) else f"cannot start a process: {error}"
            self._broadcast(self._journal.over(launch.id, Ended(at=time.time(), error=reason)))
            return
        except MachineExhausted:
            self._journal.forgotten(launch.id)
            raise
        except OSError as error:
            self._journal.forgotten(launch.id)
            raise MachineExhausted(f"cannot start a process: {explained(error)}") from error
        self._held[held.id] = self._by_pid[held.pid] = held
        stat = proc.read_stat(held.pid)
        self._broadcast(self._journal.started(held.id, held.pid, time.time(), stat.birth if stat else 0))

    def _spawn(self, launch: ProcessSpec) -> Held:
        """Whatever can fail comes before the process begins; after that, it is there."""
        environment = launch.env | {proc.PROCESS_MARK: launch.id, proc.SUPERVISOR_MARK: self._mark}
        log = LogFile(launch.log, self._settings.log_limit_bytes, self._open_logs)
        with ExitStack() as if_it_fails, ExitStack() as in_any_case:
            pipes: list[Pipe] = []
            theirs: list[int] = []
            for stream in STREAMS:
                ours, end = os.pipe2(os.O_CLOEXEC)
                in_any_case.callback(os.close, end)
                if ours >= spawning.most_descriptors():
                    os.close(ours)
                    raise OSError(errno.EMFILE, "")
                theirs.append(end)
                pipes.append(Pipe(self._loop, log, stream, ours))
                if_it_fails.callback(pipes[-1].finish)
            shared = launch.limits.is_share_alone
            group = None if shared or launch.limits == _UNLIMITED else self._cgroups.make(launch.limits)
            outputs = (theirs[0], theirs[1])
            failure: int | None = None
            if group is None and not launch.hosts:
                pid = spawning.spawn(launch, environment, outputs)
            else:
                if group is not None:
                    if_it_fails.callback(self._cgroups.discard, group)
                failure, failed = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                in_any_case.callback(os.close, failed)
                if_it_fails.callback(os.close, failure)
                pid = spawning.spawn_confined(launch, environment, outputs, group.entrances if group else (), failed)
            if_it_fails.pop_all()
        held = Held(launch.id, pid, log, pipes)
        held.group, held.failure = group, failure
        if shared:
            self._loop.after(sharing.AFTER_SECONDS, lambda: self._share(held, launch.limits))
        if failure is not None:
            self._loop.watch(failure, READABLE, lambda: self._on_begun(held))
        return held

    def _share(self, held: Held, limits: ProcessLimits) -> None:
        """Give a process that has run for a while its share of the CPU."""
        if held.ended is not None or self._held.get(held.id) is not held:
            return
        try:
            held.group = self._cgroups.make(limits)
        except OSError as error:
            note(f"{held.id} has no share of the CPU: {error}")
            return
        if held.group is not None:
            self._mover.move(held.pid, held.id, held.group.entrances)

    def _on_begun(self, held: Held) -> None:
        """A confined process has begun its program, or said why it could not: its pipe is not needed any more."""
        if held.failure is not None:
            self._loop.unwatch(held.failure)
            held.unbegun = spawning.reported(held.failure)
            held.failure = None

    def _stop(self, process_id: str, grace_seconds: float) -> None:
        held = self._held.get(process_id)
        if held is None or (held.ended is not None and held.deadline is None):
            return  # it has ended, or what is left of it is being killed
        deadline = time.monotonic() + grace_seconds
        if held.deadline is not None and held.deadline <= deadline:
            return
        first = held.deadline is None
        if first and _has_ended(held.pid):
            self._on_child()  # it ended by itself and was not reaped yet
            return
        held.deadline = deadline
        if grace_seconds <= 0:
            self._at_deadline(held)
            return
        if first and held.ended is None:
            _signal(held.pid, signal.SIGTERM)
            _signal(held.pid, signal.SIGCONT)  # one that is halted could not react
        self._loop.after(grace_seconds, lambda: self._at_deadline(held))

    def _at_deadline(self, held: Held) -> None:
        """Whatever is left has had its time."""
        if self._held.get(held.id) is not held or held.deadline is None or held.deadline > time.monotonic():
            return
        if held.ended is None:
            _signal(held.pid, signal.SIGKILL)
        else:
            self._clear()

    def _forget(self, process_id: str) -> None:
        process = self._journal.processes.get(process_id)
        if process is not None and process.ended is not None:
            self._journal.forgotten(process_id)

    # Ends

    def _on_child(self) -> None:
        """Children ended: main processes, or orphans."""
        for pid in _ended_children():
            held = self._by_pid.pop(pid, None)
            if held is None:
                os.waitpid(pid, 0)
                self._orphans.pop(pid, None)
                continue
            if held.deadline is None:
                _signal(pid, signal.SIGKILL)  # as long as it is not reaped, its pid is not reused
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
            held.ended = Ended(
                at=time.time(),
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                told=held.deadline is not None,
            )
            self._leaving[held.id] = held
        if self._leaving or self._orphans:
            self._clear()

    def _clear(self) -> None:
        """Kill what is left of those whose main process has ended; those of which nothing is left have ended."""
        self._look_for_orphans()
        now = time.monotonic()
        for held in tuple(self._leaving.values()):
            left = [pid for pid, owners in self._orphans.items() if owners == {held.id}]
            if not left:
                self._finish(held)
            elif held.deadline is None or held.deadline <= now:
                self._signal_orphans(left, signal.SIGKILL)
            else:
                self._signal_orphans((pid for pid in left if pid not in held.told), signal.SIGTERM)
                held.told.update(left)
        self._signal_orphans([pid for pid, owners in self._orphans.items() if not owners], signal.SIGKILL)

    def _look_for_orphans(self) -> None:
        for pid in proc.own_children():
            if pid not in self._by_pid and pid not in self._orphans:
                self._orphans[pid] = self._owners_of(pid)

    def _signal_orphans(self, pids: Iterable[int], number: signal.Signals) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except PermissionError as error:
                note(f"cannot kill process {pid} of an ended job: {error}")
                self._orphans[pid] = {_OUT_OF_REACH}
                self._loop.soon(self._clear)

    def _owners_of(self, pid: int) -> set[str]:
        marks = proc.marks_of(pid)
        if marks is not None and marks[0] == self._mark:
            return {marks[1]} & self._held.keys()
        stat = proc.read_stat(pid)
        for held in self._held.values():
            if stat is not None and stat.session == held.pid:
                return {held.id}
            if held.group is not None and pid in held.group.members():
                return {held.id}
        return set(self._held)

    def _finish(self, held: Held) -> None:
        ended = held.ended
        assert ended is not None  # noqa: S101 - only those come here
        for pipe in held.pipes:
            pipe.finish()
        held.log.close()
        self._on_begun(held)
        reason, is_shortage = held.unbegun
        if is_shortage:  # it was said to run, so now it is lost, which is not its own failure
            note(f"{held.id} was lost: {reason}")
            ended = Ended(at=ended.at, lost=True)
        elif reason:
            ended = Ended(at=ended.at, error=reason)
        if held.group is not None:
            if ended.exit_code != 0 and held.group.ran_out_of_memory():
                ended = msgspec.structs.replace(ended, out_of_memory=True)
            self._cgroups.discard(held.group)
        del self._held[held.id]
        del self._leaving[held.id]
        for owners in self._orphans.values():
            owners.discard(held.id)
        self._broadcast(self._journal.over(held.id, ended))
        self._stir()

    def _recovered(self) -> None:
        """Nothing is left of what the predecessor had started."""
        lost = self._journal.traces.keys() - self._held.keys()
        note(f"{len(lost)} processes were lost with the last supervisor")
        self._cgroups.clear()
        for process_id in lost:
            self._broadcast(self._journal.over(process_id, Ended(at=time.time(), lost=True)))
        self._recovering = False
        self._welcome_all()
        self._stir()

    # The end of the supervisor

    def _shut_down(self, grace_seconds: float) -> None:
        self._shutting_down = True
        for process_id in tuple(self._held):
            self._stop(process_id, grace_seconds)
        self._stir()

    def _stir(self, patience: float | None = None) -> None:
        """Something happened: the time of quiet, if this is one, begins now."""
        self._stirred += 1
        if self._shutting_down and not self._held:
            self._loop.soon(self._leave)
        elif self._is_quiet():
            now = self._stirred
            seconds = self._settings.idle_seconds if patience is None else patience
            self._loop.after(seconds, lambda: self._leave() if now == self._stirred else None)

    def _is_quiet(self) -> bool:
        return not self._held and not self._connections and not self._recovering

    def _leave(self) -> None:
        if not self._shutting_down:
            self._on_connection()  # a server that connected at the last moment
            if not self._is_quiet():
                return
        self._is_over = True
        for connection in tuple(self._connections):
            connection.flush()
            connection.close()


def _ended_children() -> Iterator[int]:
    """Children that have ended and are not reaped yet; the caller reaps each before it asks for the next."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None:
            return
        yield found.si_pid


def _has_ended(pid: int) -> bool:
    """Whether a child has ended and waits to be looked at."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal(pid: int, number: signal.Signals) -> None:
    """To the whole group of a main process that is not reaped yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it is about to get a group of its own
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    except PermissionError:
        note(f"may not send {number.name} to the processes of group {pid}")
