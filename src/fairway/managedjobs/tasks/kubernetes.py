"""SkyPilot's `kubernetes:` block, as it stands in the configuration and in a task's own `config`."""

from typing import Any, Final

from msgspec import Struct, field

from fairway.apis.machinery.quantities import Quantity
from fairway.managedjobs.merging import merged
from fairway.managedjobs.tasks.labels import label_value, labels, object_name
from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.resources import image
from fairway.managedjobs.tasks.task import CheckpointVolume, FilesVolume
from fairway.managedjobs.tasks.values import mapping, shown, text, unknown, whole, written

ALL_CONTEXTS: Final = "*"
_CHECKPOINTS: Final = ("size", "storage_class", "access_mode", "claim")
_FILES: Final = ("storage_class", "access_mode", "image")
_MODES: Final = ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")
_LONGEST_WAIT: Final = 2**31 - 1

KNOWN: Final = (
    "pod_config", "custom_metadata", "provision_timeout", "remote_identity", "kueue", "quota",
    "checkpoints", "files", "image", "namespace", "allowed_contexts", "kubeconfig",
)  # fmt: skip
FOR_CONFIGURATION_ONLY: Final = ("image", "namespace", "allowed_contexts", "kubeconfig")
MEANINGLESS: Final = (
    "ports", "allowed_nodes", "networking", "networking_mode", "max_inline_command_length", "autoscaler",
    "enable_docker", "dws", "high_availability", "post_provision_runcmd", "set_pod_resource_limits", "pricing",
    "apt_mirrors", "auto_mounts", "context_configs", "fuse", "disabled", "custom_images",
)  # fmt: skip
"""Fields that SkyPilot has and that say nothing about a job here."""

_SKYPILOTS_IDENTITIES: Final = frozenset({"SERVICE_ACCOUNT", "LOCAL_CREDENTIALS", "NO_UPLOAD"})
"""How a cloud's credentials get into a pod; pods here have no need of them."""


class KubernetesBlock(Struct, frozen=True, kw_only=True):
    """What the block says; empty where it says nothing."""

    pod_config: dict[str, Any] = field(default_factory=dict)
    provision_timeout_seconds: int | None = None
    service_account: str = ""
    queue: str = ""
    namespace: str = ""
    allowed_contexts: tuple[str, ...] | None = None
    """`*` among them for all, `None` if nothing is said."""

    kubeconfig: str = ""
    image: str = ""
    checkpoints: CheckpointVolume | None = None
    files: FilesVolume | None = None


def kubernetes(value: Any, where: Where, ignored: list[Where], *, of_task: bool) -> KubernetesBlock:
    """The block, checked; fields that mean nothing here (and, in a task, nothing there) are added to `ignored`."""
    block = mapping(value, where, "{provision_timeout: 600}")
    for name in block:
        if name in MEANINGLESS or (of_task and name in FOR_CONFIGURATION_ONLY):
            ignored.append(where.at(name))
        elif name not in KNOWN:
            raise unknown(name, KNOWN, where.at(name), also=MEANINGLESS)
    given = {name: one for name, one in block.items() if one is not None}
    if of_task:
        given = {name: one for name, one in given.items() if name not in FOR_CONFIGURATION_ONLY}
    metadata = given.get("custom_metadata")
    parts: list[dict[str, Any]] = []
    if metadata is not None:
        parts.append({"metadata": _metadata(metadata, where.at("custom_metadata"))})
    if "pod_config" in given:
        parts.append(pod_config(given["pod_config"], where.at("pod_config")))
    timeout = given.get("provision_timeout")
    return KubernetesBlock(
        pod_config=merged(*parts) if len(parts) == 2 else parts[0] if parts else {},
        provision_timeout_seconds=None if timeout is None else _timeout(timeout, where.at("provision_timeout")),
        service_account=_service_account(given.get("remote_identity"), where.at("remote_identity")),
        queue=_queue(given, where, ignored),
        namespace=_name(given.get("namespace"), where.at("namespace"), "a namespace"),
        allowed_contexts=_contexts(given.get("allowed_contexts"), where.at("allowed_contexts")),
        kubeconfig=text(given.get("kubeconfig", ""), where.at("kubeconfig"), "~/.kube/config"),
        image=image(given["image"], where.at("image")) if "image" in given else "",
        checkpoints=_checkpoints(given.get("checkpoints"), where.at("checkpoints")),
        files=_files_volume(given.get("files"), where.at("files")),
    )


def pod_config(value: Any, where: Where) -> dict[str, Any]:
    """A part of a pod: its metadata is checked here, its spec where pods are made."""
    part = mapping(value, where, "{metadata: {labels: {team: research}}}")
    result: dict[str, Any] = {}
    for name, one in part.items():
        inner = where.at(name)
        if name not in {"metadata", "spec", "apiVersion", "kind"}:
            hint = "did you mean metadata.labels?" if name in {"labels", "annotations"} else ""
            raise unknown(name, ("metadata", "spec"), inner, hint)
        if one is None:
            continue
        if name == "metadata":
            result[name] = _metadata(one, inner)
        elif name == "spec":
            result[name] = mapping(one, inner, "{nodeSelector: {disk: ssd}}")
    return {name: one for name, one in result.items() if one}


def _checkpoints(value: Any, where: Where) -> CheckpointVolume | None:
    if value is None:
        return None
    said = _volume(value, where, _CHECKPOINTS, "{size: 50Gi}")
    if said.get("claim") and len(said) > 1:
        raise where.error("a claim that exists has a size and a class already; leave out everything but claim", value)
    try:
        wrong = Quantity.parse(said.get("size", "1")).nanos <= 0
    except ValueError:
        wrong = True
    if wrong:
        raise where.at("size").error(f"{shown(said['size'])} is not an amount; write for example 50Gi", said["size"])
    return CheckpointVolume(**said)


def _files_volume(value: Any, where: Where) -> FilesVolume | None:
    if value is None:
        return None
    said = _volume(value, where, _FILES, "{storage_class: shared}")
    if "image" in said:
        said["image"] = image(said["image"], where.at("image"))
    return FilesVolume(**said)


def _volume(value: Any, where: Where, known: tuple[str, ...], example: str) -> dict[str, str]:
    """What a block says about a volume, its names and access mode checked."""
    block = mapping(value, where, example)
    for name in block:
        if name not in known:
            raise unknown(name, known, where.at(name))
    said = {name: text(str(one), where.at(name), "50Gi").strip() for name, one in block.items() if one is not None}
    for name in ("claim", "storage_class"):
        if said.get(name):
            object_name(said[name], where.at(name), "a claim" if name == "claim" else "a storage class")
    if said.get("access_mode", _MODES[0]) not in _MODES:
        at = where.at("access_mode")
        raise at.error(f"{shown(said['access_mode'])} is not one of {', '.join(_MODES)}", said["access_mode"])
    return said


def _metadata(value: Any, where: Where) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, one in mapping(value, where, "{labels: {team: research}}").items():
        inner = where.at(name)
        if name == "labels":
            result[name] = labels(one, inner)
        elif name == "annotations":
            entries = mapping(one, inner, "{note: hello}")
            result[name] = {key: written(entry, inner.at(key), "hello") for key, entry in entries.items()}
        else:
            raise unknown(name, ("labels", "annotations"), inner)
    return {name: one for name, one in result.items() if one}


def _timeout(value: Any, where: Where) -> int:
    return whole(value, where, least=-1, most=_LONGEST_WAIT, example="600 (seconds), or -1 to wait for ever")


def _service_account(value: Any, where: Where) -> str:
    if value is None:
        return ""
    name = text(value, where, "SERVICE_ACCOUNT, or the name of a service account").strip()
    return "" if name.upper() in _SKYPILOTS_IDENTITIES else object_name(name, where, "a service account")


def _queue(given: dict[str, Any], where: Where, ignored: list[Where]) -> str:
    """`quota.queue` is SkyPilot's newer name for `kueue.local_queue_name`, and wins."""
    found = ""
    for block, name, other in (("kueue", "local_queue_name", ("admission_timeout",)), ("quota", "queue", ())):
        inner = where.at(block)
        part = mapping(given.get(block), inner, f"{{{name}: user-queue}}")
        for key in part:
            if key in other:
                ignored.append(inner.at(key))
            elif key != name:
                raise unknown(key, (name, *other), inner.at(key))
        if part.get(name) is not None:
            queue = text(part[name], inner.at(name), "user-queue")
            found = label_value(object_name(queue, inner.at(name), "a queue"), inner.at(name))
    return found


def _name(value: Any, where: Where, what: str) -> str:
    return "" if value is None else object_name(text(value, where, "research"), where, what)


def _contexts(value: Any, where: Where) -> tuple[str, ...] | None:
    if value is None:
        return None
    if value == "all":
        return (ALL_CONTEXTS,)
    if type(value) is not list:
        raise where.error("must be a list of contexts of the kubeconfig, or all; write for example [lab]", value)
    return tuple(text(one, where.at(position), "lab") for position, one in enumerate(value))
