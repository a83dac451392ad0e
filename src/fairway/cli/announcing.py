"""Jobs in one line: submitted, ended, next commands; and as JSON."""

from collections.abc import Sequence

from fairway.cli.choosing import Manifest, id_of, name_of, phase_of, title
from fairway.cli.tables import plain


def aligned(commands: Sequence[tuple[str, str]]) -> str:
    """Commands to run next, and what each does."""
    width = max(len(command) for command, _ in commands)
    return "\n".join(f"  fairway {command:<{width}}   {purpose}" for command, purpose in commands)


def ids(jobs: Sequence[Manifest]) -> str:
    """`17`, or `17-1016`; a list if the ids are not consecutive."""
    numbers = [id_of(job) for job in jobs]
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
    return " ".join(map(str, numbers))


def announcement(jobs: Sequence[Manifest]) -> str:
    """The line that says that the jobs are submitted."""
    first = jobs[0]
    queue = f" to queue {first['spec']['queue']}" if first["spec"].get("queue") else ""
    if len(jobs) == 1:
        return f"Job {title(first)} submitted{queue}."
    return f"Jobs {ids(jobs)} ({name_of(first)}) submitted{queue}: {len(jobs)} jobs."


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
