"""ResourceFlavor and Topology: what the nodes behind a quota look like."""

from typing import Annotated, ClassVar

import msgspec

from fairway.apis.core.taints import Taint, Tolerations
from fairway.apis.machinery.metadata import Object
from fairway.apis.machinery.structs import NodeLabel, OptionalReference, Value, limits


class ResourceFlavorSpec(Value, frozen=True, kw_only=True):
    node_labels: Annotated[dict[str, str], limits(max_items=8)] = msgspec.field(default_factory=dict)
    node_taints: Annotated[tuple[Taint, ...], limits(max_items=8)] = ()
    tolerations: Tolerations = ()
    topology_name: OptionalReference = ""


class ResourceFlavor(Object, frozen=True, kw_only=True):
    """A kind of node: its labels, its taints, and what pods sent there tolerate."""

    KIND: ClassVar[str] = "ResourceFlavor"

    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class TopologyLevel(Value, frozen=True, kw_only=True):
    node_label: NodeLabel


class TopologySpec(Value, frozen=True, kw_only=True):
    levels: Annotated[tuple[TopologyLevel, ...], limits(min_items=1, max_items=16)]


class Topology(Object, frozen=True, kw_only=True):
    """How nodes nest, from the widest level (a block) to the narrowest (a host)."""

    KIND: ClassVar[str] = "Topology"

    spec: TopologySpec
