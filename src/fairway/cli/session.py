"""What every command that speaks to a server begins with: which server, which namespace, what configuration.

    @click.command()
    @session_options
    def cancel(*, words, **where):
        with open_session(**where) as session:
            session.rest.get(paths.jobs(session.namespace))

The server is that of the state directory, and is started if it does not run, unless a kubeconfig or a context names
another one (`servers`). What the commands ask it for belongs to the commands; how jobs are named is in `choosing`.
"""

import os
import re
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from fairway.cli.choosing import resolve_jobs
from fairway.cli.completion import context_names
from fairway.cli.options import state_option, with_options
from fairway.errors import ApiError, FairwayError

if TYPE_CHECKING:
    from fairway.client.rest import Rest
    from fairway.managedjobs.configured import LaunchConfig

__all__ = [
    "Session",
    "all_namespaces_option",
    "confirmed",
    "object_options",
    "open_session",
    "output_option",
    "print_note",
    "resolve_jobs",
    "server_options",
    "session_options",
    "without_number",
    "yes_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_KUBECONFIG = "FAIRWAY_KUBECONFIG"
_CONTEXT = "FAIRWAY_CONTEXT"
MARK = "+fairway-"
"""In the version of a server of ours, before its release."""

_OPERATION = re.compile(r"^operation \d+: ")
_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class NoServerError(FairwayError):
    """There is no server where one was looked for."""


def session_options(command: Command) -> Command:
    """Which server a command speaks to, and about which namespace: `--state --kubeconfig --context --namespace`."""
    return _session_options(command)


def object_options(command: Command) -> Command:
    """The same for commands that people know from kubectl: there `-n` is the namespace, and not a name."""
    return _session_options(command, "-n")


def _session_options(command: Command, *short: str) -> Command:
    namespace = click.option(
        "--namespace",
        *short,
        metavar="NS",
        envvar="FAIRWAY_NAMESPACE",
        help="Namespace.  [default: $FAIRWAY_NAMESPACE, else that of the context]",
    )
    return namespace(server_options(command))


def server_options(command: Command) -> Command:
    """Which server a command speaks to, where no namespace matters: `--state --kubeconfig --context`."""
    options = [
        state_option,
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar=_KUBECONFIG,
            metavar="FILE",
            help="Kubeconfig of another server or cluster.  [default: $FAIRWAY_KUBECONFIG]",
        ),
        click.option(
            "--context",
            default="",
            envvar=_CONTEXT,
            metavar="NAME",
            shell_complete=context_names,
            help="Context of another server or cluster.  [default: $FAIRWAY_CONTEXT, else that of `fairway use`]",
        ),
    ]
    return with_options(command, options)


def all_namespaces_option(command: Command) -> Command:
    """`-A`, for commands that list."""
    return click.option("--all-namespaces", "-A", is_flag=True, help="All namespaces.")(command)


def yes_option(command: Command) -> Command:
    """`-y`, for commands that may ask."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)


def output_option(command: Command) -> Command:
    """`-o`, for commands that print a table."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Output format.",
    )(command)


class Session:
    """A server that answers, and what is said about how to use it."""

    def __init__(
        self, rest: "Rest", config: "LaunchConfig", namespace: str, *, own: bool = False, all_namespaces: bool = False
    ) -> None:
        """`own`: the server of this machine, whose administrator everybody is who can read its files."""
        self.rest = rest
        self.own = own
        self.config = config
        self.namespace = namespace
        self.all_namespaces = all_namespaces
        self.explains = True
        """Whether the server answers why jobs wait, as far as is known; see `waiting`."""

    @cached_property
    def user(self) -> str:
        """Whose jobs are mine: this system's user at the server of this machine, else whom the server takes us for."""
        if self.own:
            return system_user()
        review = self.rest.create(_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        return str(review["status"]["userInfo"]["username"])

    @cached_property
    def is_cluster(self) -> bool:
        """Whether this is a Kubernetes cluster rather than a server of ours; asked once, if it is not known anyway."""
        if self.own:
            return False
        try:
            version = self.rest.get("/version")
        except ApiError:  # a server of ours tells everyone
            return True
        return MARK not in str(version.get("gitVersion", ""))

    @property
    def place(self) -> str:
        """Which server it is, for people."""
        return "this machine" if self.own else f"context {self.rest.context} ({self.rest.server})"

    @property
    def scope(self) -> str | None:
        """The namespace to list, `None` for all of them."""
        return None if self.all_namespaces else self.namespace

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, FairwayError) and not self.own:
            from fairway.cli.way_out import way_out  # noqa: PLC0415 - only when something is wrong

            error.add_note(way_out(self, error))
        self.rest.close()


def open_session(
    *,
    state: Path,
    kubeconfig: Path | None = None,
    context: str = "",
    namespace: str | None = None,
    all_namespaces: bool = False,
    config: "LaunchConfig | None" = None,
    own: bool = False,
) -> Session:
    """Connect to the server that the options name; the one of the state directory is started if it does not run.

    `config` is for commands that have read it already; with `own` it is the server of the state directory, whatever
    the configuration says.
    """
    from fairway.cli.configuration import read_config  # noqa: PLC0415 - help must not wait for it
    from fairway.cli.servers import ServerTarget, target  # noqa: PLC0415
    from fairway.client.rest import open_rest  # noqa: PLC0415

    config = read_config(state) if config is None else config
    meant = ServerTarget() if own else target(state, kubeconfig, context, config)
    if meant.own:
        rest = _own_server(state, meant.context)
    elif kubeconfig is not None and not kubeconfig.expanduser().is_file() and os.pathsep not in str(kubeconfig):
        raise NoServerError(
            f"{kubeconfig}: no such file; set --kubeconfig or {_KUBECONFIG} to the kubeconfig of a server, "
            "or leave both out to use the server of this machine"
        )
    else:
        rest = open_rest(meant.kubeconfig, meant.context)
    where = namespace or config.namespace or meant.namespace or rest.namespace
    return Session(rest, config, where, own=meant.own, all_namespaces=all_namespaces)


def _own_server(state: Path, context: str) -> "Rest":
    """The server of the state directory, which answers when this returns."""
    from fairway.cli import background  # noqa: PLC0415 - help must not wait for it
    from fairway.client.rest import open_rest  # noqa: PLC0415

    path = state / "kubeconfig"
    if not background.is_running(state):
        _start(state)
    elif not (path.is_file() and background.answers(open_rest(path).server)):
        background.until_it_answers(state, lambda: open_rest(path).server if path.is_file() else "")
    return open_rest(path, context)


def _start(state: Path) -> None:
    from fairway.cli import background  # noqa: PLC0415 - most commands find a server
    from fairway.cli.remembering import settings_as_before  # noqa: PLC0415

    settings, options = settings_as_before(state)
    as_before = f" with the options of the last `fairway up`: {options.words}" if options.words else ""
    print_note(f"No server is running on {state}; starting one{as_before} ...")
    try:
        pid, url = background.ensure(settings)
    except background.DidNotStartError as error:
        if "listen" not in str(error):
            raise
        raise background.DidNotStartError(
            f"{error}\nSee `fairway up --help`; FAIRWAY_PORT=0 picks a free port."
        ) from None
    if url:
        print_note(f"Fairway is up at {url} (process {pid}); `fairway shutdown` stops it.")
    else:
        print_note(f"Fairway is up (process {pid}).")


def system_user() -> str:
    """The name of the user who runs this process."""
    import pwd  # noqa: PLC0415 - not every command needs it

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def print_note(text: str) -> None:
    """Say something that is no output: on standard error."""
    click.echo(text, err=True)


def without_number(message: str) -> str:
    """What the server said of one operation of many, which people have not numbered."""
    return _OPERATION.sub("", message)


def confirmed(question: str, *, yes: bool, required: bool = False) -> None:
    """Ask for confirmation, unless `-y` was given; no ends the command.

    Without a terminal a `required` question is an error that names `-y`, any other is skipped.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        if required:
            what = question.removesuffix(" Proceed?").rstrip(".")
            raise click.UsageError(f"{what}: this needs a confirmation, and there is no terminal to ask on; add -y")
        return
    try:
        click.confirm(question, default=not required, abort=True, err=True)
    except click.Abort as stop:
        # click raises the same for a no, for the end of the input and for Ctrl-C, which has its own exit code.
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
