"""Two runs side by side, as the API and the command line show them: sums, queues, jobs, and the use of quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity, amount_of, format_amount
from fairway.apis.machinery.timestamps import stamp
from fairway.simulate.jobs import TraceJob
from fairway.simulate.player import JobRun, Player
from fairway.simulate.scenario import PresentWorkload, Scenario

DEFAULT_LIMIT: Final = 500
_SAME_SECONDS: Final = 1.0


class JobFacts:
    """What is known of the jobs of scenarios, by key."""

    def __init__(self, *scenarios: Scenario) -> None:
        self._present: dict[str, PresentWorkload] = {}
        self._arriving: dict[str, TraceJob] = {}
        self._queues: dict[str, str] = {}
        for scenario in scenarios:
            for workload in scenario.workloads:
                metadata = workload.manifest["metadata"]
                key = f"{metadata['namespace']}/{metadata['name']}"
                self._present[key] = workload
                local = workload.manifest["spec"].get("queueName", "")
                self._queues[key] = scenario.cluster_queue_of(metadata["namespace"], local)
            for job in scenario.jobs:
                self._arriving[job.key] = job
                self._queues[job.key] = scenario.cluster_queue_of(job.namespace, job.queue)

    def queue(self, key: str) -> str:
        return self._queues.get(key, "")

    def record(self, key: str) -> Manifest:
        """Who it is."""
        namespace, _, name = key.partition("/")
        workload, job = self._present.get(key), self._arriving.get(key)
        if workload is not None:
            owner = workload.owner
            shown = f"{'job' if owner['kind'] == 'ManagedJob' else owner['kind']} {owner['name']}" if owner else name
            priority = workload.manifest["spec"].get("priority") or 0
            user = workload.user
        else:
            owner, shown = None, name
            priority, user = (job.priority, job.user) if job is not None else (0, "")
        return {
            "namespace": namespace,
            "workload": name,
            "owner": owner,
            "shown": shown,
            "clusterQueue": self.queue(key),
            "user": user,
            "priority": priority,
        }


def comparison(
    before: tuple[Scenario, Player],
    after: tuple[Scenario, Player],
    *,
    limit: int = DEFAULT_LIMIT,
    notes: Sequence[str] = (),
) -> Manifest:
    """The `status` of a Simulation."""
    facts = JobFacts(before[0], after[0])
    first, second = before[1].runs, after[1].runs
    jobs = [_job(key, first.get(key), second.get(key)) for key in dict.fromkeys([*first, *second])]
    jobs.sort(key=_most_changed_first)
    return {
        "at": _time(before[0].at),
        "notes": list(notes),
        "before": summary(*before),
        "after": summary(*after),
        "queues": _queues(facts, before[1], after[1]),
        "jobs": [facts.record(one["key"]) | {name: one[name] for name in one if name != "key"} for one in jobs[:limit]],
        "jobsOmitted": max(0, len(jobs) - limit),
    }


def summary(scenario: Scenario, player: Player) -> Manifest:
    """One run in figures."""
    runs = list(player.runs.values())
    lasted = player.now - player.began
    nominal = _nominal(scenario)
    average = {name: area / lasted for name, area in player.usage.integral.items()} if lasted else {}
    return {
        **_counts(runs, player.began),
        "finished": sum(run.ended is not None for run in runs),
        "neverStarted": sum(run.started is None for run in runs),
        "makespanSeconds": round(max((run.ended for run in runs if run.ended), default=player.began) - player.began, 3),
        "use": [
            {
                "flavor": flavor,
                "resource": resource,
                "nominal": format_amount(resource, amount),
                "ratio": round(average.get((flavor, resource), 0.0) / amount, 4) if amount else 0.0,
            }
            for (flavor, resource), amount in sorted(nominal.items())
        ],
        "timeline": [
            {
                "seconds": round(point.at - player.began, 3),
                "running": point.running,
                "waiting": point.waiting,
                "used": {
                    f"{flavor}/{resource}": round(point.used.get((flavor, resource), 0) / amount, 4)
                    for (flavor, resource), amount in sorted(nominal.items())
                    if amount
                },
            }
            for point in player.usage.timeline()
        ],
    }


def _counts(runs: Sequence[JobRun], began: float) -> Manifest:
    waits = sorted(
        run.started - max(run.submitted, began) for run in runs if run.started is not None and not run.running
    )
    return {
        "jobs": len(runs),
        "started": sum(run.started is not None for run in runs),
        "preemptions": sum(run.preemptions for run in runs),
        "wait": {
            "mean": round(sum(waits) / len(waits), 3) if waits else 0.0,
            "p50": _part(waits, 0.5),
            "p90": _part(waits, 0.9),
            "max": round(waits[-1], 3) if waits else 0.0,
        },
    }


def _part(ordered: Sequence[float], part: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3) if ordered else 0.0


def _queues(facts: JobFacts, before: Player, after: Player) -> list[Manifest]:
    grouped: tuple[dict[str, list[JobRun]], dict[str, list[JobRun]]] = ({}, {})
    for player, groups in zip((before, after), grouped, strict=True):
        for run in player.runs.values():
            groups.setdefault(facts.queue(run.key) or run.cluster_queue, []).append(run)
    names = sorted(grouped[0].keys() | grouped[1].keys())
    return [
        {
            "clusterQueue": name,
            "before": _counts(grouped[0].get(name, []), before.began),
            "after": _counts(grouped[1].get(name, []), after.began),
        }
        for name in names
    ]


def _job(key: str, before: JobRun | None, after: JobRun | None) -> Manifest:
    first, second = (None if run is None else run.started for run in (before, after))
    seconds = second - first if first is not None and second is not None else None
    if before is None or after is None:
        change = "new" if before is None else "gone"
    elif seconds is None:
        change = "same" if first is second else "sooner" if first is None else "later"
    else:
        change = "same" if abs(seconds) <= _SAME_SECONDS else "sooner" if seconds < 0 else "later"
    return {
        "key": key,
        "before": _run(before),
        "after": _run(after),
        "change": change,
        "changeSeconds": None if seconds is None else round(seconds, 3),
    }


def _run(run: JobRun | None) -> Manifest | None:
    if run is None:
        return None
    waited = None if run.started is None or run.running else round(run.started - run.submitted, 3)
    return {
        "start": _time(run.started),
        "end": _time(run.ended),
        "waitSeconds": 0.0 if run.running else waited,
        "preemptions": run.preemptions,
        "running": run.running,
    }


def _most_changed_first(job: Manifest) -> tuple[Any, ...]:
    seconds = job["changeSeconds"]
    change = float("inf") if job["change"] != "same" and seconds is None else abs(seconds or 0.0)
    other = job["after"] or job["before"]
    preempted = ((job["after"] or {}).get("preemptions", 0)) != ((job["before"] or {}).get("preemptions", 0))
    return job["change"] == "same" and not preempted, -change, other["start"] or "~", job["key"]


def _nominal(scenario: Scenario) -> dict[tuple[str, str], int]:
    """The quota of all ClusterQueues and cohorts, by flavor and resource."""
    found: dict[tuple[str, str], int] = {}
    for kind in ("ClusterQueue", "Cohort"):
        for manifest in scenario.of_kind(kind):
            for flavor, quota in _quotas(manifest):
                name = flavor, quota["name"]
                amount = amount_of(quota["name"], Quantity.parse(quota.get("nominalQuota", 0)))
                found[name] = found.get(name, 0) + amount
    return found


def _quotas(manifest: Manifest) -> Iterable[tuple[str, Manifest]]:
    for group in (manifest.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for quota in flavor["resources"]:
                yield flavor["name"], quota


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else stamp(datetime.fromtimestamp(seconds, UTC))
