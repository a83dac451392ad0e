"""ResourceFlavor and Topology: what the nodes behind a quota look like."""

from typing import ClassVar

import msgspec

from fairway.apis.core.taints import Taint, Toleration
from fairway.apis.machinery.metadata import Object
from fairway.apis.machinery.structs import Value


class ResourceFlavorSpec(Value, frozen=True, kw_only=True):
    node_labels: dict[str, str] = msgspec.field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str = ""


class ResourceFlavor(Object, frozen=True, kw_only=True):
    """A kind of node: its labels, its taints, and what pods sent there tolerate."""

    KIND: ClassVar[str] = "ResourceFlavor"

    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class TopologyLevel(Value, frozen=True, kw_only=True):
    node_label: str


class TopologySpec(Value, frozen=True, kw_only=True):
    levels: tuple[TopologyLevel, ...]


class Topology(Object, frozen=True, kw_only=True):
    """How nodes nest, from the widest level (a block) to the narrowest (a host)."""

    KIND: ClassVar[str] = "Topology"

    spec: TopologySpec
