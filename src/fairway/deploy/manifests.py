"""The objects of an installation, in the order in which they are applied.

One rendering for all: `fairway cluster install` applies it; the Helm chart and the kustomize base are generated from it
(`tools/deploy/generate.py`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from fairway.apis.kueue.configuration import NAMESPACE as KUEUE_NAMESPACE
from fairway.apis.machinery.kind import Manifest
from fairway.deploy import permissions
from fairway.deploy.names import (
    CONTROLLER,
    EXPLAIN_GROUP,
    EXPLAIN_VERSION,
    KUEUE_ACCOUNT,
    KUEUE_ROLE,
    LEADER_LABEL,
    MANAGED_BY,
    NAME,
    NAME_LABEL,
    NAMESPACE,
    PORT,
    SERVICE,
    STATE,
    TLS_SECRET,
    USER_ID,
    VISIBILITY_GROUP,
    VISIBILITY_VERSION,
    Way,
)

_SELECTOR: Final = {NAME_LABEL: NAME, "app.kubernetes.io/component": "controller"}
_LEADER: Final = {**_SELECTOR, LEADER_LABEL: "true"}
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_AUTHENTICATION_READER: Final = "extension-apiserver-authentication-reader"
RESOURCES: Final[Mapping[str, Any]] = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"memory": "1Gi"},
}
"""Of the controller's container; no CPU limit, which would only slow admission down."""


class Installation(Struct, frozen=True, kw_only=True):
    """What can be chosen. Values may also be the template expressions of a package."""

    way: Way
    image: Any
    version: Any
    replicas: Any = 2
    pull_policy: Any = "IfNotPresent"
    pull_secrets: Any = ()
    resources: Any = field(default_factory=lambda: dict(RESOURCES))
    node_selector: Any = {}
    tolerations: Any = ()
    affinity: Any = {}
    priority_class: Any = ""
    admission: Any = ""
    """The value of `--admission`; `way` if empty."""

    arguments: tuple[str, ...] = ()
    """More arguments of `fairway controller`."""

    managed_by: str = ""
    """The value of `app.kubernetes.io/managed-by`; none if empty."""


def manifests(installation: Installation, crds: Iterable[Manifest], hooks: Iterable[Manifest]) -> list[Manifest]:
    """All objects but those that depend on the cluster (`service_monitor`), in the order of their dependencies.

    `crds` are the CustomResourceDefinitions of this way of admission, `hooks` its webhook configurations and
    APIServices; they come last, so that nothing calls a controller that is not there yet.
    """
    way = installation.way
    found = [
        *crds,
        _object("v1", "Namespace", NAMESPACE, "", labels={"pod-security.kubernetes.io/enforce": "restricted"}),
        _object("v1", "ServiceAccount", CONTROLLER, NAMESPACE),
        _object(_RBAC, "ClusterRole", CONTROLLER, "", rules=permissions.rules(way)),
        _binding("ClusterRoleBinding", CONTROLLER, "", "ClusterRole", CONTROLLER),
        _object(_RBAC, "Role", CONTROLLER, NAMESPACE, rules=permissions.rules(way, NAMESPACE)),
        _binding("RoleBinding", CONTROLLER, NAMESPACE, "Role", CONTROLLER),
        _binding("RoleBinding", CONTROLLER, "kube-system", "Role", _AUTHENTICATION_READER),
        *_user_roles(),
        *(_kueue_roles() if way == "kueue" else ()),
        _object("v1", "Service", SERVICE, NAMESPACE, spec=_service()),
        _object("policy/v1", "PodDisruptionBudget", CONTROLLER, NAMESPACE, spec=_disruptions()),
        _object("apps/v1", "Deployment", CONTROLLER, NAMESPACE, spec=_deployment(installation)),
        *hooks,
    ]
    return [_labelled(one, installation) for one in found]


def service_monitor(installation: Installation) -> Manifest:
    """For the Prometheus operator, where its kind exists."""
    authority = {"secret": {"name": TLS_SECRET, "key": "ca.crt"}}
    endpoint = {
        "port": "https",
        "scheme": "https",
        "path": "/metrics",
        "tlsConfig": {"ca": authority, "serverName": f"{SERVICE}.{NAMESPACE}.svc"},
        "authorization": {"credentials": {"name": TLS_SECRET, "key": "metrics-token"}},
    }
    spec = {"selector": {"matchLabels": dict(_SELECTOR)}, "endpoints": [endpoint]}
    found = _object("monitoring.coreos.com/v1", "ServiceMonitor", CONTROLLER, NAMESPACE, spec=spec)
    return _labelled(found, installation)


def api_services(way: Way) -> list[Manifest]:
    """The aggregated API: why jobs wait, and Kueue's visibility API where no Kueue serves it."""
    served = [_api_service(EXPLAIN_GROUP, EXPLAIN_VERSION)]
    return [*served, _api_service(VISIBILITY_GROUP, VISIBILITY_VERSION)] if way == "fairway" else served


def _api_service(group: str, version: str) -> Manifest:
    """An API group that the controller answers, without the CA that it adds."""
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {**_reference(), "port": 443},
    }
    return _object("apiregistration.k8s.io/v1", "APIService", f"{version}.{group}", "", spec=spec)


def _reference() -> dict[str, str]:
    return {"namespace": NAMESPACE, "name": SERVICE}


def _object(api_version: str, kind: str, name: str, namespace: str, *, labels: Any = None, **rest: Any) -> Manifest:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _labelled(manifest: Manifest, installation: Installation) -> Manifest:
    metadata = manifest["metadata"]
    labels = {**(metadata.get("labels") or {}), **_SELECTOR, "app.kubernetes.io/version": installation.version}
    labels.pop(MANAGED_BY, None)
    if installation.managed_by:
        labels[MANAGED_BY] = installation.managed_by
    return {**manifest, "metadata": {**metadata, "labels": labels}}


def _binding(kind: str, name: str, namespace: str, role_kind: str, role: str) -> Manifest:
    subject = {"kind": "ServiceAccount", "name": CONTROLLER, "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}
    return _object(_RBAC, kind, name, namespace, roleRef=reference, subjects=[subject])


def _user_roles() -> list[Manifest]:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    viewer = _object(_RBAC, "ClusterRole", "fairway-viewer", "", labels={f"{prefix}view": "true"})
    user = _object(_RBAC, "ClusterRole", "fairway-user", "", labels={f"{prefix}edit": "true", f"{prefix}admin": "true"})
    return [{**viewer, "rules": list(permissions.VIEWER_RULES)}, {**user, "rules": list(permissions.USER_RULES)}]


def _kueue_roles() -> list[Manifest]:
    """Kueue reads the owners of pods: it may read ManagedJobs, or its webhook for pods waits for them in vain."""
    subject = {"kind": "ServiceAccount", "name": KUEUE_ACCOUNT, "namespace": KUEUE_NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": KUEUE_ROLE}
    return [
        _object(_RBAC, "ClusterRole", KUEUE_ROLE, "", rules=list(permissions.KUEUE_RULES)),
        _object(_RBAC, "ClusterRoleBinding", KUEUE_ROLE, "", roleRef=role, subjects=[subject]),
    ]


def _service() -> Manifest:
    port = {"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}
    return {"selector": dict(_LEADER), "ports": [port]}


def _disruptions() -> Manifest:
    return {"maxUnavailable": 1, "selector": {"matchLabels": dict(_SELECTOR)}}


def _deployment(installation: Installation) -> Manifest:
    return {
        "replicas": installation.replicas,
        "selector": {"matchLabels": dict(_SELECTOR)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
        "template": {
            "metadata": {
                "labels": dict(_SELECTOR),
                "annotations": {"kubectl.kubernetes.io/default-container": "controller"},
            },
            "spec": _pod(installation),
        },
    }


def _pod(installation: Installation) -> Manifest:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(_SELECTOR)},
    }
    return {
        "serviceAccountName": CONTROLLER,
        "priorityClassName": installation.priority_class,
        "imagePullSecrets": installation.pull_secrets,
        "nodeSelector": installation.node_selector,
        "tolerations": installation.tolerations,
        "affinity": installation.affinity,
        "topologySpreadConstraints": [spread],
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(installation)],
        "volumes": [{"name": name, "emptyDir": {"sizeLimit": "256Mi"}} for name in ("state", "tmp")],
    }


def _container(installation: Installation) -> Manifest:
    arguments = [
        "controller",
        f"--admission={installation.admission or installation.way}",
        "--host=0.0.0.0",
        f"--port={PORT}",
        f"--state={STATE}/state",  # an emptyDir belongs to root, and others may read it
    ]
    downward = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    return {
        "name": "controller",
        "image": installation.image,
        "imagePullPolicy": installation.pull_policy,
        "args": [*arguments, *installation.arguments],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in downward.items()],
        "ports": [{"name": "https", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": _probe("/healthz", failures=30),  # a busy node takes minutes to load Python
        "livenessProbe": _probe("/healthz", failures=6),
        "readinessProbe": _probe("/readyz", failures=3),
        "resources": installation.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "state", "mountPath": STATE}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }


def _probe(path: str, failures: int) -> Manifest:
    get = {"path": path, "port": "https", "scheme": "HTTPS"}
    return {"httpGet": get, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": failures}
