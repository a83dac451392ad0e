"""Install manifests of components that are built in: Kueue, KubeRay and Fairway itself.

Guides begin with `kubectl apply -f manifests.yaml`: definitions, roles, services, webhooks and a Deployment. All of
this is part of the server, so these kinds are *acknowledged*: an object that belongs to a component is stored by its
name and labels alone and has no effect, and any other object of these kinds is refused. How a write is acknowledged
over HTTP is in `server/acknowledging.py`.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fairway.apis.extensions.definitions import BUILT_IN
from fairway.apis.extensions.generating import outline
from fairway.apis.kueue.configuration import CONFIG_MAP, NAMESPACE
from fairway.apis.machinery import problems
from fairway.apis.machinery.kind import Kind, Manifest, Rules
from fairway.apis.machinery.metadata_rules import wrong_metadata, wrong_metadata_update
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import FieldError

NAME_LABEL: Final = "app.kubernetes.io/name"
DEPLOYMENT: Final = "kueue-controller-manager"
LASTING: Final = frozenset(
    {
        ("namespaces", ("", NAMESPACE)),
        ("namespaces", ("", "fairway-system")),
        ("deployments.apps", (NAMESPACE, DEPLOYMENT)),
    }
)
"""Resource and key of objects that outlast `kubectl delete -f manifests.yaml`: they belong to built-in components."""

STAYS: Final = (
    "what is built into Fairway stays: its namespace, its Deployment and its definitions are not deleted, "
    "nor are the objects of its kinds"
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Component(NamedTuple):
    """Something that a cluster installs and that is built in here."""

    title: str
    labels: frozenset[str]
    """What its objects have as `app.kubernetes.io/name`: in the manifests of a release, and in a Helm chart."""

    group: str
    """The API group of its definitions."""

    note: str
    """What to know instead of installing it."""


COMPONENTS: Final = (
    Component(
        "Kueue 0.19.2",
        frozenset({"kueue"}),
        "kueue.x-k8s.io",
        f"it is configured by the ConfigMap {CONFIG_MAP} in {NAMESPACE}, which a release's own does not replace",
    ),
    Component(
        "KubeRay",
        frozenset({"kuberay", "kuberay-operator"}),
        "ray.io",
        "this server runs RayJobs and RayClusters itself, on the Ray that is installed with it (docs/use/ray.md)",
    ),
    Component("Fairway", frozenset({"fairway"}), "fairway.dev", "this server is it"),
)


def component_of(manifest: Manifest) -> Component | None:
    """The component whose install manifest an object belongs to, by its group or its label.

    An object with an owner belongs to none: it was made by an operator, which labels what it makes.
    """
    if manifest.get("kind") == "CustomResourceDefinition":
        return _of_group(_group_of(manifest))
    if manifest["metadata"].get("ownerReferences"):
        return None
    labels = manifest["metadata"].get("labels")
    label = str(labels.get(NAME_LABEL)) if isinstance(labels, dict) else ""  # it may not be validated yet
    return next((one for one in COMPONENTS if label in one.labels), None)


def is_definition_of_component(name: str) -> bool:
    """Whether a CustomResourceDefinition of this name comes with a component, served or not."""
    return _of_group(name.partition(".")[2]) is not None


def warning(manifest: Manifest) -> tuple[str, ...]:
    """What to say about an acknowledged object; the same for all of a component, since clients print it once."""
    component = component_of(manifest)
    if component is None:  # a definition that is served and comes with no component
        return ("this definition is built into Fairway: it is acknowledged and changes nothing",)
    known = f"{component.title} is built into Fairway: installing or restarting it is acknowledged and changes nothing"
    return (f"{known}; {component.note}",)


def _of_group(group: str) -> Component | None:
    return next((one for one in COMPONENTS if group == one.group), None)


def _group_of(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("name") or "").partition(".")[2]


def acknowledge(manifest: Manifest) -> None:
    """Keep the identity of an object and nothing else: nothing here reads the rest.

    A Deployment also says how it stands, for `kubectl rollout status` and `kubectl wait`; it has no pods.
    """
    for field in [name for name in manifest if name not in {"apiVersion", "kind", "metadata"}]:
        del manifest[field]
    for field in ("finalizers", "ownerReferences"):  # no later write could take them away
        manifest["metadata"].pop(field, None)
    component = component_of(manifest)
    if component is not None:
        # An empty last-applied configuration: without one, kubectl complains about each object that it applies again.
        manifest["metadata"]["annotations"] = {BUILT_IN: component.title, _LAST_APPLIED: "{}\n"}
        if manifest.get("kind") == "Deployment":
            _complete_deployment(manifest, component)


def _complete_deployment(manifest: Manifest, component: Component) -> None:
    labels = manifest["metadata"].get("labels") or {}
    manifest["spec"] = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": "fairway.dev/built-in"}]},
        },
    }
    since = manifest["metadata"].get("creationTimestamp")
    message = f"{component.title} is built in: {component.note}"
    manifest["status"] = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "conditions": [
            _condition("Available", "True", "BuiltIn", message, since),
            _condition("Progressing", "True", "NewReplicaSetAvailable", message, since),
        ],
    }


def _condition(kind: str, status: str, reason: str, message: str, since: str | None) -> dict[str, Any]:
    times = {"lastUpdateTime": since, "lastTransitionTime": since}
    return {"type": kind, "status": status, "reason": reason, "message": message, **times}


def _refuses(instead: str) -> Callable[[Manifest], list[FieldError]]:
    """The rule of an acknowledged kind: objects of components only."""

    def validate(manifest: Manifest) -> list[FieldError]:
        errors = wrong_metadata(manifest)
        if component_of(manifest) is None:
            label = (manifest["metadata"].get("labels") or {}).get(NAME_LABEL)
            known = ", ".join(sorted(name for one in COMPONENTS for name in one.labels))
            rule = (
                f"a {manifest['kind']} has no effect here, so only those in the install manifests of components that "
                f"are built in are acknowledged (this label is one of {known}); {instead}"
            )
            errors.append(problems.forbidden(f"metadata.labels[{NAME_LABEL}]", label, rule))
        return errors

    return validate


def _rules(validate: Callable[[Manifest], list[FieldError]]) -> Rules:
    def validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
        return [*wrong_metadata_update(old, new), *validate(new)]

    return Rules(default=acknowledge, validate=validate, validate_update=validate_update)


def identity_schema(name: str) -> Schema:
    """Anything with metadata, under the name that an API server publishes it by."""
    text = Schema(type="string")
    properties = {
        "apiVersion": text,
        "kind": text,
        "metadata": definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    }
    return Schema(type="object", name=name, properties=properties, open=True)


def _acknowledged(group: str, kind: str, package: str, rules: Rules) -> Kind:
    schema = identity_schema(f"{package}.v1.{kind}")
    return Kind(
        group=group,
        kind=kind,
        plural=f"{kind.lower()}s",
        versions=("v1",),
        stored="v1",
        namespaced=False,
        acknowledged=True,
        schemas={"v1": lambda: schema},
        rules=rules,
        warn=warning,
    )


_EXTENSIONS: Final = _rules(_refuses("this server calls no other API servers"))
_FLOW: Final = _rules(_refuses("the limits of this server are its own"))
_AGGREGATOR: Final = "io.k8s.kube-aggregator.pkg.apis.apiregistration"


def kinds() -> tuple[Kind, ...]:
    """The kinds of which only objects of components are accepted."""
    return (
        _acknowledged("apiregistration.k8s.io", "APIService", _AGGREGATOR, _EXTENSIONS),
        _acknowledged("flowcontrol.apiserver.k8s.io", "FlowSchema", "io.k8s.api.flowcontrol", _FLOW),
        _acknowledged("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", "io.k8s.api.flowcontrol", _FLOW),
    )


def is_custom(kind: Kind) -> bool:
    """Whether this is a kind of Fairway's that a cluster would serve by a CustomResourceDefinition."""
    return not kind.builtin and not kind.acknowledged and not kind.defined


def crd(kind: Kind) -> Manifest:
    """The CustomResourceDefinition of a served kind, in short: its full schema is what `/openapi/v3` has."""
    subresources: dict[str, Any] = {"subresources": {"status": {}}} if kind.status else {}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": version, "served": True, "storage": version == kind.stored, "schema": schema, **subresources}
        for version in kind.versions
    ]
    definition = outline(kind, versions)
    definition["metadata"]["annotations"] = {BUILT_IN: "Fairway", _LAST_APPLIED: "{}\n"}
    return definition
