"""A job as a scheduler plugin sees it: its roles, and where each keeps the metadata of its pods."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from fairway.apis.core.node_views import DEFAULT_SCHEDULER
from fairway.apis.machinery.kind import Manifest

if TYPE_CHECKING:
    from fairway.schedulers.kinds import JobKind


class RoleStart(Enum):
    """When the pods of a role are created."""

    AT_ONCE = "with the job"
    LATER = "when other roles are ready"
    LAST = "when other roles have ended"


@dataclass(slots=True, kw_only=True)
class PodRole:
    """Pods of a job that are equal."""

    name: str
    """Also the name of their task group, as the operator calls it where it has one."""

    count: int
    """How many there are when the job starts."""

    node: Manifest
    """What keeps their metadata and spec: a pod template, or for Spark the role itself."""

    pod: Manifest
    """The spec of the pods as the operator creates them, with the containers that it adds. Not to be changed."""

    starts: RoleStart = RoleStart.AT_ONCE
    flat: bool = False
    """Whether labels, annotations and the fields of the pod are in the node itself, as Spark has them."""

    parent: tuple[Manifest, str] | None = None
    """Where a node that is not in the manifest yet is put once something is written."""

    def labels(self) -> dict[str, str]:
        """Of its pods, to be read and written."""
        return self._metadata("labels")

    def annotations(self) -> dict[str, str]:
        """Of its pods, to be read and written."""
        return self._metadata("annotations")

    def read(self, field: str) -> Mapping[str, str]:
        """The labels or annotations of its pods, to be read only."""
        held = self.node if self.flat else self.node.get("metadata") or {}
        return held.get(field) or {}

    def spec_field(self, name: str) -> Any:
        """A field of the pods' spec."""
        return (self.node if self.flat else self.node.get("spec") or {}).get(name)

    def set_spec_field(self, name: str, value: object) -> None:
        """Set a field of the pods' spec."""
        self._attach()
        (self.node if self.flat else _inside(self.node, "spec"))[name] = value

    @property
    def scheduler_name(self) -> str:
        """The scheduler that the manifest asks for; empty for Kubernetes' own."""
        name = str(self.spec_field("schedulerName") or "")
        return "" if name == DEFAULT_SCHEDULER else name

    def _metadata(self, field: str) -> dict[str, str]:
        self._attach()
        return _inside(self.node if self.flat else _inside(self.node, "metadata"), field)

    def _attach(self) -> None:
        if self.parent is not None:
            holder, key = self.parent
            holder[key] = self.node
            self.parent = None


@dataclass(slots=True)
class SchedulableJob:
    """A manifest with its roles; of a group of pods, the first pod stands for all."""

    manifest: Manifest
    kind: "JobKind"
    roles: list[PodRole]
    warnings: list[str] = field(default_factory=list)
    """What the author should know."""

    def labels(self) -> dict[str, str]:
        """Of the job itself, to be read and written."""
        return _inside(self.manifest["metadata"], "labels")

    def annotations(self) -> dict[str, str]:
        """Of the job itself, to be read and written."""
        return _inside(self.manifest["metadata"], "annotations")

    def find_label(self, key: str) -> str:
        """The value of a label on the job or on any of its roles; empty if none has it."""
        own = self.manifest["metadata"].get("labels") or {}
        places: Iterator[Mapping[str, str]] = (role.read("labels") for role in self.roles)
        return own.get(key) or next((found[key] for found in places if found.get(key)), "")


def _inside(parent: Manifest, key: str) -> dict[str, Any]:
    found = parent.get(key)
    if not isinstance(found, dict):
        found = parent[key] = {}
    return found
