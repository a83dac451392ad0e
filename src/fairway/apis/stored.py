"""Kinds of Kubernetes that are stored because operators start with them, and that nothing here acts on.

The names of Services resolve in pods (`runner/servicenames.py`).

A kind is a row: its names, its recorded schema, columns by JSONPath, and what a client should know that writes one. An
object that belongs to the install manifest of a built-in component is acknowledged instead (`components.py`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from fairway.apis import components
from fairway.apis.core.pod_defaults import default_template
from fairway.apis.core.pod_specs import wrong_template
from fairway.apis.machinery.jsonpath import compiled, custom_column
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules, Scale
from fairway.apis.machinery.metadata_rules import wrong_metadata, wrong_metadata_update
from fairway.apis.machinery.printing import AGE
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError

_NO_PODS: Final = "nothing here makes pods of it; run a Job, a Pod or `fairway jobs launch` instead"
_NO_NETWORK: Final = "pods are processes of this machine, and their ports are open on it as they are"
_NAMES: Final = "a Service is a name of this machine in pods that start in its namespace from now on, and no proxy: "
_NO_VOLUMES: Final = "nothing here provides volumes; pods use files of this machine"
_NO_ROLES: Final = "roles are given to users by `fairway users`"
_NO_WEBHOOKS: Final = "this server calls no webhooks"


class _Row(NamedTuple):
    api_version: str
    kind: str
    note: str
    """Why it has no effect, and what to do instead."""

    short_names: str = ""
    namespaced: bool = True
    status: bool = False
    template: str = ""
    """Where its pod template is."""

    columns: str = ""
    """`Name:path` or `Name:path/path` (two counts) of columns between the name and the age."""

    plural: str = ""
    scale: bool = False


_IN_ALL: Final = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "HorizontalPodAutoscaler", "ReplicaSet", "Service", "StatefulSet"}
)
"""What `kubectl get all` lists."""

_READY: Final = "Ready:.status.readyReplicas/.spec.replicas"
_REPLICAS: Final = "Desired:.spec.replicas Current:.status.replicas Ready:.status.readyReplicas"
_ROWS: Final = (
    _Row("v1", "Service", _NO_NETWORK, "svc", status=True, columns="Type:.spec.type Cluster-IP:.spec.clusterIP"),
    _Row("v1", "Endpoints", _NO_NETWORK, "ep", plural="endpoints"),
    _Row("v1", "PersistentVolumeClaim", _NO_VOLUMES, "pvc", status=True, columns="Status:.status.phase"),
    _Row("v1", "PersistentVolume", _NO_VOLUMES, "pv", namespaced=False, status=True, columns="Status:.status.phase"),
    _Row(
        "apps/v1", "Deployment", _NO_PODS, "deploy", status=True, template="spec.template", scale=True,
        columns=f"{_READY} Up-to-date:.status.updatedReplicas Available:.status.availableReplicas",
    ),
    _Row("apps/v1", "ReplicaSet", _NO_PODS, "rs", status=True, template="spec.template", columns=_REPLICAS, scale=True),
    _Row(
        "apps/v1", "StatefulSet", _NO_PODS, "sts", status=True, template="spec.template", columns=_READY, scale=True
    ),
    _Row(
        "apps/v1", "DaemonSet", _NO_PODS, "ds", status=True, template="spec.template",
        columns="Desired:.status.desiredNumberScheduled Ready:.status.numberReady",
    ),
    _Row(
        "batch/v1", "CronJob", "nothing here starts Jobs by a schedule; use cron with `fairway jobs launch`", "cj",
        status=True, template="spec.jobTemplate.spec.template", columns="Schedule:.spec.schedule",
    ),
    _Row("autoscaling/v2", "HorizontalPodAutoscaler", _NO_PODS, "hpa", status=True),
    _Row("policy/v1", "PodDisruptionBudget", "nothing here honours it", "pdb", status=True),
    _Row("discovery.k8s.io/v1", "EndpointSlice", _NO_NETWORK, columns="AddressType:.addressType"),
    _Row("networking.k8s.io/v1", "Ingress", _NO_NETWORK, "ing", status=True, plural="ingresses"),
    _Row("networking.k8s.io/v1", "IngressClass", _NO_NETWORK, namespaced=False, plural="ingressclasses"),
    _Row("networking.k8s.io/v1", "NetworkPolicy", _NO_NETWORK, "netpol", plural="networkpolicies"),
    _Row(
        "storage.k8s.io/v1", "StorageClass", _NO_VOLUMES, "sc", namespaced=False, plural="storageclasses",
        columns="Provisioner:.provisioner",
    ),
    _Row("rbac.authorization.k8s.io/v1", "Role", _NO_ROLES),
    _Row("rbac.authorization.k8s.io/v1", "RoleBinding", _NO_ROLES, columns="Role:.roleRef.name"),
    _Row("rbac.authorization.k8s.io/v1", "ClusterRole", _NO_ROLES, namespaced=False),
    _Row(
        "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", _NO_ROLES, namespaced=False, columns="Role:.roleRef.name"
    ),
    _Row("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", _NO_WEBHOOKS, namespaced=False),
    _Row("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", _NO_WEBHOOKS, namespaced=False),
)  # fmt: skip


def kinds() -> tuple[Kind, ...]:
    """The kinds of the table."""
    return tuple(_kind(row) for row in _ROWS)


def _kind(row: _Row) -> Kind:
    group, _, version = row.api_version.rpartition("/")
    package = "core" if not group else group.partition(".")[0]
    columns = [part.partition(":") for part in row.columns.split()]
    replicas = ("spec", "replicas"), ("status", "replicas"), ("spec", "selector")
    return Kind(
        group=group,
        kind=row.kind,
        plural=row.plural or f"{row.kind.lower()}s",
        versions=(version,),
        stored=version,
        namespaced=row.namespaced,
        short_names=tuple(row.short_names.split()),
        categories=("all",) if row.kind in _IN_ALL else ("api-extensions",) if row.note is _NO_WEBHOOKS else (),
        status=row.status,
        subresources=("scale",) if row.scale else (),
        scale=Scale(*replicas) if row.scale else None,
        builtin=True,
        inert=True,
        schemas={version: partial(definition, f"io.k8s.api.{package}.{version}.{row.kind}")},
        columns={version: (*(_column(name, path) for name, _, path in columns), AGE)},
        rules=_rules(row),
        warn=_warner(row),
    )


def _column(name: str, path: str) -> Column:
    first, _, second = path.partition("/")
    if not second:
        return custom_column(name, path)
    part, whole = compiled(first), compiled(second)
    text = f"From {first} and {second}."
    return Column(name=name, value=lambda one, _now: f"{part(one) or 0}/{whole(one) or 0}", description=text)


def _warner(row: _Row) -> Callable[[Manifest], tuple[str, ...]]:
    effect = _NAMES if row.kind == "Service" else f"a {row.kind} is stored and has no effect on this server: "
    said = (effect + row.note,)
    return lambda manifest: components.warning(manifest) if components.component_of(manifest) else said


def _rules(row: _Row) -> Rules:
    path = row.template.split(".") if row.template else []
    settle = _DEFAULTS.get(row.kind)

    def default(manifest: Manifest) -> None:
        if components.component_of(manifest) is not None:
            components.acknowledge(manifest)
            return
        template = _at(manifest, path)
        if isinstance(template, dict):
            default_template(template)
        spec = manifest.get("spec")
        if settle is not None and isinstance(spec, dict):
            settle(spec)

    def validate(manifest: Manifest) -> list[FieldError]:
        errors, template = wrong_metadata(manifest), _at(manifest, path)
        if isinstance(template, dict) and components.component_of(manifest) is None:
            errors += wrong_template(template, row.template)
        return errors

    def validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
        return [*wrong_metadata_update(old, new), *validate(new)]

    return Rules(default=default, validate=validate, validate_update=validate_update)


def _at(manifest: Manifest, path: list[str]) -> Any:
    found: Any = manifest if path else None
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _default_service(spec: Manifest) -> None:
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if spec.get("clusterIP") != "None" or "targetPort" not in port:
            port.setdefault("targetPort", port.get("port"))


def _default_replicas(spec: Manifest) -> None:
    spec.setdefault("replicas", 1)


_DEFAULTS: Final[dict[str, Callable[[Manifest], None]]] = {
    "Service": _default_service,
    "Deployment": _default_replicas,
    "ReplicaSet": _default_replicas,
    "StatefulSet": _default_replicas,
    "PersistentVolumeClaim": lambda spec: spec.setdefault("volumeMode", "Filesystem"),
}
