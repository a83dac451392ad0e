"""Kueue's Configuration, as far as it says something here: what `kueue-manager-config` holds, read and completed; and
what Fairway has beyond it, from `fairway-config`.

Only values: reading YAML, where it is kept and who listens to changes is for others.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.selectors import LabelSelector, LabelSelectorRequirement

NAMESPACE: Final = "kueue-system"
CONFIG_MAP: Final = "kueue-manager-config"
CONFIG_KEY: Final = "controller_manager_config.yaml"
OWN_CONFIG_MAP: Final = "fairway-config"
OWN_CONFIG_KEY: Final = "config.yaml"
ALLOW, DENY = "Allow", "Deny"

DEFAULT_TEXT: Final = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: false
managedJobsNamespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: [kube-system, kueue-system]
integrations:
  frameworks:
  - batch/job
  - pod
  - ray.io/rayjob
  - ray.io/raycluster
"""
"""What the ConfigMap of a first start holds: what holds where nothing is said, to be edited."""

_OUTSIDE_SYSTEM: Final = LabelSelector(
    match_expressions=(
        LabelSelectorRequirement(
            key="kubernetes.io/metadata.name", operator="NotIn", values=("kube-system", "kueue-system")
        ),
    )
)


class WaitForPodsReady(Struct, frozen=True, kw_only=True):
    """What follows when the pods of an admitted workload do not become ready in time."""

    timeout_seconds: float = 1800.0
    recovery_timeout_seconds: float | None = 1800.0
    """`None` waits for a recovery for ever."""

    block_admission: bool = False
    requeue_timestamp: str = "Eviction"
    backoff_limit: int | None = None
    backoff_base_seconds: float = 60.0
    backoff_max_seconds: float = 3600.0


class PreemptionStrategy(StrEnum):
    """When fair sharing lets a workload take from another queue."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


class FairSharingPolicy(Struct, frozen=True, kw_only=True):
    strategies: tuple[PreemptionStrategy, ...] = (PreemptionStrategy.FINAL_SHARE, PreemptionStrategy.INITIAL_SHARE)


class AdmissionFairSharingPolicy(Struct, frozen=True, kw_only=True):
    """Order the LocalQueues of a ClusterQueue by what they used lately, where the ClusterQueue asks for it."""

    half_life_seconds: float
    sampling_seconds: float = 300.0
    resource_weights: dict[str, float] = {}


class ResourceTransformation(Struct, frozen=True, kw_only=True):
    input: str
    strategy: str = "Retain"
    multiply_by: str = ""
    outputs: dict[str, Quantity] = {}


class Configuration(Struct, frozen=True, kw_only=True):
    """Everything that can be set, with what holds where nothing is said."""

    frameworks: tuple[str, ...] = ("batch/job", "pod", "ray.io/rayjob", "ray.io/raycluster")
    """The integrations that are on, by Kueue's names."""

    label_keys_to_copy: tuple[str, ...] = ()
    manage_jobs_without_queue_name: bool = False
    namespace_selector: LabelSelector = _OUTSIDE_SYSTEM
    """`managedJobsNamespaceSelector`; for pods also `podOptions.namespaceSelector` of older configurations."""

    pod_namespace_selector: LabelSelector | None = None
    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    fair_sharing: FairSharingPolicy | None = None
    admission_fair_sharing: AdmissionFairSharingPolicy | None = None
    excluded_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()
    ignore_undeclared_resources: bool = False
    balanced_placement: bool = False
    """The feature gate `TASBalancedPlacement`."""

    replace_failed_nodes_once: bool = True
    """The feature gate `TASFailedNodeReplacementFailFast`."""

    finished_retention_seconds: float | None = None
    """How long finished workloads are kept; `None` keeps them."""

    deactivated_retention_seconds: float | None = None
    """How long jobs are kept that were deactivated by the queue itself; `None` keeps them."""

    queue_resource_metrics: bool = False
    local_queue_metrics: LabelSelector | None = LabelSelector()
    """The LocalQueues that there are metrics of; `None`: of none."""

    node_timeout_seconds: float | None = 300.0
    """Fairway's `nodeTimeout`: how long a workload may hold quota while no node has room for any of its pods; `None`
    leaves that to `wait_for_pods_ready`.
    """

    jobs_outside_queues: str = ALLOW
    """Fairway's `jobsOutsideQueues`: whether jobs and pods that name no queue may run."""

    hold_admission: bool = False
    """Fairway's `holdAdmission`: nothing is admitted or preempted."""
