"""Archives that are too large for Secrets: a PersistentVolumeClaim, and the pod that writes the archive into it.

The command line streams the archive to the pod by `exec`; the pod checks it and moves it into place. The claim is then
annotated with `COMPLETE`, and a claim without it is never used. A claim that several nodes can mount is named by its
content, so that launches of equal directories share it. One for a single node at a time (ReadWriteOnce) belongs to one
launch: with a shared one, the pods of one launch would keep those of another from starting.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from fairway.apis.machinery.kind import Manifest
from fairway.errors import FairwayError
from fairway.managedjobs.clusterfiles import ANCHOR_LABEL, ARCHIVE_LABEL, DIGITS, reference
from fairway.managedjobs.clusterscripts import ready_command
from fairway.managedjobs.observation import PodState, StartObstacle
from fairway.managedjobs.observing import pod_of
from fairway.managedjobs.podconfig import RUN, layered

COMPLETE: Final = "fairway.dev/complete"
"""Annotation of a claim whose archive is written and checked."""

ONCE: Final = "ReadWriteOnce"
MANY: Final = "ReadWriteMany"
CONTAINER: Final = "upload"
UPLOADER_IMAGE: Final = "busybox"
LONGEST_SECONDS: Final = 3600
_VOLUME: Final = "files"
_GIB: Final = 1 << 30
_OF_POD: Final = (
    "affinity", "imagePullSecrets", "nodeSelector", "priorityClassName", "runtimeClassName", "schedulerName",
    "securityContext", "serviceAccountName", "tolerations",
)  # fmt: skip
"""What a `pod_config` says about pods as a whole, and so also about the one that uploads their files."""

_CONFIGURE: Final = "config.kubernetes.files of the task, or kubernetes.files of your configuration"


class VolumeUnusable(FairwayError):
    """Files cannot be stored in a volume; waiting does not help. The message says what to do."""


class UploadPlan(Struct, frozen=True, kw_only=True):
    """How an archive is stored in a volume."""

    storage_class: str = ""
    access_mode: str = ONCE
    image: str = UPLOADER_IMAGE
    pod: dict[str, Any] = field(default_factory=dict)
    """Fields of the uploader pod's spec, from `pod_config`."""

    security: dict[str, Any] = field(default_factory=dict)
    """`securityContext` of its container."""

    several: bool = False
    """Whether pods of this launch may need the files at the same time."""

    @property
    def is_shared(self) -> bool:
        return self.access_mode == MANY


class Waiting(NamedTuple):
    """Why an uploader pod does not run yet."""

    reason: str
    is_hopeless: bool = False


def plan_for(jobs: Sequence[Manifest], digest: str) -> UploadPlan:
    """The plan for an archive of these jobs, which differ in nothing that matters here."""
    spec = jobs[0]["spec"]
    tasks = [task for task in spec["tasks"] if any(one["archive"] == digest for one in task.get("files") or ())]
    blocks = [(task.get("config") or {}).get("kubernetes") or {} for task in tasks]
    said: Mapping[str, str] = next((one["files"] for one in blocks if one.get("files")), {})
    template = layered([spec.get("podConfig") or {}, *(one.get("pod_config") or {} for one in blocks[:1])])
    pod = template.get("spec") or {}
    main: Manifest = next((one for one in pod.get("containers") or () if one.get("name") == RUN), {})
    several = len(jobs) > 1 or any((task.get("num_nodes") or 1) > 1 for task in tasks)
    return UploadPlan(
        storage_class=said.get("storage_class", ""),
        access_mode=said.get("access_mode") or (MANY if several else ONCE),
        image=said.get("image") or UPLOADER_IMAGE,
        pod={name: pod[name] for name in _OF_POD if name in pod},
        security=main.get("securityContext") or {},
        several=several,
    )


def with_claims(job: Manifest, claims: Mapping[str, str]) -> Manifest:
    """The job with the claims of its archives, by digest; by them its pods find the files."""
    if not any(claims.values()):
        return job
    tasks = []
    for task in job["spec"]["tasks"]:
        files = [
            {**one, "claim": claims[one["archive"]]} if claims.get(one["archive"]) else one
            for one in task.get("files") or ()
        ]
        tasks.append({**task, "files": files} if files else task)
    return {**job, "spec": {**job["spec"], "tasks": tasks}}


def claim_names(digest: str, launch: str, plan: UploadPlan) -> list[str]:
    """Claims that can hold an archive, the one to create last: a launch may use what others share."""
    shared = f"fairway-files-{digest[:DIGITS]}"
    return [shared] if plan.is_shared else [shared, f"{shared}-{launch}"]


def claim(name: str, digest: str, size: int, plan: UploadPlan, owner: Manifest) -> Manifest:
    """An empty claim with room for the archive, and for another copy while two launches upload it."""
    gib = max(1, -(-(2 * size + _GIB // 16) // _GIB))
    spec: Manifest = {"accessModes": [plan.access_mode], "resources": {"requests": {"storage": f"{gib}Gi"}}}
    if plan.storage_class:
        spec["storageClassName"] = plan.storage_class
    metadata = {"name": name, "labels": {ARCHIVE_LABEL: digest[:DIGITS]}, "ownerReferences": [reference(owner)]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def is_complete(found: Manifest) -> bool:
    return COMPLETE in (found["metadata"].get("annotations") or {})


def is_outdated(found: Manifest, plan: UploadPlan) -> bool:
    """Whether a claim without a volume is that of an earlier try with another configuration."""
    spec = found["spec"]
    differs = plan.storage_class and spec.get("storageClassName") != plan.storage_class
    pending = (found.get("status") or {}).get("phase") != "Bound"
    return pending and bool(differs or spec["accessModes"] != [plan.access_mode])


def check_class(made: Manifest) -> None:
    """`VolumeUnusable` for a claim that was created without a class: the API server fills in the default one."""
    if not made["spec"].get("storageClassName") and not made["spec"].get("volumeName"):
        raise VolumeUnusable(
            "files of more than 8 MB need a volume, and the cluster has no default StorageClass. Choose a class "
            f"(`kubectl get storageclass`) with storage_class in {_CONFIGURE}"
        )


def uploader(launch: str, digest: str, claim_name: str, plan: UploadPlan, owner: Manifest) -> Manifest:
    """The pod that waits for the archive; it ends by itself after an hour."""
    container = {
        "name": CONTAINER,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ready_command(LONGEST_SECONDS),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"cpu": "2", "memory": "256Mi"},
        },
        "securityContext": plan.security or {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": _VOLUME, "mountPath": "/fairway-upload"}],
    }
    spec = {
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        **plan.pod,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LONGEST_SECONDS,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim_name}}],
    }
    metadata = {
        "name": f"fairway-upload-{launch}-{digest[:10]}",
        "labels": {ANCHOR_LABEL: launch},
        "ownerReferences": [reference(owner)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def waiting(pod: Manifest, claim: Manifest, events: Iterable[Manifest]) -> Waiting | None:
    """Why the pod does not run yet; `None` if it does. `events` are those of both."""
    seen = pod_of(pod)
    name, image = pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]
    if seen.state is PodState.RUNNING and not seen.deleting:
        return None
    if seen.deleting or seen.state is not PodState.STARTING:
        return Waiting(f"the uploader pod {name} ended: {seen.message or 'it was deleted'}", is_hopeless=True)
    if seen.obstacle in {StartObstacle.HOPELESS, StartObstacle.IMAGE}:
        return Waiting(
            f"the image {image} of the uploader pod {name} cannot be pulled ({seen.message}). Choose one that the "
            f"cluster has, with sh, dd and sha256sum, with image in {_CONFIGURE}",
            is_hopeless=not seen.message.startswith("ErrImagePull"),
        )
    failures = {one.get("reason"): str(one.get("message", "")) for one in events if one.get("type") == "Warning"}
    if (claim.get("status") or {}).get("phase") != "Bound":
        unbound = _unbound(claim, failures)
        if unbound is not None:
            return unbound
    for reason in ("FailedAttachVolume", "FailedMount"):
        if reason in failures:
            return Waiting(f"the volume of the uploader pod {name} cannot be mounted: {failures[reason]}")
    return Waiting(f"the uploader pod {name} {seen.message or 'is being started'}")


def _unbound(claim: Manifest, failures: Mapping[Any, str]) -> Waiting | None:
    spec, name = claim["spec"], claim["metadata"]["name"]
    what = f"claim {name} (class {spec.get('storageClassName')}, {spec['accessModes'][0]})"
    if (claim.get("status") or {}).get("phase") == "Lost":
        return Waiting(f"the volume of {what} is lost; delete the claim, then launch again", is_hopeless=True)
    for reason in ("ProvisioningFailed", "FailedBinding"):
        said = failures.get(reason)
        if said:
            hint = f"Choose a class that offers {spec['accessModes'][0]} with storage_class in {_CONFIGURE}"
            return Waiting(f"no volume for {what}: {said}. {hint}", is_hopeless="not found" in said)
    return None
