"""What the commands that change launched jobs share: which jobs, the question before it, one transaction for all."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

import click

from fairway.cli.announcing import ids, summary
from fairway.cli.choosing import Manifest, all_jobs, has_ended, id_of, name_of, phase_of, resolve_jobs, title
from fairway.cli.completion import job_names
from fairway.cli.options import with_options
from fairway.cli.session import Session, all_namespaces_option, confirmed, output_option, print_note, session_options
from fairway.cli.tables import as_json, plain
from fairway.client.rest import paths
from fairway.errors import Forbidden, NotFound

API: Final = "kueue.x-k8s.io/v1beta2"
_MOST_NAMED: Final = 10
_MOST_USERS: Final = 3
Command = TypeVar("Command", bound=Callable[..., Any])


class JobSelection(NamedTuple):
    """The options that select jobs."""

    words: tuple[str, ...]
    name: str
    everything: bool
    all_users: bool

    @property
    def is_all_of_mine(self) -> bool:
        return self.everything and not self.all_users


def choosing_options(command: Command) -> Command:
    """`IDS… -n -a -u -A`, passed on as `choice`, and the options of every command about jobs."""
    return naming_options(command, everything=True)


def naming_options(command: Command, *, everything: bool = False) -> Command:
    """The same without `-a`, unless it is wanted."""

    @wraps(command)
    def with_choice(
        *args: Any, words: tuple[str, ...], name: str, all_users: bool, everything: bool = False, **rest: Any
    ) -> Any:
        return command(*args, choice=JobSelection(words, name, everything, all_users), **rest)

    all_of_mine = click.option("--all", "-a", "everything", is_flag=True, help="All my jobs that have not ended.")
    options = [
        click.argument("words", nargs=-1, metavar="[ID|NAME]...", shell_complete=job_names),
        click.option("--name", "-n", default="", metavar="NAME", help="All my jobs with this name."),
        *([all_of_mine] if everything else []),
        click.option("--all-users", "-u", is_flag=True, help="Jobs of all users, not only mine."),
        all_namespaces_option,
        output_option,
        session_options,
    ]
    return with_options(cast("Command", with_choice), options)


def chosen(session: Session, choice: JobSelection) -> list[Manifest]:
    """The selected jobs: the user's own, unless jobs are named or `--all-users` is given."""
    ways = [bool(choice.words), bool(choice.name), choice.everything or (choice.all_users and not choice.name)]
    if sum(ways) != 1:
        raise click.UsageError(
            "say which jobs: ids or names, or -n NAME, or -a for all of mine, or -u for those of all users"
        )
    if choice.words:
        return resolve_jobs(session, choice.words)
    found = all_jobs(session)
    if not choice.all_users:
        found = [job for job in found if user_of(job) == session.user]
    if not choice.name:
        return [job for job in found if not has_ended(job)]
    named = [job for job in found if choice.name in (name_of(job), job["metadata"]["name"])]
    return named or resolve_jobs(session, [choice.name])


def user_of(job: Manifest) -> str:
    return str(job["spec"].get("user", ""))


def ask_before(session: Session, jobs: Sequence[Manifest], doing: str, *, yes: bool, own: bool) -> None:
    """Ask before something is done to jobs: always if some are of other users, and with `own` also if all are mine."""
    if yes or not jobs:
        return
    others = [job for job in jobs if user_of(job) != session.user]
    if not others:
        if own:
            confirmed(f"{doing} {which(jobs, 'job')}. Proceed?", yes=False)
        return
    users = [plain(name) for name, _ in Counter(user_of(job) or "unknown" for job in others).most_common()]
    listed = ", ".join(users[:_MOST_USERS]) + (" and others" if len(users) > _MOST_USERS else "")
    if len(jobs) == 1:
        whose = f" of {listed}"
    else:
        whose = f", {'all' if len(others) == len(jobs) else len(others)} of other users ({listed})"
    confirmed(f"{doing} {which(jobs, 'job')}{whose}. Proceed?", yes=False, required=True)


def elsewhere(session: Session, choice: JobSelection) -> str:
    """A sentence about my jobs in other namespaces that `-a` leaves alone; empty if there are none."""
    if not choice.is_all_of_mine:
        return ""
    number, spaces = mine_elsewhere(session)
    if not number:
        return ""
    return (
        f"{number} of your jobs in other namespaces {'is' if number == 1 else 'are'} not affected ({spaces}); "
        f"-A includes {'it' if number == 1 else 'them'}."
    )


def mine_elsewhere(session: Session) -> tuple[int, str]:
    """How many of my live jobs are in namespaces that this command does not look at, and how many in each."""
    if session.all_namespaces:
        return 0, ""
    try:
        found = session.rest.get(paths.jobs(None))["items"]
    except Forbidden:
        return 0, ""
    left = Counter(
        job["metadata"]["namespace"]
        for job in found
        if job["metadata"]["namespace"] != session.namespace and user_of(job) == session.user and not has_ended(job)
    )
    return sum(left.values()), ", ".join(f"{name}: {count}" for name, count in sorted(left.items()))


def change(session: Session, jobs: Sequence[Manifest], spec: Callable[[Manifest], Manifest]) -> list[Manifest]:
    """Merge something into the spec of each job; returns the jobs as they are then."""
    from fairway.cli.writing import write  # noqa: PLC0415 - not for lists

    if not jobs:
        return []
    return write(
        session,
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
    """A sentence if a queue or priority class that a job names does not exist; nothing where one may not look."""
    path = paths.resource(API, plural, session.namespace if kind == "LocalQueue" else None)
    try:
        there = sorted(one["metadata"]["name"] for one in session.rest.get(path)["items"])
    except (Forbidden, NotFound):
        return
    if name not in there:
        listed = f"; there {'is' if len(there) == 1 else 'are'} {', '.join(there[:_MOST_NAMED] or ['none'])}"
        more = " and others" if len(there) > _MOST_NAMED else ""
        yield f"there is no {kind} {name!r}, and the job waits until there is{listed}{more}"


def report(jobs: Sequence[Manifest], output: str, sentence: str) -> None:
    """Print what was done: the sentence, or the jobs as JSON."""
    click.echo(as_json([summary(job) for job in jobs]) if output == "json" else sentence)


def which(jobs: Sequence[Manifest], job: str = "Job") -> str:
    """`Job 3 (train)`, or `4 jobs (3, 5-7)`."""
    if len(jobs) == 1:
        return f"{job} {title(jobs[0])}"
    return f"{len(jobs)} jobs ({ids(jobs).replace(' ', ', ')})"


def unless_ended(jobs: Sequence[Manifest]) -> list[Manifest]:
    """Those that have not ended; for the others, what can be done is printed."""
    left_out(
        [job for job in jobs if has_ended(job)],
        lambda job: f"has ended: {phase_of(job)}. `fairway jobs retry {id_of(job)}` runs it again.",
    )
    return [job for job in jobs if not has_ended(job)]


def left_out(jobs: Sequence[Manifest], why: Callable[[Manifest], str]) -> None:
    """Print for each job why nothing was done about it; of many, only for the first."""
    for job in jobs[:_MOST_NAMED]:
        print_note(f"Job {title(job)} {why(job)}")
    if len(jobs) > _MOST_NAMED:
        print_note(f"... and {len(jobs) - _MOST_NAMED} more.")
