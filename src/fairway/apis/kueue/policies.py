"""WorkloadPriorityClass, AdmissionCheck and ProvisioningRequestConfig: what workloads and queues refer to by name."""

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from fairway.apis.machinery.metadata import Conditions, Object
from fairway.apis.machinery.structs import LABEL_KEY, Int32, RequiredReference, Value, always, limits


class WorkloadPriorityClass(Object, frozen=True, kw_only=True):
    """A name for a priority that holds for queueing and preemption, not for the pods."""

    KIND: ClassVar[str] = "WorkloadPriorityClass"

    value: Int32
    description: Annotated[str, limits(max_length=2048)] = ""


_KIND_PATTERN = "[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?"


class AdmissionCheckParameters(Value, frozen=True, kw_only=True):
    """The object that configures a check."""

    api_group: RequiredReference
    kind: Annotated[str, limits(min_length=1, max_length=63, pattern=_KIND_PATTERN)]
    name: Annotated[str, limits(min_length=1, max_length=63, pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?")]


class AdmissionCheckSpec(Value, frozen=True, kw_only=True):
    controller_name: Annotated[str, limits(min_length=1, max_length=253)]
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
    backoff_limit_count: Int32 = always(3)
    backoff_base_seconds: Int32 = always(60)
    backoff_max_seconds: Int32 = always(1800)


class NodeSelectorUpdate(Value, frozen=True, kw_only=True):
    key: Annotated[str, limits(min_length=1, max_length=317, pattern=LABEL_KEY)]
    value_from_provisioning_class_detail: Annotated[str, limits(min_length=1, max_length=32768)]


class ProvisioningPodSetUpdates(Value, frozen=True, kw_only=True):
    node_selector: Annotated[tuple[NodeSelectorUpdate, ...], limits(max_items=8, unique_by=("key",))] = ()


class ProvisioningRequestConfigSpec(Value, frozen=True, kw_only=True):
    provisioning_class_name: RequiredReference
    parameters: Annotated[dict[str, Annotated[str, limits(max_length=255)]], limits(max_items=100)] = msgspec.field(
        default_factory=dict
    )
    managed_resources: Annotated[tuple[str, ...], limits(max_items=100, unique_by=("",))] = ()
    retry_strategy: RetryStrategy = always(RetryStrategy())
    pod_set_updates: ProvisioningPodSetUpdates | None = None
    pod_set_merge_policy: PodSetMergePolicy | None = None


class ProvisioningRequestConfig(Object, frozen=True, kw_only=True):
    """How a check asks the cluster autoscaler for room."""

    KIND: ClassVar[str] = "ProvisioningRequestConfig"

    spec: ProvisioningRequestConfigSpec
