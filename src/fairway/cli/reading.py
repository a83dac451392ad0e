"""`jobs logs`: which attempts of a job are shown, and how; and the logs of pods."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairway.cli.choosing import Manifest, all_jobs, has_ended, id_of, newest, resolve_jobs, title
from fairway.cli.following import follow, show, write
from fairway.cli.joblogs import LogFilter, TaskAttempt, parts_of
from fairway.cli.options import with_options
from fairway.cli.session import Session, print_note, session_options
from fairway.client.rest import paths
from fairway.errors import FairwayError, Forbidden, NotFound

Command = TypeVar("Command", bound=Callable[..., Any])


class NoSuchPartError(FairwayError):
    """The job has no such task or attempt."""


def reading_options(command: Command) -> Command:
    """Which part of a job's log, and how."""
    options = [
        click.option(
            "--follow/--no-follow",
            "-f/",
            "following",
            default=True,
            show_default=True,
            help="Follow the log until the job has ended, through all its attempts.",
        ),
        click.option(
            "--attempt", metavar="N|all", help="Only this attempt, or all.  [default: the latest and those that follow]"
        ),
        click.option("--task", metavar="N|NAME", help="Only this task of a pipeline; the first is 0.  [default: all]"),
        click.option(
            "--rank", "--worker", "-w", type=click.IntRange(0), metavar="N", help="Only this node; 0 is the head."
        ),
        click.option(
            "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each node; 0 for all."
        ),
        click.option("--timestamps", is_flag=True, help="Prefix every line with its time."),
        click.option("--container", "-c", default="", metavar="NAME", help="Container of the pod."),
        session_options,
    ]
    return with_options(command, options)


def read(
    session: Session,
    job: Manifest,
    *,
    following: bool,
    attempt: str | None,
    task: str | None,
    rank: int | None,
    tail: int | None,
    timestamps: bool,
) -> None:
    """Show the log of a job, and follow it."""
    shown = LogFilter(rank=rank, tail=tail or None, timestamps=timestamps)
    only = _task_number(job, task) if task is not None else None
    there = [part for part in parts_of(job) if only is None or part.task == only]
    if attempt is not None and attempt != "all":
        show(session, job, [_attempt(job, there, attempt)], shown)
        return
    wanted = there if attempt == "all" else _latest(there)
    if has_ended(job) or not following or only is not None:
        if not wanted:
            print_note(_nothing_yet(job, only))
        show(session, job, wanted, shown)
        return
    try:
        follow(session, job, shown, done=set(parts_of(job)) - set(wanted))
    except KeyboardInterrupt:
        print_note(f"\nJob {title(job)} keeps running; `fairway jobs cancel {id_of(job)}` stops it.")
        raise


def choose_parts(job: Manifest, attempt: str | None, task: str | None) -> list[TaskAttempt]:
    """The attempts that `--attempt` and `--task` mean: of each task the latest, unless said."""
    only = _task_number(job, task) if task is not None else None
    there = [part for part in parts_of(job) if only is None or part.task == only]
    if attempt is None:
        return _latest(there)
    return there if attempt == "all" else [_attempt(job, there, attempt)]


def _nothing_yet(job: Manifest, task: int | None) -> str:
    what = f"Job {title(job)}" if task is None else f"Task {task} of job {title(job)}"
    if has_ended(job):
        return f"{what} did not start; `fairway jobs why {id_of(job)}` explains why."
    return f"{what} has not started yet; `fairway jobs why {id_of(job)}` explains why it waits."


def read_pod(
    session: Session,
    name: str,
    container: str,
    *,
    following: bool,
    tail: int | None,
    timestamps: bool,
    **of_jobs: object,
) -> None:
    """Print the log of a pod, and follow it while it runs."""
    if any(value is not None for value in of_jobs.values()):
        raise click.UsageError("--attempt, --task and --rank are for jobs; a pod has --container")
    for piece in session.rest.stream(
        paths.resource("v1", "pods", session.namespace, name, "log"),
        container=container or None,
        follow=following or None,
        tailLines=tail or None,
        timestamps=timestamps or None,
    ):
        write(piece)


def pod_named(session: Session, name: str) -> bool:
    """Whether there is such a pod."""
    try:
        session.rest.get(paths.resource("v1", "pods", session.namespace, name))
    except (NotFound, Forbidden):
        return False
    return True


def meant(session: Session, words: tuple[str, ...], name: str) -> Manifest:
    """The job to read: the newest of those that were named, or of mine."""
    if words or name:
        found = newest(resolve_jobs(session, [*words, *([name] if name else [])]))
    else:
        found = newest(job for job in all_jobs(session) if job["spec"].get("user", "") == session.user)
    if found is None:
        raise NoSuchPartError(
            f"{session.user} has no jobs in namespace {session.namespace}; `fairway jobs launch` runs one"
        )
    return found


def _latest(parts: list[TaskAttempt]) -> list[TaskAttempt]:
    """Of each task the latest attempt."""
    latest = {part.task: part for part in parts}
    return [part for part in parts if latest[part.task] == part]


def _task_number(job: Manifest, task: str) -> int:
    tasks = job["spec"]["tasks"]
    if task.isdecimal() and int(task) < len(tasks):
        return int(task)
    names = [str(one.get("name") or "") for one in tasks]
    if task in names:
        return names.index(task)
    known = ", ".join(f"{number} ({name})" if name else str(number) for number, name in enumerate(names))
    raise NoSuchPartError(f"--task {task}: job {title(job)} has the tasks {known}")


def _attempt(job: Manifest, there: list[TaskAttempt], attempt: str) -> TaskAttempt:
    found = [part for part in there if str(part.attempt) == attempt]
    if not found:
        known = ", ".join(str(part.attempt) for part in there) or "none yet"
        raise NoSuchPartError(f"--attempt {attempt}: job {title(job)} has the attempts {known}; `all` shows every one")
    return found[-1]
