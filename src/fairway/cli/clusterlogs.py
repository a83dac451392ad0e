"""Logs of managed jobs on a cluster: of pods that exist from their kubelets, of those that are gone what was kept."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fairway.cli.choosing import Manifest
from fairway.cli.joblogs import LogPart
from fairway.cli.session import print_note
from fairway.client.rest import paths
from fairway.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from fairway.client.rest import Rest

_PAUSE_SECONDS: Final = 0.5
_KEPT_WITHIN_SECONDS: Final = 15.0
"""How long the controller may take to keep the log of a pod that has ended."""


def cluster_log(rest: "Rest", job: Manifest, part: LogPart) -> Iterator[bytes]:
    """What one container of one attempt wrote; with `follow`, until it has ended."""
    deadline = time.monotonic() + _KEPT_WITHIN_SECONDS
    while True:
        pod = _pod(rest, job, part)
        state = {} if pod is None else _state(pod, part.container)
        if pod is None or (state is not None and "terminated" in state and "deletionTimestamp" in pod["metadata"]):
            kept = _kept(rest, job, part)
            if kept is not None:
                yield from _kept_log(kept, part)
                return
            if pod is None or time.monotonic() > deadline:
                return
        elif state is None:
            return  # setup and run are one container on a cluster
        elif "waiting" not in state:
            yield from _pod_log(rest, pod, part)
            return
        elif not part.follow:
            return
        time.sleep(_PAUSE_SECONDS)


def _pod(rest: "Rest", job: Manifest, part: LogPart) -> Manifest | None:
    from fairway.managedjobs.pods import pod_name  # noqa: PLC0415 - not on one machine

    name = pod_name(job, part.task, part.attempt, part.rank)
    try:
        found: Manifest = rest.get(paths.resource("v1", "pods", job["metadata"]["namespace"], name))
    except NotFound:
        return None
    owners = found["metadata"].get("ownerReferences") or ()
    return found if any(one["uid"] == job["metadata"]["uid"] for one in owners) else None


def _state(pod: Manifest, container: str) -> Manifest | None:
    """The state of a container; `None` if the pod has no such container."""
    names = {one["name"] for key in ("initContainers", "containers") for one in pod["spec"].get(key) or ()}
    if container not in names:
        return None
    status = pod.get("status") or {}
    for key in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(key) or ():
            if one["name"] == container:
                return one.get("state") or {"waiting": {}}
    return {"waiting": {}}


def _pod_log(rest: "Rest", pod: Manifest, part: LogPart) -> Iterator[bytes]:
    metadata = pod["metadata"]
    try:
        yield from rest.stream(
            paths.resource("v1", "pods", metadata["namespace"], metadata["name"], "log"),
            container=part.container,
            tailLines=part.tail,
            timestamps=part.timestamps or None,
            follow=part.follow or None,
        )
    except (BadRequest, NotFound):  # it ended or went in between; the next look finds what was kept
        return


def _kept(rest: "Rest", job: Manifest, part: LogPart) -> Manifest | None:
    from fairway.managedjobs.pods import ATTEMPT, JOB, RANK, TASK  # noqa: PLC0415 - not on one machine

    labels = {JOB: job["metadata"]["name"], TASK: part.task, ATTEMPT: part.attempt, RANK: part.rank}
    found = rest.get(
        paths.resource("v1", "configmaps", job["metadata"]["namespace"]),
        labelSelector=",".join(f"{name}={value}" for name, value in labels.items()),
    )
    uid = job["metadata"]["uid"]
    for one in found["items"]:
        if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences") or ()):
            kept: Manifest = one
            return kept
    return None


def _kept_log(kept: Manifest, part: LogPart) -> Iterator[bytes]:
    from fairway.managedjobs.keptlogs import MISSING, log_of  # noqa: PLC0415 - not on one machine

    missing = (kept["metadata"].get("annotations") or {}).get(MISSING)
    if missing and part.container == "run":
        print_note(f"The log of attempt {part.attempt} was not kept: {missing}")
    log = log_of(kept, part.container, timestamps=part.timestamps)
    if part.tail is not None:
        log = b"".join(log.splitlines(keepends=True)[-part.tail :]) if part.tail else b""
    if log:
        yield log
