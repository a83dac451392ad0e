"""Names of the objects of an installation on a cluster, for those who create, use and remove them."""

from collections.abc import Mapping
from typing import Any, Final, Literal

Way = Literal["kueue", "fairway", "none"]
"""What admits jobs: the Kueue of the cluster, Fairway, or the scheduler alone."""

WAYS: Final[tuple[Way, ...]] = ("kueue", "fairway", "none")

NAMESPACE: Final = "fairway-system"
CONTROLLER: Final = "fairway-controller"
"""Deployment, ServiceAccount, PodDisruptionBudget, Lease, and the roles of the service account."""

SERVICE: Final = "fairway-webhook"
"""Webhooks, aggregated API and metrics of the controller that leads."""

EXPLAIN_GROUP: Final = "explain.fairway.dev"
"""The group of the aggregated API that says why jobs wait. `fairway.dev` itself belongs to the definitions."""

EXPLAIN_VERSION: Final = "v1alpha1"
VISIBILITY_GROUP: Final = "visibility.kueue.x-k8s.io"
"""Kueue's; the controller answers it only where Fairway admits."""

VISIBILITY_VERSION: Final = "v1beta2"
CONTROLLER_USER: Final = f"system:serviceaccount:{NAMESPACE}:{CONTROLLER}"
KUEUE_ROLE: Final = "fairway-kueue"
"""ClusterRole and binding that let the cluster's Kueue read ManagedJobs."""

KUEUE_ACCOUNT: Final = "kueue-controller-manager"
WEBHOOKS: Final = "fairway"
"""The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration for ManagedJobs."""

QUEUEING_WEBHOOKS: Final = "fairway-queueing"
"""Those for pods, Jobs and Kueue's kinds, only where Fairway admits.

Objects of their own: server-side apply keeps a webhook that is left out while the controller owns its `caBundle`.
"""

TLS_SECRET: Final = "fairway-tls"  # noqa: S105 - a name
"""`ca.crt`, `tls.crt` and `tls.key` of the Service, made and renewed by the leader."""

LEADER_LABEL: Final = "fairway.dev/leader"
"""On the pod that leads, with the value `true`; the Service selects it."""

ADMISSION_LABEL: Final = "fairway.dev/admission"
"""On the pod that leads: the way of admission that it works with."""

PORT: Final = 9443
STATE: Final = "/var/lib/fairway"
USER_ID: Final = 65532

NAME_LABEL: Final = "app.kubernetes.io/name"
NAME: Final = "fairway"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
INSTALLER: Final = "fairway"
"""The value of `MANAGED_BY` of `fairway cluster install`; Helm writes its own name there."""

RUNTIME_OBJECTS: Final = {
    "secrets": (TLS_SECRET,),
    "leases": (CONTROLLER,),
    "configmaps": ("fairway-managed-jobs",),
}
"""What the controller creates in `NAMESPACE` by itself; removed with it."""


def installed_way(definition: Mapping[str, Any] | None) -> Way:
    """The way of admission that the definition of Workloads stands for."""
    if definition is None:
        return "none"
    return "fairway" if (definition["metadata"].get("labels") or {}).get(NAME_LABEL) == NAME else "kueue"
