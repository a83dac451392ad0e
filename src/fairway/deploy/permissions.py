"""What the controller may do on a cluster, and why: the one table that roles, `fairway cluster doctor` and tests read.

A row that nothing uses is a fault, and so is a use without a row: `tests/cluster` compares the table with the audit
log of a kube-apiserver.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from fairway.deploy.names import (
    CONTROLLER,
    EXPLAIN_GROUP,
    EXPLAIN_VERSION,
    NAMESPACE,
    QUEUEING_WEBHOOKS,
    RUNTIME_OBJECTS,
    VISIBILITY_GROUP,
    VISIBILITY_VERSION,
    WAYS,
    WEBHOOKS,
    Way,
)

_KUEUE: Final = "kueue.x-k8s.io"
_DEFINITIONS: Final = "customresourcedefinitions"
_READ: Final = ("get", "list", "watch")
_FOLLOW: Final = ("list", "watch")
"""What a cache needs."""

_JOB_VERBS: Final = (*_FOLLOW, "patch", "delete")

FOLLOWED_KUEUE_KINDS: Final = (
    "admissionchecks",
    "clusterqueues",
    "cohorts",
    "localqueues",
    "resourceflavors",
    "topologies",
    "workloadpriorityclasses",
)
"""Besides Workloads, wherever there are queues."""

_QUEUEING: Final[tuple[Way, ...]] = ("kueue", "fairway")
_DECIDES: Final[tuple[Way, ...]] = ("fairway",)


class Permission(NamedTuple):
    """Verbs on resources of one API group."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    ways: tuple[Way, ...] = WAYS
    """The ways of admission that need it."""

    namespace: str = ""
    """Granted by a Role in this namespace instead of a ClusterRole."""

    names: tuple[str, ...] = ()
    """Only objects of these names."""

    @property
    def rule(self) -> dict[str, Any]:
        """The rule of a Role."""
        found = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**found, "resourceNames": list(self.names)} if self.names else found


CONTROLLER_PERMISSIONS: Final = (
    # Managed jobs
    Permission("fairway.dev", ("managedjobs",), (*_FOLLOW, "patch"), "the jobs, and their finalizer"),
    Permission("fairway.dev", ("managedjobs/status",), ("patch",), "state and message of a job"),
    Permission("fairway.dev", ("managedjobs/finalizers",), ("update",), "owner of pods and Workloads"),
    Permission("fairway.dev", ("quotadefinitions",), _FOLLOW, "what quota is defined"),
    Permission("fairway.dev", ("quotadefinitions/status",), ("patch",), "whether the queues are as defined"),
    Permission("", ("namespaces",), _FOLLOW, "labels of namespaces"),
    Permission("", ("pods",), (*_FOLLOW, "create", "patch", "delete"), "the pods of an attempt"),
    Permission("", ("pods/log",), ("get",), "logs, kept when the pods go"),
    Permission("", ("services", "persistentvolumeclaims"), ("create",), "names of nodes, and checkpoints"),
    Permission("", ("configmaps",), ("create", "delete"), "logs of ended attempts; what a launch left"),
    Permission("", ("nodes",), _FOLLOW, "lost nodes, and models of GPUs"),
    Permission("", ("configmaps",), _FOLLOW, "what a launch left; the configuration"),
    Permission("", ("events",), ("create", "patch"), "what happened to a job"),
    Permission("scheduling.k8s.io", ("priorityclasses",), _FOLLOW, "the priority of a job"),
    # Queueing
    Permission(
        _KUEUE, ("workloads",), (*_FOLLOW, "create", "patch", "delete"), "a job's place in the queue", _QUEUEING
    ),
    Permission(_KUEUE, ("workloads/status",), ("patch",), "quota given back after an eviction", _QUEUEING),
    Permission(
        _KUEUE,
        FOLLOWED_KUEUE_KINDS,
        _FOLLOW,
        "why a job waits; node labels of its flavor",
        _QUEUEING,
    ),
    Permission(
        VISIBILITY_GROUP, ("clusterqueues/pendingworkloads",), ("get",), "positions of waiting jobs", ("kueue",)
    ),
    Permission(_KUEUE, ("admissionchecks/status",), ("patch",), "the check of limits and budgets", ("kueue",)),
    # Fairway decides
    Permission(
        _KUEUE, ("workloads/finalizers", "clusterqueues/finalizers"), ("update",), "owners and deletion", _DECIDES
    ),
    Permission(
        _KUEUE,
        ("admissionchecks", "clusterqueues", "localqueues", "resourceflavors", "topologies"),
        ("patch",),
        "finalizers of queues, flavors and checks in use",
        _DECIDES,
    ),
    Permission(
        _KUEUE,
        ("admissionchecks/status", "clusterqueues/status", "cohorts/status", "localqueues/status"),
        ("patch",),
        "usage and state of queues",
        _DECIDES,
    ),
    Permission(_KUEUE, ("provisioningrequestconfigs",), _FOLLOW, "parameters of checks", _DECIDES),
    Permission("", ("limitranges",), _FOLLOW, "defaults and limits of pods, as they count", _DECIDES),
    Permission("node.k8s.io", ("runtimeclasses",), _FOLLOW, "overhead of pods", _DECIDES),
    Permission("", ("pods/status",), ("patch",), "conditions of pods that were preempted", _DECIDES),
    Permission("", ("podtemplates",), (*_FOLLOW, "create", "patch", "delete"), "of ProvisioningRequests", _DECIDES),
    Permission("batch", ("jobs",), _JOB_VERBS, "suspend and start Jobs; delete those past their retention", _DECIDES),
    Permission("batch", ("jobs/status",), ("patch",), "start time of a suspended Job", _DECIDES),
    Permission("batch", ("jobs/finalizers",), ("update",), "owner of Workloads", _DECIDES),
    Permission("ray.io", ("rayclusters", "rayjobs"), _JOB_VERBS, "suspend, start and delete them, as Jobs", _DECIDES),
    Permission("ray.io", ("rayclusters/finalizers", "rayjobs/finalizers"), ("update",), "owner of Workloads", _DECIDES),
    Permission(
        "autoscaling.x-k8s.io",
        ("provisioningrequests",),
        (*_FOLLOW, "create", "delete"),
        "admission checks that provision",
        _DECIDES,
    ),
    # Webhooks and aggregated API
    Permission(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        _FOLLOW,
        "the CA of the webhooks",
    ),
    Permission(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("patch",),
        "the CA of the webhooks, renewed",
        names=(WEBHOOKS, QUEUEING_WEBHOOKS),
    ),
    Permission("apiextensions.k8s.io", (_DEFINITIONS,), _FOLLOW, "the CA of the conversion webhook"),
    Permission(
        "apiextensions.k8s.io",
        (_DEFINITIONS,),
        ("get",),
        "whose definitions of Kueue's kinds are installed",
        _QUEUEING,
        names=(f"workloads.{_KUEUE}",),
    ),
    Permission(
        "apiextensions.k8s.io",
        (_DEFINITIONS,),
        ("patch",),
        "the CA of the conversion webhook, renewed",
        _DECIDES,
        names=tuple(f"{kind}.{_KUEUE}" for kind in ("clusterqueues", "localqueues", "workloads")),
    ),
    Permission("apiregistration.k8s.io", ("apiservices",), _FOLLOW, "the CA of the aggregated API"),
    Permission(
        "apiregistration.k8s.io",
        ("apiservices",),
        ("patch",),
        "the CA of the aggregated API, renewed",
        ("kueue", "none"),
        names=(f"{EXPLAIN_VERSION}.{EXPLAIN_GROUP}",),
    ),
    Permission(
        "apiregistration.k8s.io",
        ("apiservices",),
        ("patch",),
        "the CA of the aggregated API, renewed",
        _DECIDES,
        names=(f"{EXPLAIN_VERSION}.{EXPLAIN_GROUP}", f"{VISIBILITY_VERSION}.{VISIBILITY_GROUP}"),
    ),
    Permission("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "what users of the API may see"),
    # Its own namespace
    Permission("coordination.k8s.io", ("leases",), ("create",), "leader election", namespace=NAMESPACE),
    Permission(
        "coordination.k8s.io",
        ("leases",),
        ("get", "update"),
        "leader election",
        namespace=NAMESPACE,
        names=(CONTROLLER,),
    ),
    Permission("", ("secrets",), ("create",), "its certificate", namespace=NAMESPACE),
    Permission(
        "",
        ("secrets",),
        ("get", "patch"),
        "its certificate, renewed",
        namespace=NAMESPACE,
        names=RUNTIME_OBJECTS["secrets"],
    ),
    Permission("", ("configmaps",), ("create",), "the highest job id", namespace=NAMESPACE),
    Permission(
        "",
        ("configmaps",),
        ("get", "patch"),
        "the highest job id",
        namespace=NAMESPACE,
        names=RUNTIME_OBJECTS["configmaps"],
    ),
    Permission("", ("configmaps",), ("patch",), "the history of attempts", namespace=NAMESPACE),
)

_JOBS: Final = ("managedjobs",)
VIEWER_RULES: Final = (
    {"apiGroups": ["fairway.dev"], "resources": [*_JOBS, "managedjobs/status"], "verbs": list(_READ)},
    {"apiGroups": [EXPLAIN_GROUP], "resources": ["attempts", "usage", "waitingjobs"], "verbs": ["get", "list"]},
    {"apiGroups": [EXPLAIN_GROUP], "resources": ["simulations"], "verbs": ["create"]},
    {"apiGroups": [VISIBILITY_GROUP], "resources": ["localqueues/pendingworkloads"], "verbs": ["get"]},
)
KUEUE_RULES: Final = ({"apiGroups": ["fairway.dev"], "resources": ["managedjobs"], "verbs": list(_READ)},)
"""What the cluster's Kueue may do, to which ManagedJobs are the owners of pods."""

USER_RULES: Final = (
    *VIEWER_RULES,
    {
        "apiGroups": ["fairway.dev"],
        "resources": list(_JOBS),
        "verbs": ["create", "update", "patch", "delete", "deletecollection"],
    },
)
"""What users of a namespace may do, aggregated to Kubernetes' own roles `view` and `edit` (and with it `admin`)."""


def permissions(way: Way) -> Iterator[Permission]:
    """The rows that one way of admission needs."""
    return (row for row in CONTROLLER_PERMISSIONS if way in row.ways)


def rules(way: Way, namespace: str = "") -> list[dict[str, Any]]:
    """The rules of the controller's ClusterRole, or of its Role in a namespace."""
    return [row.rule for row in permissions(way) if row.namespace == namespace]
