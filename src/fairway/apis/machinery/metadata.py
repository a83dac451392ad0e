"""What all objects have: metadata and conditions."""

from enum import StrEnum
from typing import Any, ClassVar, Self

import msgspec

from fairway.apis.machinery.structs import Time, Value, normalise_times

GROUP = "kueue.x-k8s.io"
IN_USE_FINALIZER = "kueue.x-k8s.io/resource-in-use"
"""Keeps an object until nothing that was admitted depends on it any more."""


class OwnerReference(Value, frozen=True, kw_only=True):
    """The object that this one is garbage-collected with."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(Value, frozen=True, kw_only=True):
    """Name, place and bookkeeping of an object, as `metav1.ObjectMeta`."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        normalise_times(self, "creation_timestamp", "deletion_timestamp")


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Value, frozen=True, kw_only=True):
    """One observed aspect of an object's state."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: Time
    observed_generation: int | None = None

    def __post_init__(self) -> None:
        normalise_times(self, "last_transition_time")

    @property
    def is_true(self) -> bool:
        return self.status is ConditionStatus.TRUE


Conditions = tuple[Condition, ...]


def find_condition(conditions: tuple[Condition, ...], condition_type: str) -> Condition | None:
    """The condition of this type, if there is one."""
    return next((condition for condition in conditions if condition.type == condition_type), None)


def has_condition(conditions: tuple[Condition, ...], condition_type: str) -> bool:
    """Whether the condition of this type is there and true."""
    for condition in conditions:  # asked for every write, and several times; a loop is half of what any() costs
        if condition.type == condition_type and condition.status is ConditionStatus.TRUE:
            return True
    return False


class Object(Value, frozen=True, kw_only=True):
    """The base of the kinds."""

    KIND: ClassVar[str]
    NAMESPACED: ClassVar[bool] = False

    metadata: Metadata = Metadata()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Empty for a kind that belongs to the whole cluster."""
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone where there is no namespace."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

    def with_metadata(self, **changes: Any) -> Self:
        """The same object with some of its metadata changed."""
        return msgspec.structs.replace(self, metadata=msgspec.structs.replace(self.metadata, **changes))
