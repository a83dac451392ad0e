"""Nodes: the machines that pods run on."""

from datetime import datetime
from typing import Final

from fairway.apis.core.placement import wrong_taints
from fairway.apis.core.resources import canonical, wrong_quantity
from fairway.apis.core.selectables import flag_at
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import problems
from fairway.apis.machinery.conditions import find
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE, NONE, UNKNOWN, text_at
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"
_RESOURCE_LISTS: Final = ("capacity", "allocatable")


def _default(manifest: Manifest) -> None:
    manifest.setdefault("spec", {})
    status = manifest.setdefault("status", {})
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])
    canonical({field: status[field] for field in _RESOURCE_LISTS if status.get(field)})


def _validate(manifest: Manifest) -> list[FieldError]:
    return [*metadata.wrong_metadata(manifest), *_wrong_node(manifest)]


def _wrong_node(manifest: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    if taints := (manifest.get("spec") or {}).get("taints"):
        errors += wrong_taints(taints, "metadata.taints")
    status = manifest.get("status") or {}
    for field in _RESOURCE_LISTS:
        for resource, quantity in (status.get(field) or {}).items():
            errors += wrong_quantity(resource, quantity, f"status.{field}.{resource}")
    return errors


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    errors = [*metadata.wrong_metadata_update(old, new), *_validate(new)]
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field, name in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(field) and before[field] != after.get(field):
            rule = f'node updates may not change {name} except from "" to valid'
            errors.append(problems.forbidden(f"spec.{field}", after.get(field), rule))
    seen = []
    for position, address in enumerate((new.get("status") or {}).get("addresses") or ()):
        if address in seen:
            errors.append(problems.duplicate(f"status.addresses[{position}]", address))
        seen.append(address)
    return errors


def _status(manifest: Manifest, _now: datetime) -> str:
    ready = find(manifest, "Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (manifest.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(manifest: Manifest, _now: datetime) -> str:
    labels = manifest["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL) or "")
    return ",".join(sorted(roles - {""})) or NONE


def _internal_address(manifest: Manifest, _now: datetime) -> str:
    return _address(manifest, "InternalIP")


def _external_address(manifest: Manifest, _now: datetime) -> str:
    return _address(manifest, "ExternalIP")


def _address(manifest: Manifest, kind: str) -> str:
    for address in (manifest.get("status") or {}).get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address") or "")
    return NONE


def _kernel(manifest: Manifest, _now: datetime) -> str:
    info = (manifest.get("status") or {}).get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    return f"{kernel} ({info['architecture']})" if info.get("architecture") else kernel


_INFO: Final = ("status", "nodeInfo")
_COLUMNS: Final = (
    Column(name="Status", value=_status, description="Whether it takes pods."),
    Column(name="Roles", value=_roles, description="What it is there for, by its labels."),
    AGE,
    Column(name="Version", value=text_at(*_INFO, "kubeletVersion"), description="The version of its runner."),
    Column(name="Internal-IP", value=_internal_address, priority=1, description="Its address inside."),
    Column(name="External-IP", value=_external_address, priority=1, description="Its address outside."),
    Column(
        name="OS-Image",
        value=text_at(*_INFO, "osImage", otherwise=UNKNOWN),
        priority=1,
        description="Its operating system.",
    ),
    Column(name="Kernel-Version", value=_kernel, priority=1, description="Its kernel and architecture."),
    Column(
        name="Container-Runtime",
        value=text_at(*_INFO, "containerRuntimeVersion", otherwise=UNKNOWN),
        priority=1,
        description="What runs its containers.",
    ),
)

NODE: Final = Kind(
    group="",
    kind="Node",
    plural="nodes",
    versions=("v1",),
    stored="v1",
    short_names=("no",),
    namespaced=False,
    status=True,
    created_with_status=True,
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.Node")},
    columns={"v1": _COLUMNS},
    selectable={"spec.unschedulable": flag_at("spec", "unschedulable")},
    rules=Rules(default=_default, validate=_validate, validate_update=_validate_update),
)
