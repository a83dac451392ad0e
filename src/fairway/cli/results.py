"""The files that jobs leave: which attempts have any, and how they come to this machine."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from fairway.cli.choosing import Manifest, title
from fairway.cli.joblogs import TaskAttempt, parts_of
from fairway.cli.options import with_options
from fairway.cli.reading import choose_parts
from fairway.client.rest import paths
from fairway.errors import BadRequest, NotFound
from fairway.managedjobs.tasks.task import node_count

if TYPE_CHECKING:
    from fairway.cli.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])
_UNITS: Final = ("B", "Ki", "Mi", "Gi", "Ti")


class Listing(NamedTuple):
    """What one node of one attempt left."""

    part: TaskAttempt
    rank: int
    items: list[dict[str, Any]]
    files: int
    bytes: int
    truncated: bool
    note: str


def part_options(command: Command) -> Command:
    """Which attempts, as `jobs logs` has them."""
    options = [
        click.option("--attempt", metavar="N|all", help="Of this attempt, or of all.  [default: the latest]"),
        click.option("--task", metavar="N|NAME", help="Of this task of a pipeline; the first is 0.  [default: all]"),
        click.option(
            "--rank", "--worker", "-w", type=click.IntRange(0), metavar="N", help="Of this node; 0 is the head."
        ),
    ]
    return with_options(command, options)


def listings(
    session: "Session", job: Manifest, *, attempt: str | None, task: str | None, rank: int | None, path: str = ""
) -> Iterator[Listing]:
    """The files of each selected attempt and node."""
    for part in choose_parts(job, attempt, task):
        nodes = node_count(job["spec"]["tasks"][part.task])
        for one in range(nodes) if rank is None else (rank,):
            yield listing(session, job, part, one, path)


def listing(session: "Session", job: Manifest, part: TaskAttempt, rank: int, path: str = "") -> Listing:
    metadata = job["metadata"]
    if session.is_cluster:
        raise NotFound(
            f"files of job {title(job)} are not kept: on a cluster the working directory goes with the pod; write "
            "results to $FAIRWAY_CHECKPOINT_DIR (config.kubernetes.checkpoints) or to a store of yours"
        )
    found = session.rest.get(
        paths.files(metadata["namespace"], metadata["name"]),
        task=part.task,
        attempt=part.attempt,
        rank=rank,
        path_=path or None,
    )
    return Listing(part, rank, found["items"], found["files"], found["bytes"], found["truncated"], found["note"])


def left_files(session: "Session", job: Manifest) -> bool:
    """Whether the last attempt of a job left any files; False if unknown."""
    parts = parts_of(job)
    try:
        return bool(parts) and listing(session, job, parts[-1], 0).files > 0
    except (BadRequest, NotFound):
        return False


def in_words(size: float) -> str:
    """`512B`, `1.5Mi`."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f}{unit}" if unit == "B" or size >= 10 else f"{size:.1f}{unit}"
        size /= 1024
    return f"{size:.1f}{_UNITS[-1]}"


def label(job: Manifest, part: TaskAttempt, rank: int) -> str:
    """`attempt 2`, in a pipeline `task 1, attempt 2`, of several nodes with `head` or `worker1`."""
    words = [f"task {part.task}"] if len(job["spec"]["tasks"]) > 1 else []
    words.append(f"attempt {part.attempt}")
    if node_count(job["spec"]["tasks"][part.task]) > 1:
        words.append(f"worker{rank}" if rank else "head")
    return ", ".join(words)
