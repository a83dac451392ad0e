"""Which pod is on which node, as pods and nodes come and go."""

from typing import Any

from controllers.scheduler.things import node, pod, pod_spec
from fairway.apis.core.node_views import facts_of
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.capacity import demand_of
from fairway.controllers.kit.ledger import NodeLedger


def stored(name: str, cpu: str, node_name: str = "", phase: str = "Pending") -> Manifest:
    made = pod(name, {"cpu": cpu}, **({"nodeName": node_name} if node_name else {}))
    made["metadata"]["uid"] = name
    return {**made, "status": {"phase": phase}}


def used(ledger: NodeLedger) -> dict[str, tuple[int, int]]:
    """The pods and the milli-cores on each node."""
    return {room.node.name: (room.pods, room.used.get("cpu", 0)) for room in ledger.rooms() if room.node is not None}


def with_nodes(*names: str, **facts: Any) -> NodeLedger:
    ledger = NodeLedger()
    for name in names:
        ledger.set_node(name, facts_of(node(name, **facts)))
    return ledger


def test_a_pod_counts_from_its_binding_to_its_end() -> None:
    ledger = with_nodes("a")

    assert not ledger.observe(stored("p", "1"))
    assert used(ledger) == {"a": (0, 0)}
    assert not ledger.observe(stored("p", "1", "a"))
    assert not ledger.observe(stored("p", "1", "a", "Running"))
    assert used(ledger) == {"a": (1, 1000)}
    assert ledger.observe(stored("p", "1", "a", "Failed"))
    assert used(ledger) == {"a": (0, 0)}
    assert not ledger.observe(stored("p", "1", "a", "Failed"))


def test_a_pod_that_turns_out_to_be_elsewhere_is_counted_there_only() -> None:
    ledger = with_nodes("a", "b")
    ledger.place("p", "a", demand_of(pod_spec({"cpu": "1"})))

    assert ledger.observe(stored("p", "1", "b"))
    assert used(ledger) == {"a": (0, 0), "b": (1, 1000)}


def test_pods_on_a_node_that_is_not_known_yet_count_when_it_is() -> None:
    ledger = NodeLedger()
    ledger.observe(stored("p", "1", "a"))
    assert used(ledger) == {}

    assert ledger.set_node("a", facts_of(node("a")))
    assert used(ledger) == {"a": (1, 1000)}
    assert not ledger.set_node("a", facts_of(node("a")))
    assert ledger.set_node("a", None)
    assert used(ledger) == {}
    assert ledger.release("p")
    assert not ledger.set_node("a", None)
