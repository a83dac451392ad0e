"""Starts programs, with clear errors.

The usual way is `posix_spawn`, which does not copy this process and is done when the program has begun. A process that
needs its control groups or an /etc/hosts of its own before it begins takes them by itself, in a copy of this process
(`spawn_confined`), which costs a millisecond more.
"""

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NoReturn

from fairway.runner.processes import ProcessSpec
from fairway.runner.shortages import MachineExhausted, explained, is_shortage

_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
    signal.SIGXFSZ,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
"""Signals whose default handling is restored for programs."""

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
_SENTENCES = {
    errno.EACCES: "it is not a file that this user may execute",
    errno.ENOEXEC: "it is not a program for this machine, and has no '#!' line that names one",
    errno.E2BIG: "its arguments and environment are larger than this system allows",
}

_RESERVE = 96
"""Descriptors that no process gets: for servers that connect, log files, and reading /proc."""

_INFINITE_FILES = 1 << 30
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
_outlets: list[int] = []
"""Two low descriptors, which `posix_spawn` can name under whatever limit the program gets."""


class CannotStart(Exception):
    """The program cannot be started; the text says why, with the path."""


def prepare(soft_files: int | None) -> None:
    """Let the supervisor itself have as many open files as it may; programs get `soft_files`, or what it had itself."""
    global _soft  # noqa: PLW0603 - as the limit itself: one for the whole process
    if soft_files is not None and _hard in (resource.RLIM_INFINITY, max(soft_files, _hard)):
        _soft = soft_files
    _raise_file_limit()
    while len(_outlets) < 2:
        _outlets.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))


def most_descriptors() -> int:
    """The number that descriptors of processes stay below."""
    return (_INFINITE_FILES if _hard == resource.RLIM_INFINITY else _hard) - _RESERVE


def _raise_file_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))


def spawn(launch: ProcessSpec, environment: dict[str, str], outputs: tuple[int, int]) -> int:
    """The pid of the program, which has begun when this returns; it has a session of its own."""

    def begin(program: str) -> int:
        return os.posix_spawn(
            program,
            launch.argv,
            environment,
            file_actions=((os.POSIX_SPAWN_DUP2, _outlets[0], 1), (os.POSIX_SPAWN_DUP2, _outlets[1], 2)),
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )

    _enter_directory(launch.cwd)
    try:
        for output, outlet in zip(outputs, _outlets, strict=True):
            os.dup2(output, outlet, inheritable=False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_soft, _hard))
        return _first_that_begins(launch, environment, begin)
    finally:
        _raise_file_limit()
        for outlet in _outlets:
            os.dup2(0, outlet, inheritable=False)  # a pipe ends when its last writer has closed it
        os.chdir("/")


def spawn_confined(
    launch: ProcessSpec, environment: dict[str, str], outputs: tuple[int, int], entrances: Sequence[str], failure: int
) -> int:
    """The pid of a process that will enter its control groups and begin the program; it is not waited for.

    Why it could not is what it writes to `failure` before it ends (see `reported`).
    """
    own_hosts = _own_hosts() if launch.hosts else None
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _begin_confined(launch, environment, outputs, entrances, failure, own_hosts)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return pid


def _own_hosts() -> Callable[[str], None]:
    """Imported by the first process that needs it, and not in the copy of this process."""
    from fairway.runner.supervising import hosts  # noqa: PLC0415 - a megabyte that most supervisors never need

    return hosts.use


def _begin_confined(
    launch: ProcessSpec,
    environment: dict[str, str],
    outputs: tuple[int, int],
    entrances: Sequence[str],
    failure: int,
    own_hosts: Callable[[str], None] | None,
) -> NoReturn:
    """In the new process; it either becomes the program or ends here."""
    try:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for entrance in entrances:
            _enter_group(entrance)
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        if own_hosts is not None:
            _use_hosts(own_hosts, launch.hosts)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_soft, _hard))
        _enter_directory(launch.cwd)
        become = partial(os.execve, argv=launch.argv, env=environment)
        _first_that_begins(launch, environment, become)
    except MachineExhausted as reason:
        _report(failure, _SHORT, str(reason))
    except CannotStart as reason:
        _report(failure, _WRONG, str(reason))
    except OSError as error:
        kind = _SHORT if is_shortage(error.errno) else _WRONG
        _report(failure, kind, f"cannot start {launch.argv[0]} within its limits: {explained(error)}")
    finally:
        os._exit(127)


def _use_hosts(own_hosts: Callable[[str], None], file: str) -> None:
    try:
        own_hosts(file)
    except OSError as error:
        os.write(2, f"fairway: names of Services do not resolve here: {error.strerror}\n".encode())


_SHORT, _WRONG = b"S", b"W"


def _report(failure: int, kind: bytes, reason: str) -> None:
    os.write(failure, kind + reason.encode(errors="replace"))


def reported(failure: int) -> tuple[str, bool]:
    """Why a confined process that has ended could not begin its program, and whether that was a `MachineExhausted`."""
    try:
        written = os.read(failure, 64 * 1024)
    except BlockingIOError:
        written = b""
    finally:
        os.close(failure)
    return written[1:].decode(errors="replace"), written.startswith(_SHORT)


def _enter_group(entrance: str) -> None:
    file = os.open(entrance, os.O_WRONLY | os.O_CLOEXEC)
    os.write(file, b"0")
    os.close(file)


def _enter_directory(path: str) -> None:
    try:
        os.chdir(path)
    except FileNotFoundError as error:
        raise CannotStart(f"the working directory {path} does not exist") from error
    except NotADirectoryError as error:
        raise CannotStart(f"the working directory {path} is not a directory") from error
    except PermissionError as error:
        raise CannotStart(f"this user may not enter the working directory {path}") from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and is_shortage(error.errno):
            raise MachineExhausted(f"cannot enter the working directory {explained(error)}") from error
        raise CannotStart(f"cannot enter the working directory {path!r}: {error}") from error


def _first_that_begins(launch: ProcessSpec, environment: dict[str, str], begin: Callable[[str], int]) -> int:
    """Tries the places where the program may be, as a shell does."""
    error: OSError | None = None
    for program in _places(launch, environment):
        try:
            return begin(program)
        except OSError as failure:
            if error is None or failure.errno not in _NOT_THERE:
                error = failure
            if failure.errno not in (*_NOT_THERE, errno.EACCES):
                break
        except ValueError as failure:
            raise CannotStart(f"cannot start {launch.argv[0]!r}: {failure}") from failure
    if error is not None and is_shortage(error.errno):
        raise MachineExhausted(f"cannot start {launch.argv[0]}: {explained(OSError(error.errno, ''))}") from error
    raise CannotStart(_explain(launch, environment, errno.ENOENT if error is None else error.errno or 0))


def _places(launch: ProcessSpec, environment: dict[str, str]) -> Iterator[str]:
    if not launch.argv or not launch.argv[0]:
        raise CannotStart("the command is empty")
    name = launch.argv[0]
    if "/" in name:
        yield name
        return
    for place in environment.get("PATH", os.defpath).split(os.pathsep):
        path = f"{place or '.'}/{name}"
        if os.access(path, os.F_OK):  # far cheaper than to find out by a new process
            yield path


def _explain(launch: ProcessSpec, environment: dict[str, str], reason: int) -> str:
    """Why it could not be started, as a sentence for people; called in its working directory."""
    name = launch.argv[0]
    if reason not in _NOT_THERE:
        return f"cannot start {name}: {_SENTENCES.get(reason) or os.strerror(reason)}"
    if "/" not in name:
        return f"cannot start {name}: there is no such program in {environment.get('PATH', os.defpath)}"
    if os.path.exists(name):  # noqa: PTH110 - a name as it was given
        return f"cannot start {name}: the program that its first line names after '#!' does not exist"
    return f"cannot start {name}: there is no such file"
