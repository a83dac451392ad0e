"""A trace as a scenario: its queues completed, its jobs put into queues that exist."""

from __future__ import annotations

import msgspec

from fairway.admission.config import Config
from fairway.apis.kueue.manifests import encode, load
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.metadata import GROUP
from fairway.simulate.scenario import KINDS, Scenario, by_key
from fairway.simulate.traces import BadTraceError, JobTrace, namespace_object


def trace_scenario(trace: JobTrace, queue: str = "", config: Config | None = None) -> tuple[Scenario, list[str]]:
    """The scenario, and notes about what was adapted. Jobs whose queue is not there go to `queue`, or the only one."""
    scenario = Scenario(
        at=min((job.submitted for job in trace.jobs), default=0.0),
        config=config or Config(requeue_batch_seconds=0.0),
        objects=by_key(map(_complete, trace.objects)),
    )
    notes = list(trace.notes)
    local = {(namespace, name) for kind, namespace, name in scenario.objects if kind == "LocalQueue"}
    moved, jobs = set[str](), []
    count = 0
    for job in trace.jobs:
        if (job.namespace, job.queue) in local:
            jobs.append(job)
            continue
        namespace, name = _only(local, queue, f"{job.namespace}/{job.queue}")
        moved.add(f"{namespace}/{name}")
        count += 1
        jobs.append(msgspec.structs.replace(job, namespace=namespace, queue=name))
    if moved:
        notes.append(f"{count} jobs name a LocalQueue that is not there and are put into {', '.join(sorted(moved))}")
    scenario.jobs = jobs
    for namespace in {namespace for namespace, _ in local}:
        scenario.objects.setdefault(("Namespace", "", namespace), namespace_object(namespace))
    return scenario, notes


def _complete(manifest: Manifest) -> Manifest:
    """An object as it would be stored, unless it is stored already."""
    metadata = manifest.get("metadata") or {}
    if "uid" in metadata or GROUP not in str(manifest.get("apiVersion")) or manifest.get("kind") not in KINDS:
        return manifest
    return encode(load(manifest))


def _only(local: set[tuple[str, str]], queue: str, wanted: str) -> tuple[str, str]:
    found = sorted(one for one in local if queue in {"", one[1]})
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{namespace}/{name}" for namespace, name in sorted(local)[:10])
    asked = f"--queue {queue}" if queue else f"the LocalQueue {wanted} of a job"
    raise BadTraceError(
        f"{asked} is not there, or more than one is; there are {known or 'none'}: name one with --queue"
    )
