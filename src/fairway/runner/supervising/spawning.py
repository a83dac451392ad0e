"""Starting a program, and saying clearly why it cannot be started.

The usual way is `posix_spawn`, which does not copy this process and is done when the program has begun. A process that
must be in its control groups before it begins goes there by itself, in a copy of this process (`spawn_confined`), which
costs a millisecond more.
"""

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NoReturn

from fairway.runner.processes import Launch

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
"""Programs find these as if nobody had ever changed them."""

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
_SENTENCES = {
    errno.EACCES: "it is not a file that this user may execute",
    errno.ENOEXEC: "it is not a program for this machine, and has no '#!' line that names one",
    errno.E2BIG: "its arguments and environment are larger than this system allows",
    errno.EAGAIN: "this user may not have more processes (ulimit -u, or a limit of the machine)",
    errno.ENOMEM: "there is not enough memory",
}

_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)


class CannotStart(Exception):
    """The program cannot be started; the text says why, with the path."""


def raise_own_file_limit() -> None:
    """Let the supervisor itself have as many open files as it may; programs get what it was given at first."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))


def spawn(launch: Launch, environment: dict[str, str], outputs: tuple[int, int]) -> int:
    """The pid of the program, which has begun when this returns; it has a session of its own."""

    def begin(program: str) -> int:
        return os.posix_spawn(
            program,
            launch.argv,
            environment,
            file_actions=((os.POSIX_SPAWN_DUP2, outputs[0], 1), (os.POSIX_SPAWN_DUP2, outputs[1], 2)),
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )

    _enter_directory(launch.cwd)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_soft, _hard))
        return _first_that_begins(launch, environment, begin)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))
        os.chdir("/")


def spawn_confined(
    launch: Launch, environment: dict[str, str], outputs: tuple[int, int], entrances: Sequence[str], failure: int
) -> int:
    """The pid of a process that will enter its control groups and begin the program.

    Why it could not is what it writes to `failure` before it ends; nothing there means that it did.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _begin_confined(launch, environment, outputs, entrances, failure)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return pid


def _begin_confined(
    launch: Launch, environment: dict[str, str], outputs: tuple[int, int], entrances: Sequence[str], failure: int
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
        resource.setrlimit(resource.RLIMIT_NOFILE, (_soft, _hard))
        _enter_directory(launch.cwd)
        become = partial(os.execve, argv=launch.argv, env=environment)
        _first_that_begins(launch, environment, become)
    except CannotStart as reason:
        os.write(failure, str(reason).encode(errors="replace"))
    except OSError as error:
        os.write(failure, f"cannot start {launch.argv[0]} within its limits: {error}".encode(errors="replace"))
    finally:
        os._exit(127)


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
        raise CannotStart(f"cannot enter the working directory {path!r}: {error}") from error


def _first_that_begins(launch: Launch, environment: dict[str, str], begin: Callable[[str], int]) -> int:
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
    raise CannotStart(_explain(launch, environment, errno.ENOENT if error is None else error.errno or 0))


def _places(launch: Launch, environment: dict[str, str]) -> Iterator[str]:
    if not launch.argv or not launch.argv[0]:
        raise CannotStart("there is no command to start")
    name = launch.argv[0]
    if "/" in name:
        yield name
        return
    for place in environment.get("PATH", os.defpath).split(os.pathsep):
        path = f"{place or '.'}/{name}"
        if os.access(path, os.F_OK):  # far cheaper than to find out by a new process
            yield path


def _explain(launch: Launch, environment: dict[str, str], reason: int) -> str:
    """Why it could not be started, as a sentence for people; called in its working directory."""
    name = launch.argv[0]
    if reason not in _NOT_THERE:
        return f"cannot start {name}: {_SENTENCES.get(reason) or os.strerror(reason)}"
    if "/" not in name:
        return f"cannot start {name}: there is no such program in {environment.get('PATH', os.defpath)}"
    if os.path.exists(name):  # noqa: PTH110 - a name as it was given
        return f"cannot start {name}: the program that its first line names after '#!' does not exist"
    return f"cannot start {name}: there is no such file"
