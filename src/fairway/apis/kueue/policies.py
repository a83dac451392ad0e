"""WorkloadPriorityClass, AdmissionCheck and ProvisioningRequestConfig: what workloads and queues refer to by name."""

from enum import StrEnum
from typing import ClassVar

import msgspec

from fairway.apis.machinery.metadata import Conditions, Object
from fairway.apis.machinery.structs import Value, always


class WorkloadPriorityClass(Object, frozen=True, kw_only=True):
    """A name for a priority that holds for queueing and preemption, not for the pods."""

    KIND: ClassVar[str] = "WorkloadPriorityClass"

    value: int
    description: str = ""


class AdmissionCheckParameters(Value, frozen=True, kw_only=True):
    """The object that configures a check."""

    api_group: str
    kind: str
    name: str


class AdmissionCheckSpec(Value, frozen=True, kw_only=True):
    controller_name: str
    parameters: AdmissionCheckParameters | None = None


class AdmissionCheckStatus(Value, frozen=True, kw_only=True):
    conditions: Conditions = ()


class AdmissionCheck(Object, frozen=True, kw_only=True):
    """A question that a controller answers for each workload between quota reservation and admission."""

    KIND: ClassVar[str] = "AdmissionCheck"

    spec: AdmissionCheckSpec
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class PodSetMergePolicy(StrEnum):
    IDENTICAL_POD_TEMPLATES = "IdenticalPodTemplates"
    IDENTICAL_WORKLOAD_SCHEDULING_REQUIREMENTS = "IdenticalWorkloadSchedulingRequirements"


class RetryStrategy(Value, frozen=True, kw_only=True):
    backoff_limit_count: int = always(3)
    backoff_base_seconds: int = always(60)
    backoff_max_seconds: int = always(1800)


class NodeSelectorUpdate(Value, frozen=True, kw_only=True):
    key: str
    value_from_provisioning_class_detail: str


class ProvisioningPodSetUpdates(Value, frozen=True, kw_only=True):
    node_selector: tuple[NodeSelectorUpdate, ...] = ()


class ProvisioningRequestConfigSpec(Value, frozen=True, kw_only=True):
    provisioning_class_name: str
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    managed_resources: tuple[str, ...] = ()
    retry_strategy: RetryStrategy = always(RetryStrategy())
    pod_set_updates: ProvisioningPodSetUpdates | None = None
    pod_set_merge_policy: PodSetMergePolicy | None = None


class ProvisioningRequestConfig(Object, frozen=True, kw_only=True):
    """How a check asks the cluster autoscaler for room."""

    KIND: ClassVar[str] = "ProvisioningRequestConfig"

    spec: ProvisioningRequestConfigSpec
