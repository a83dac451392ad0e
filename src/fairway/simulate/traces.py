"""Traces: jobs with their times, from the Standard Workload Format and from Fairway's own history.

Both are read to a `JobTrace`: the jobs, the queues that the trace brings along if it says how large its machine was,
and notes about what was left out. A line that cannot be read is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.errors import FairwayError
from fairway.simulate.jobs import NAMESPACE, TraceJob

QUEUE: Final = "default"
FLAVOR: Final = "default"
API: Final = "kueue.x-k8s.io/v1beta2"
_FIELDS: Final = 18
_MOST_SHOWN: Final = 5
_DONE: Final = frozenset({"Succeeded", "Failed"})


class BadTraceError(FairwayError):
    """A trace or a generator file that cannot be read: where, what is wrong, and what would be right."""

    exit_code = 2


class JobTrace(Struct, kw_only=True):
    """Jobs to play, in the order of their submission."""

    jobs: list[TraceJob]
    objects: list[Manifest] = []
    """Queues and flavors that belong to it."""

    notes: list[str] = []
    waits: dict[str, float] = {}
    """How long jobs waited when it was recorded, by key, where it says so."""


def read_swf(text: str, *, skip_bad_lines: bool = False) -> JobTrace:
    """A trace in the Standard Workload Format: 18 numbers a line, `;` begins a comment, -1 is unknown.

    A processor is one `cpu`. Jobs without a run time or processors (cancelled before they started) are left out.
    """
    reader = _SwfReader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.read(number, line.strip())
    if reader.bad and not skip_bad_lines:
        more = f" (and {len(reader.bad) - _MOST_SHOWN} more)" if len(reader.bad) > _MOST_SHOWN else ""
        raise BadTraceError("; ".join(reader.bad[:_MOST_SHOWN]) + f"{more}. --skip-bad-lines leaves such lines out")
    return reader.trace()


class _SwfReader:
    def __init__(self) -> None:
        self.bad: list[str] = []
        self._jobs: list[TraceJob] = []
        self._waits: dict[str, float] = {}
        self._unstarted = 0
        self._largest = 0
        self._processors = 0
        self._numbers: set[int] = set()

    def read(self, number: int, line: str) -> None:
        if not line:
            return
        if line.startswith(";"):
            self._header(line)
            return
        words = line.split()
        if len(words) != _FIELDS:
            self.bad.append(f"line {number}: {len(words)} fields, a job has {_FIELDS}")
            return
        try:
            values = [float(word) for word in words]
        except ValueError:
            wrong = next(word for word in words if not _is_number(word))
            self.bad.append(f"line {number}: {wrong[:40]!r} is not a number")
            return
        problem = self._job(values)
        if problem:
            self.bad.append(f"line {number}: {problem}")

    def _header(self, line: str) -> None:
        name, _, value = line.lstrip("; \t").partition(":")
        if name.strip() in {"MaxProcs", "MaxNodes"} and (words := value.split()) and words[0].isdigit():
            self._processors = max(self._processors, int(words[0]))

    def _job(self, values: list[float]) -> str:
        """Take in a job; what is wrong with it, if anything."""
        number, submitted, waited, ran, used = int(values[0]), values[1], values[2], values[3], int(values[4])
        processors = int(values[7]) if values[7] > 0 else used
        if submitted < 0:
            return f"submit time {submitted:g} is negative"
        if number in self._numbers:
            return f"there is a job {number} already"
        self._numbers.add(number)
        if ran < 0 or processors <= 0:
            self._unstarted += 1
            return ""
        self._largest = max(self._largest, processors)
        job = TraceJob(
            name=f"job-{number}",
            queue=f"queue-{int(values[14])}" if values[14] >= 0 else QUEUE,
            submitted=submitted,
            seconds=ran,
            requests=(("cpu", str(processors)),),
            user=f"user-{int(values[11])}" if values[11] >= 0 else "",
            declared=values[8] if values[8] > 0 else None,
        )
        self._jobs.append(job)
        if waited >= 0:
            self._waits[job.key] = waited
        return ""

    def trace(self) -> JobTrace:
        notes = []
        if self.bad:
            notes.append(f"{len(self.bad)} lines could not be read and are left out")
        if self._unstarted:
            notes.append(f"{self._unstarted} jobs without a run time or processors are left out: they never started")
        processors = self._processors
        if not processors and self._jobs:
            processors = self._largest
            notes.append(
                f"the trace has no MaxProcs: a machine of {processors} processors is assumed (its largest job)"
            )
        queues = sorted({job.queue for job in self._jobs})
        objects = one_queue({"cpu": str(processors)}, queues) if processors else []
        self._jobs.sort(key=lambda job: job.submitted)
        return JobTrace(jobs=self._jobs, objects=objects, notes=notes, waits=self._waits)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def read_history(attempts: Iterable[Mapping[str, Any]]) -> JobTrace:
    """Fairway's own history (`fairway jobs history -o json`): each job once, with the run time of its last attempt."""
    jobs: dict[str, TraceJob] = {}
    waits: dict[str, float] = {}
    unfinished = 0
    for number, attempt in enumerate(attempts):
        try:
            done = attempt["outcome"] in _DONE
            if not done:
                unfinished += 1
                continue
            job = _attempted(attempt)
        except (KeyError, TypeError, ValueError) as problem:
            raise BadTraceError(
                f"items[{number}] is no attempt of a history: {type(problem).__name__} {problem}; "
                "`fairway jobs history -o json` writes one"
            ) from None
        jobs[job.key] = job
        waits[job.key] = float(attempt.get("waitSeconds") or 0.0)
    notes = [f"{unfinished} attempts that did not come to their own end are left out"] if unfinished else []
    return JobTrace(jobs=sorted(jobs.values(), key=lambda job: job.submitted), notes=notes, waits=waits)


def _attempted(attempt: Mapping[str, Any]) -> TraceJob:
    started, ended, queued = (_seconds(attempt[name]) for name in ("started", "ended", "queued"))
    return TraceJob(
        name=str(attempt["workload"]),
        namespace=str(attempt["metadata"].get("namespace") or NAMESPACE),
        queue=str(attempt["queue"]),
        user=str(attempt.get("user") or ""),
        priority=int(attempt.get("priority") or 0),
        submitted=queued,
        seconds=max(0.0, ended - started),
        requests=tuple(sorted((str(name), str(amount)) for name, amount in attempt["resources"].items())),
    )


def _seconds(text: Any) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


# Queues for a trace


def manifest(kind: str, name: str, spec: Mapping[str, Any], namespace: str = "") -> Manifest:
    """An object of Kueue."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def one_queue(quota: Mapping[str, str], local_queues: Iterable[str]) -> list[Manifest]:
    """One ClusterQueue with this quota, and the LocalQueues that lead to it."""
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(quota), "flavors": [{"name": FLAVOR, "resources": resources}]}],
    }
    return [
        namespace_object(NAMESPACE),
        manifest("ResourceFlavor", FLAVOR, {}),
        manifest("ClusterQueue", QUEUE, spec),
        *(manifest("LocalQueue", name, {"clusterQueue": QUEUE}, NAMESPACE) for name in local_queues),
    ]


def namespace_object(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {}}}
