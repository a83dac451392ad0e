"""A managed job's log over HTTP: of any of its attempts, whether the attempt's pods are there or gone.

Which attempt is said by `task` (the current one unless said), `attempt` (the latest of that task), `rank` (0, the head)
and `container` (`run`; before it come `files` and `setup`, where a task has any); which part of its log as for a pod.
A log that nothing was written to is empty, whatever the reason. With `follow`, an attempt that is still to come is
waited for, for as long as a watch may last; who has waited in vain asks again.
"""

import asyncio
import contextlib
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairway.apis.core.pod_parts import containers_of, statuses_of
from fairway.apis.machinery.kind import Manifest
from fairway.errors import BadRequest, Expired
from fairway.managedjobs.states import FINAL
from fairway.managedjobs.tasks.task import node_count
from fairway.server.http import Exchange
from fairway.server.limits import Limits
from fairway.server.logs.reading import log_path
from fairway.server.logs.requests import LogOptions, parse_options
from fairway.server.podlogs import Logs, Source, answer, has_ended, nothing, pod_until, send_log
from fairway.server.requests import Request
from fairway.server.responses import Response
from fairway.server.routes import Route
from fairway.store.selectors import Selection
from fairway.store.verbs import Objects
from fairway.store.verbs.reading import readable

CONTAINERS: Final = ("files", "setup", "run")
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
"""It becomes part of a path, and comes from a status."""


class Wanted(NamedTuple):
    """The attempt that is asked for, `None` for what the job itself decides."""

    task: int | None
    attempt: int | None
    rank: int
    container: str
    follow: bool


class AttemptPod(NamedTuple):
    """The pod of an attempt; without a UID it has never been."""

    name: str
    uid: str


async def job_log(
    objects: Objects,
    request: Request,
    route: Route,
    logs: Logs,
    limits: Limits,
    start: Callable[[], None],
) -> Response | None:
    """Send a log; `start` is called right before the first byte. An answer comes back where nothing was sent."""
    options = parse_options(request.query, route.name)
    wanted = _wanted(request, options)
    entry = objects.get(route.kind, route.namespace, route.name)
    job = readable(entry)
    pod = chosen(objects, job, wanted)
    if pod is None and (not wanted.follow or _is_over(job)):
        return nothing()

    async def telling() -> None:
        found = pod or await _awaited(objects, route, entry.meta.uid, wanted, limits)
        if found is not None and found.uid:
            source = _source(logs.state, route.namespace, found, wanted)
            await _stream_log(objects, source, options, logs, limits, request.exchange)

    await answer(request.exchange, start, telling())
    return None


def _wanted(request: Request, options: LogOptions) -> Wanted:
    container = options.container or CONTAINERS[-1]
    if container not in CONTAINERS:
        raise BadRequest(
            f"container: Invalid value: {container[:80]!r}: the containers of a managed job are {', '.join(CONTAINERS)}"
        )
    if options.previous:
        raise BadRequest("previous: Forbidden: earlier runs are separate attempts: use `attempt`")
    return Wanted(
        request.number("task"), request.number("attempt"), request.number("rank") or 0, container, options.follow
    )


def chosen(objects: Objects, job: Manifest, wanted: Wanted) -> AttemptPod | None:
    """The requested pod; `None` if it may still be created, `BadRequest` if it will not."""
    status = job.get("status") or {}
    task = (status.get("task") or 0) if wanted.task is None else wanted.task
    _check_place(job, task, wanted.rank)
    attempts = sorted((one for one in status.get("attempts") or () if one["task"] == task), key=_number)
    if wanted.attempt is None:
        attempt = attempts[-1] if attempts else None
    else:
        attempt = next((one for one in attempts if one["attempt"] == wanted.attempt), None)
        if attempt is None and (not _may_come(attempts, wanted) or _is_over(job)):
            raise _unknown_attempt(attempts, wanted.attempt)
    elsewhere = status.get("infra") if attempt is None else attempt.get("infra")
    if elsewhere:
        raise BadRequest(f"the job runs on {elsewhere}, which has its logs")
    return None if attempt is None else _pod_of(objects, job, attempt, wanted.rank)


def _pod_of(objects: Objects, job: Manifest, attempt: dict[str, Any], rank: int) -> AttemptPod | None:
    metadata = job["metadata"]
    for pod in attempt.get("pods") or ():
        if pod.get("rank", 0) != rank:
            continue
        if pod.get("uid"):
            return AttemptPod(pod["name"], pod["uid"]) if _UID.fullmatch(pod["uid"]) else AttemptPod("", "")
        entry = objects.store.get("pods", (metadata["namespace"], pod["name"]))
        if entry is not None and _belongs_to(readable(entry), metadata["uid"]):
            return AttemptPod(pod["name"], entry.meta.uid)
    return AttemptPod("", "") if attempt.get("endedAt") else None


def _check_place(job: Manifest, task: int, rank: int) -> None:
    tasks = job["spec"].get("tasks") or ()
    if not 0 <= task < len(tasks):
        raise BadRequest(f"task: Invalid value: {task}: {_there_are('task', 0, len(tasks) - 1)}")
    nodes = node_count(tasks[task])
    if not 0 <= rank < nodes:
        raise BadRequest(f"rank: Invalid value: {rank}: {_there_are('rank', 0, nodes - 1)}")


def _may_come(attempts: list[dict[str, Any]], wanted: Wanted) -> bool:
    """Whether an attempt that is not there will be worth waiting for."""
    latest = _number(attempts[-1]) if attempts else 0
    return wanted.follow and wanted.attempt is not None and wanted.attempt > latest


def _unknown_attempt(attempts: list[dict[str, Any]], number: int) -> BadRequest:
    known = _there_are("attempt", _number(attempts[0]), _number(attempts[-1])) if attempts else "no attempt has started"
    return BadRequest(f"attempt: Invalid value: {number}: {known}")


def _there_are(what: str, first: int, last: int) -> str:
    return f"there is only {what} {first}" if first == last else f"there are {what}s {first} to {last}"


def _number(attempt: dict[str, Any]) -> int:
    return int(attempt["attempt"])


def _belongs_to(pod: Manifest, uid: str) -> bool:
    return any(one.get("controller") and one["uid"] == uid for one in pod["metadata"].get("ownerReferences") or ())


def _is_over(job: Manifest) -> bool:
    """Whether the job has ended and is not being retried."""
    status = job.get("status") or {}
    return status.get("phase") in FINAL and job["spec"].get("retry", 0) <= status.get("observedRetry", 0)


async def _awaited(objects: Objects, route: Route, uid: str, wanted: Wanted, limits: Limits) -> AttemptPod | None:
    """The requested pod, once it exists; `None` if the job has ended or is deleted, or after a timeout."""
    selection = Selection(route.kind, route.namespace, fields=f"metadata.name={route.name}")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.watch_seconds * random.uniform(1, 2)):  # noqa: S311 - not all at once
            while True:
                events = objects.watch(selection, objects.store.revision)
                entry = objects.store.get(route.kind.resource, (route.namespace, route.name))
                if entry is None or entry.meta.uid != uid:
                    return None
                job = readable(entry)
                try:
                    pod = chosen(objects, job, wanted)
                except BadRequest:  # too late to refuse
                    return None
                if pod is not None or _is_over(job):
                    return pod
                with contextlib.suppress(Expired):
                    while not await events.next():
                        pass
    return None


def _source(state: Path, namespace: str, pod: AttemptPod, wanted: Wanted) -> Source:
    """The last start of the container; there are several only if the pod's restart policy was configured."""
    directory = log_path(state, namespace, pod.uid, wanted.container, 0).parent
    restart = max((int(path.stem) for path in directory.glob("*.log") if path.stem.isdecimal()), default=0)
    return Source(namespace, pod.name, pod.uid, wanted.container, restart)


async def _stream_log(
    objects: Objects, source: Source, options: LogOptions, logs: Logs, limits: Limits, exchange: Exchange
) -> None:
    if options.follow:
        await pod_until(objects, source, lambda pod: _has_begun(pod, source))
    await send_log(objects, source, options, logs, limits, exchange)


def _has_begun(pod: Manifest, source: Source) -> bool:
    """Whether a container has something to tell, or never will."""
    names = {one["name"] for one in containers_of(pod["spec"])}
    if source.container not in names or has_ended(pod, source.container, source.restart):
        return True
    return any(one["name"] == source.container and "running" in (one.get("state") or {}) for one in statuses_of(pod))
