"""Topologies and requests for tests, made from plain data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairway.admission.config import Resources
from fairway.admission.flavors import Flavor
from fairway.admission.shapes import Shapes
from fairway.admission.topology.assigning import TopologyAsk
from fairway.admission.topology.capacity import Topologies
from fairway.admission.topology.requests import PodSetTopology
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.core.taints import Taint
from fairway.apis.kueue.objects import PodTemplate, TopologyRequest
from fairway.apis.machinery.structs import read
from fairway.testing.builders import flavor

_SHAPES = Shapes(Resources())


def topologies(levels: Sequence[str], nodes: Iterable[Mapping[str, Any]]) -> Topologies:
    """One flavor `f` with a topology `default`; a node may have `used` and `usedPods`, which are placed."""
    made = Topologies({"f": Flavor(flavor("f", topology="default"))})
    made.set_levels("default", tuple(levels))
    nodes = list(nodes)
    for one in nodes:
        taint = one.get("taint")
        made.set_node(
            NodeFacts(
                name=one["name"],
                labels=one["labels"],
                taints=(Taint(key=taint, value="x", effect="NoSchedule"),) if taint else (),
                unschedulable=False,
                allocatable={"cpu": one["cpu"], "pods": one["pods"]},
            )
        )
    tree = made.tree("f")
    assert tree is not None
    for one in nodes:
        if one.get("used"):
            tree.occupy(tree.leaf_of_node[one["name"]], (("cpu", one["used"]), ("pods", one["usedPods"])))
    return made


def asks(pod_sets: Iterable[Mapping[str, Any]]) -> list[TopologyAsk]:
    found = []
    for one in pod_sets:
        requests = {"requests": {"cpu": f"{one['cpu']}m"}}
        spec = {"containers": [{"name": "c", "resources": requests}], "nodeSelector": one.get("selector") or {}}
        request = read(one["request"], TopologyRequest) if one["request"] is not None else None
        shape = _SHAPES.of(PodTemplate(spec=spec))
        implied = request is None
        found.append(TopologyAsk("f", PodSetTopology(one["name"], one["count"], shape, request, implied)))
    return found
