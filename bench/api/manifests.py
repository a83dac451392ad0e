"""What the load is made of: a Workload as Kueue makes one for a Job, and the status that Kueue writes on admission.

Whatever differs from request to request (names, a counter) has a fixed width, so that a request is three parts joined
and its Content-Length never changes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.api.wire import APPLY, JSON, MERGE, Target

API = "kueue.x-k8s.io/v1beta2"
JOB = "sample"
_PREFIX = "job-sample"
_SLOT = "00000000"
_SINCE = "2026-01-01T00:00:00Z"


class Place(NamedTuple):
    """Where Workloads are made: a namespace with the Job that owns them all, as what has no owner left is collected."""

    namespace: str
    job_uid: str

    @property
    def path(self) -> str:
        return f"/apis/{API}/namespaces/{self.namespace}/workloads"


class _Template(NamedTuple):
    """A request with one slot in its body."""

    before: bytes
    after: bytes

    @classmethod
    def of(cls, head: bytes, body: bytes) -> _Template:
        before, slot, after = body.partition(_SLOT.encode())
        if not slot:
            raise ValueError("the body has no slot to fill")
        return cls(head + before, after)

    def filled(self, number: int) -> bytes:
        return b"%b%08d%b" % (self.before, number, self.after)


def name(number: int) -> str:
    return f"{_PREFIX}-{number:0{len(_SLOT)}d}"


def workload(place: Place) -> dict[str, Any]:
    """A Workload of about 3 KB for a Job of three pods with three containers each; its name ends in the slot."""
    return {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {
            "name": f"{_PREFIX}-{_SLOT}",
            "namespace": place.namespace,
            "labels": {"kueue.x-k8s.io/job-uid": place.job_uid},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": JOB,
                    "uid": place.job_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "active": True,
            "priority": 100,
            "queueName": "team-queue",
            "podSets": [{"name": "main", "count": 3, "template": _pod_template()}],
        },
    }


def job() -> dict[str, Any]:
    """The Job that owns the Workloads; suspended, so that no controller has anything to do with it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": JOB},
        "spec": {"suspend": True, "parallelism": 3, "completions": 3, "template": _pod_template()},
    }


def _pod_template() -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "training", "team": "vision"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [_container(role) for role in ("trainer", "loader", "metrics")],
        },
    }


def _container(role: str) -> dict[str, Any]:
    return {
        "name": role,
        "image": f"training/{role}:2026.1",
        "command": [
            "bash",
            "-c",
            f"exec python -m training.{role} --config /etc/training/{role}.yaml --checkpoint /ckpt",
        ],
        "env": [{"name": f"SETTING_{number}", "value": f"{role}-value-{number:08x}"} for number in range(1, 11)],
        "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }


def admitted() -> dict[str, Any]:
    """The status that Kueue writes when it admits that Workload. The slot is in a message: each patch is a change."""
    message = f"Quota reserved in ClusterQueue team-cq, wait time since queued was {_SLOT}s"
    common = {"status": "True", "lastTransitionTime": _SINCE, "observedGeneration": 1}
    return {
        "conditions": [
            {"type": "QuotaReserved", "reason": "QuotaReserved", "message": message, **common},
            {"type": "Admitted", "reason": "Admitted", "message": "The workload is admitted", **common},
        ],
        "admission": {
            "clusterQueue": "team-cq",
            "podSetAssignments": [
                {
                    "name": "main",
                    "flavors": {"cpu": "default", "memory": "default"},
                    "resourceUsage": {"cpu": "900m", "memory": "1800Mi"},
                    "count": 3,
                }
            ],
        },
    }


def creates(target: Target, place: Place, numbers: Iterator[int]) -> Iterator[bytes]:
    """Requests that create Workloads with these numbers. Clients that share ``numbers`` never make the same one."""
    body = encoded(workload(place))
    head = target.head("POST", place.path, length=len(body), content_type=JSON)
    return map(_Template.of(head, body).filled, numbers)


def workload_bodies(place: Place) -> Iterator[bytes]:
    """The manifests of Workloads with the numbers from 0 on, without a request around them."""
    return map(_Template.of(b"", encoded(workload(place))).filled, itertools.count())


def status_patches(target: Target, place: Place, numbers: range) -> Iterator[bytes]:
    """Merge patches of the status of these Workloads in turn, for ever, each with a higher count."""
    body = encoded({"status": admitted()})
    templates = [
        _Template.of(_patch_head(target, place, number, length=len(body), content_type=MERGE), body)
        for number in numbers
    ]
    return _in_turn(templates)


def status_applies(target: Target, place: Place, numbers: range) -> Iterator[bytes]:
    """The same by server-side apply, as Kueue itself writes it."""
    templates = []
    for number in numbers:
        metadata = {"name": name(number), "namespace": place.namespace}
        body = encoded({"apiVersion": API, "kind": "Workload", "metadata": metadata, "status": admitted()})
        # The name is of digits, too: the slot to fill is the one in the status.
        start = body.index(b'"status"')
        head = _patch_head(
            target,
            place,
            number,
            length=len(body),
            content_type=APPLY,
            query="?fieldManager=kueue-admission&force=true",
        )
        templates.append(_Template.of(head + body[:start], body[start:]))
    return _in_turn(templates)


def _patch_head(target: Target, place: Place, number: int, *, length: int, content_type: str, query: str = "") -> bytes:
    path = f"{place.path}/{name(number)}/status{query}"
    return target.head("PATCH", path, length=length, content_type=content_type)


def _in_turn(templates: list[_Template]) -> Iterator[bytes]:
    for count in itertools.count(1):
        for template in templates:
            yield template.filled(count)


def encoded(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, separators=(",", ":")).encode()
