"""A job as it is made at another server: one task, one candidate, and what else its user said of it."""

import msgspec

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.managedjob.remoting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID
from fairway.managedjobs.asking import Base
from fairway.managedjobs.observation import FOR_EVER, ManagedJobSpec
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.tasks.writing import mapping_of

_SAME = ("name", "recover", "queue", "aging", "secretName", "podConfig", "rank", "numJobs", "array")


def remote_manifest(manifest: Manifest, job: ManagedJobSpec, life: ManagedJobStatus, base: Base) -> Manifest:
    """What to submit; classes of this cluster may be unknown there, so the priority is a number."""
    if life.remote is None:
        raise ValueError("only a job of another server is created there")
    metadata, spec = manifest["metadata"], manifest["spec"]
    candidate = msgspec.structs.replace(job.candidate(life.task, life.candidate), infra="")
    task = msgspec.structs.replace(job.task(life.task), candidates=(candidate,), provision_timeout_seconds=None)
    given = {name: spec[name] for name in _SAME if name in spec}
    if base.value is not None:
        given["priority"] = base.value
    if given.get("secretName"):
        # Here it may be for many jobs; there each has its own, which goes when it does.
        given["secretName"] = life.remote.name
    if job.hold:
        given["hold"] = True
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {
            "name": life.remote.name,
            "labels": {ORIGIN_UID: metadata["uid"]},
            "annotations": {ORIGIN_NAMESPACE: metadata["namespace"], ORIGIN_NAME: metadata["name"]},
        },
        "spec": {**given, "provisionTimeoutSeconds": FOR_EVER, "tasks": [mapping_of(task)]},
    }
