"""What can be said about jobs that were launched, for many at once: all changes go in one transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

import click

from fairway.cli.announcing import summary
from fairway.cli.choosing import Manifest, all_jobs, has_ended, id_of, name_of, phase_of, resolve_jobs, title
from fairway.cli.completion import job_names
from fairway.cli.session import Session, output_option, session_options, tell
from fairway.cli.tables import as_json
from fairway.client.rest import paths
from fairway.errors import Forbidden, NotFound

API: Final = "kueue.x-k8s.io/v1beta2"
_MOST_NAMED: Final = 10
Command = TypeVar("Command", bound=Callable[..., Any])


class Choice(NamedTuple):
    """Which jobs are meant, as the command line says it."""

    words: tuple[str, ...]
    name: str
    everything: bool
    all_users: bool


def choosing_options(command: Command) -> Command:
    """`IDS… -n -a -u`, which arrive as `choice`, and what every command about jobs has."""
    return naming_options(command, everything=True)


def naming_options(command: Command, *, everything: bool = False) -> Command:
    """The same without `-a`, unless it is wanted."""

    @wraps(command)
    def with_choice(
        *args: Any, words: tuple[str, ...], name: str, all_users: bool, everything: bool = False, **rest: Any
    ) -> Any:
        return command(*args, choice=Choice(words, name, everything, all_users), **rest)

    all_of_mine = click.option("--all", "-a", "everything", is_flag=True, help="All my jobs that have not ended.")
    options = [
        click.argument("words", nargs=-1, metavar="[ID|NAME]...", shell_complete=job_names),
        click.option("--name", "-n", default="", metavar="NAME", help="All my jobs that are called so."),
        *([all_of_mine] if everything else []),
        click.option("--all-users", "-u", is_flag=True, help="Not only mine, but those of everybody."),
        output_option,
        session_options,
    ]
    wrapped = cast("Command", with_choice)
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def chosen(session: Session, choice: Choice) -> list[Manifest]:
    """The jobs that are meant. Mine, unless they are named by themselves or everybody's are wanted."""
    ways = [bool(choice.words), bool(choice.name), choice.everything or (choice.all_users and not choice.name)]
    if sum(ways) != 1:
        raise click.UsageError("say which jobs: ids or names, or -n NAME, or -a for all of mine, or -u for everybody's")
    if choice.words:
        return resolve_jobs(session, choice.words)
    found = all_jobs(session)
    if not choice.all_users:
        found = [job for job in found if job["spec"].get("user", "") == session.user]
    if not choice.name:
        return [job for job in found if not has_ended(job)]
    named = [job for job in found if choice.name in (name_of(job), job["metadata"]["name"])]
    return named or resolve_jobs(session, [choice.name])


def change(session: Session, jobs: Sequence[Manifest], spec: Callable[[Manifest], Manifest]) -> list[Manifest]:
    """Merge something into the spec of each job, all or none; what they are then."""
    if not jobs:
        return []
    return session.rest.transact(
        session.namespace,
        [
            {
                "verb": "patch",
                "apiVersion": job["apiVersion"],
                "kind": job["kind"],
                "namespace": job["metadata"]["namespace"],
                "name": job["metadata"]["name"],
                "uid": job["metadata"]["uid"],
                "patch": {"spec": spec(job)},
            }
            for job in jobs
        ],
    )


def missing(session: Session, kind: str, plural: str, name: str) -> Iterator[str]:
    """A sentence if something of Kueue's that a job names is not there; nothing where one may not look."""
    path = paths.resource(API, plural, session.namespace if kind == "LocalQueue" else None)
    try:
        there = sorted(one["metadata"]["name"] for one in session.rest.get(path)["items"])
    except (Forbidden, NotFound):
        return
    if name not in there:
        listed = f"; there {'is' if len(there) == 1 else 'are'} {', '.join(there[:_MOST_NAMED] or ['none at all'])}"
        more = " and others" if len(there) > _MOST_NAMED else ""
        yield f"there is no {kind} {name!r}, and the job waits until there is{listed}{more}"


def told(jobs: Sequence[Manifest], output: str, sentence: str) -> None:
    """What was done: the sentence, or the jobs as JSON."""
    click.echo(as_json([summary(job) for job in jobs]) if output == "json" else sentence)


def which(jobs: Sequence[Manifest], job: str = "Job") -> str:
    """`Job 3 (train)`, or `4 jobs (3, 5-7)`."""
    if len(jobs) == 1:
        return f"{job} {title(jobs[0])}"
    return f"{len(jobs)} jobs ({ranges(id_of(job) for job in jobs)})"


def ranges(numbers: Iterable[int]) -> str:
    """`3, 5-9`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def unless_ended(jobs: Sequence[Manifest]) -> list[Manifest]:
    """Those that have not ended; of the others it is said what one can do."""
    left_out(
        [job for job in jobs if has_ended(job)],
        lambda job: f"has ended: {phase_of(job)}. `fairway jobs retry {id_of(job)}` lets it begin again.",
    )
    return [job for job in jobs if not has_ended(job)]


def left_out(jobs: Sequence[Manifest], why: Callable[[Manifest], str]) -> None:
    """Say of each job why nothing was done about it."""
    for job in jobs:
        tell(f"Job {title(job)} {why(job)}")
