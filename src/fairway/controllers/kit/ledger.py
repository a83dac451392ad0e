"""Which pod is on which node, kept by telling it of changes; so what a node has left is never counted anew.

A pod counts from the moment it is given to a node, also while that is still being written, until it has ended or is
gone. A pod that is being deleted still runs, so it counts.
"""

from collections.abc import Iterator

from fairway.apis.core.node_views import NodeFacts, facts_of
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.capacity import Demand, Room, demand_of

_ENDED = frozenset({"Succeeded", "Failed"})


class NodeLedger:
    """The nodes and the pods on them."""

    def __init__(self) -> None:
        self._rooms: dict[str, Room] = {}
        self._placed: dict[str, tuple[str, Demand]] = {}

    def __contains__(self, uid: str) -> bool:
        """Whether a pod is on a node."""
        return uid in self._placed

    def rooms(self) -> Iterator[Room]:
        """The nodes that are there, with what is taken of them."""
        return (room for room in self._rooms.values() if room.node is not None)

    def copied_rooms(self) -> list[Room]:
        """The same by name and to try things out on."""
        return [room.copy() for _, room in sorted(self._rooms.items()) if room.node is not None]

    def observe_node(self, old: Manifest | None, new: Manifest | None) -> bool:
        """Take in a node as an informer reports it; whether that changes anything."""
        return self.set_node((new or old or {})["metadata"]["name"], facts_of(new) if new is not None else None)

    def set_node(self, name: str, facts: NodeFacts | None) -> bool:
        """A node is as it says, or gone; whether that changes anything."""
        room = self._rooms.get(name)
        if room is None:
            if facts is None:
                return False
            self._rooms[name] = Room(facts)
            return True
        if room.node == facts:
            return False
        room.node = facts
        self._drop_if_idle(name, room)
        return True

    def place(self, uid: str, node: str, demand: Demand) -> None:
        """A pod is on a node from now on."""
        self.release(uid)
        self._room(node).take(demand)
        self._placed[uid] = node, demand

    def rename(self, placeholder: str, uid: str) -> None:
        """What was placed under another name is this pod."""
        self._placed[uid] = self._placed.pop(placeholder)

    def release(self, uid: str) -> bool:
        """A pod is on no node any more; whether it was on one."""
        placed = self._placed.pop(uid, None)
        if placed is None:
            return False
        name, demand = placed
        room = self._rooms[name]
        room.give_back(demand)
        self._drop_if_idle(name, room)
        return True

    def observe(self, pod: Manifest) -> bool:
        """Take in a pod as it is now, if it has a node; whether that made room somewhere."""
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if has_ended(pod):
            return self.release(uid)
        if not node:
            return False
        placed = self._placed.get(uid)
        if placed is not None and placed[0] == node:
            return False
        self.place(uid, node, demand_of(pod["spec"]))
        return placed is not None

    def _room(self, name: str) -> Room:
        room = self._rooms.get(name)
        if room is None:
            room = self._rooms[name] = Room(None)
        return room

    def _drop_if_idle(self, name: str, room: Room) -> None:
        if room.node is None and not room.pods:
            del self._rooms[name]


def has_ended(pod: Manifest) -> bool:
    """Whether a pod has stopped for good and takes nothing any more."""
    return (pod.get("status") or {}).get("phase") in _ENDED
