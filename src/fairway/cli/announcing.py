"""Jobs in one line: submitted, ended, next commands; and as JSON."""

from collections.abc import Sequence

from fairway.cli.choosing import Manifest, id_of, name_of, phase_of, title
from fairway.cli.tables import plain


def aligned(commands: Sequence[tuple[str, str]]) -> str:
    """Commands to run next, and what each does."""
    width = max(len(command) for command, _ in commands)
    return "\n".join(f"  fairway {command:<{width}}   {purpose}" for command, purpose in commands)


def ids(jobs: Sequence[Manifest]) -> str:
    """`17`, `17-1016`, or several of these if the ids are not consecutive; as other commands accept them."""
    runs: list[list[int]] = []
    for number in sorted(id_of(job) for job in jobs):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def announcement(jobs: Sequence[Manifest], place: str = "") -> str:
    """The line that says that the jobs are submitted; `place` is the server, if it is another than usual."""
    first = jobs[0]
    queue = f" to queue {first['spec']['queue']}" if first["spec"].get("queue") else ""
    where = f"{queue}{f' on {place}' if place else ''}"
    if len(jobs) == 1:
        return f"Job {title(first)} submitted{where}."
    return f"Jobs {ids(jobs)} ({name_of(first)}) submitted{where}: {len(jobs)} jobs."


def ending(job: Manifest) -> str:
    """How a job ended, in a sentence."""
    status = job.get("status") or {}
    message = f": {plain(str(status['message']))}" if status.get("message") and phase_of(job) != "SUCCEEDED" else ""
    return f"Job {title(job)} ended: {phase_of(job)}{message}"


def summary(job: Manifest) -> Manifest:
    """A job for `-o json`: its names and its status."""
    spec = job["spec"]
    return {
        "id": id_of(job),
        "name": name_of(job),
        "object": job["metadata"]["name"],
        "namespace": job["metadata"]["namespace"],
        "user": spec.get("user", ""),
        "queue": spec.get("queue", ""),
        "priority": spec.get("priority"),
        "priorityClass": spec.get("priorityClass"),
        "status": phase_of(job),
    }
