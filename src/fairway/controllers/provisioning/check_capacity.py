"""The provisioner of the class `check-capacity.autoscaling.x-k8s.io`: says whether there is room on the nodes now.

It answers as the cluster autoscaler does, with the same conditions, reasons and words: room that is found is booked for
ten minutes; where there is none the request waits, or fails at once if its parameter `noRetry` says so. The autoscaler
tries again from time to time; here a request is tried again as soon as there is more room. No nodes are made for it."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.capacity import Demand, Group, Room, demand_of, put, shortage
from fairway.controllers.kit.ledger import NodeLedger
from fairway.controllers.kit.status import StatusChange
from fairway.controllers.kit.writes import commit
from fairway.controllers.provisioning import decide
from fairway.controllers.provisioning.decide import CHECK_CAPACITY, CONSUMES
from fairway.integrations import conditions
from fairway.runtime.worker import Worker

BOOKED_FOR: Final = timedelta(minutes=10)
VALID_FOR: Final = timedelta(days=7)
_NO_RETRY: Final = "noRetry"
_FOUND: Final = "CapacityIsFound"
_NOT_FOUND: Final = "CapacityIsNotFound"


class Booking:
    """The pods of a request that have no node yet."""

    __slots__ = ("_counts", "_demands")

    def __init__(self, groups: Iterable[Group], taken: Iterable[Demand] = ()) -> None:
        groups = list(groups)
        self._demands = [demand for demand, _ in groups]
        self._counts = [count for _, count in groups]
        for demand in taken:
            self.take(demand)

    @property
    def left(self) -> list[Group]:
        return [(demand, count) for demand, count in zip(self._demands, self._counts, strict=True) if count]

    def take(self, demand: Demand) -> None:
        """One of the pods is on a node now: one that asks for the same, or any if none does."""
        waiting = [position for position, count in enumerate(self._counts) if count]
        same = [position for position in waiting if self._demands[position].requests == demand.requests]
        for position in (same or waiting)[:1]:
            self._counts[position] -= 1

    def hold(self, rooms: Iterable[Room]) -> None:
        """Take this room out of what is left, as far as there is so much."""
        rooms = list(rooms)
        for demand, count in self.left:
            put(rooms, demand, count)


@dataclass(slots=True)
class _Open:
    """A request that has no room yet."""

    created: str
    groups: tuple[Group, ...] | None = None
    """The pods; `None` as long as a template of them is missing."""

    blocked: bool = False
    """Whether it does not fit until there is more room."""

    why: str = ""
    """Why it did not fit the last time."""


class CheckCapacity:
    """Answers requests from what the nodes have left.

    What nodes have left is followed only from the first request on: most who run jobs ask for no such check.
    """

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._clock = cluster.clock
        self._recorder = recorder
        self._writer = cluster.writer("cluster-autoscaler")
        self._ledger = NodeLedger()
        self._open: dict[Key, _Open] = {}
        self._granted: set[Key] = set()
        """Who was found room for, while that is not written yet."""
        self._bookings: dict[Key, Booking] = {}
        self._taken: dict[Key, dict[str, Demand]] = {}
        """The pods of each request that have, or had, a node."""
        self._asked = asyncio.Event()
        self._stirred = asyncio.Event()
        self._worker: Worker[Key] = Worker("check-capacity", cluster.clock, self._carry_out)
        self._requests = cluster.cache("provisioningrequests")
        self._templates = cluster.cache("podtemplates")
        self._pods = cluster.cache("pods")
        self._nodes = cluster.cache("nodes")
        self._requests.on_change(self._on_first_request)

    async def run(self) -> None:
        """Answer until cancelled."""
        for cache in (self._requests, self._templates, self._pods, self._nodes):
            await cache.synced.wait()
        await self._asked.wait()
        self._nodes.on_change(self._on_node_change)
        self._pods.on_change(self._on_pod_change)
        self._templates.on_change(self._on_template_change)
        self._requests.on_change(self._on_request_change)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._decide_when_stirred())

    # What happens outside

    def _on_first_request(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and _is_ours(new):
            self._asked.set()

    def _on_request_change(self, old: Manifest | None, new: Manifest | None) -> None:
        request = new or old or {}
        if not _is_ours(request):
            return
        key = key_of(request)
        if new is None:
            self._taken.pop(key, None)
        if new is None or _is_over(new):
            self._open.pop(key, None)
            if self._bookings.pop(key, None) is not None:
                self._there_is_more_room()
        elif conditions.is_true(new, decide.PROVISIONED):
            if key not in self._bookings:
                self._book(key, self._groups(new) or ())
            self._worker.add(key)
        elif key not in self._granted and key not in self._open:
            self._open_up(key, new)

    def _on_node_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if self._ledger.observe_node(old, new):
            self._there_is_more_room()

    def _on_pod_change(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new or old or {}
        if new is not None and new["spec"].get("nodeName"):
            self._note_taken(new)
        if self._ledger.release(pod["metadata"]["uid"]) if new is None else self._ledger.observe(new):
            self._there_is_more_room()

    def _on_template_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None and new is not None and any(one.groups is None for one in self._open.values()):
            self._stirred.set()

    def _note_taken(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        request = (metadata.get("annotations") or {}).get(CONSUMES)
        key = metadata["namespace"], request or ""
        if request is None or self._requests.get(*key) is None:
            return
        taken = self._taken.setdefault(key, {})
        if metadata["uid"] not in taken:
            demand = taken[metadata["uid"]] = demand_of(pod["spec"])
            if key in self._bookings:
                self._bookings[key].take(demand)

    def _there_is_more_room(self) -> None:
        for one in self._open.values():
            one.blocked = False
        self._stirred.set()

    def _open_up(self, key: Key, request: Manifest) -> None:
        self._open[key] = _Open(request["metadata"]["creationTimestamp"])
        self._stirred.set()
        self._worker.add(key)  # which sees to it that it does not stay open for ever

    def _book(self, key: Key, groups: tuple[Group, ...]) -> None:
        self._bookings[key] = Booking(groups, self._taken.get(key, {}).values())

    def _groups(self, request: Manifest) -> tuple[Group, ...] | None:
        """The pods that a request asks room for, if its templates are all there."""
        groups = []
        for pod_set in request["spec"]["podSets"]:
            template = self._templates.get(request["metadata"]["namespace"], pod_set["podTemplateRef"]["name"])
            if template is None:
                return None
            groups.append((demand_of(template["template"].get("spec") or {}), int(pod_set["count"])))
        return tuple(groups)

    # What is decided about it

    async def _decide_when_stirred(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            self._decide()

    def _decide(self) -> None:
        """Find room for open requests, the oldest first; one that does not fit keeps no other waiting."""
        untried = sorted(
            ((key, one) for key, one in self._open.items() if not one.blocked), key=lambda item: item[1].created
        )
        if not untried:
            return
        rooms = self._ledger.copied_rooms()
        for booking in self._bookings.values():
            booking.hold(rooms)
        failed: dict[tuple[Group, ...], str] = {}
        for key, one in untried:
            groups = one.groups = one.groups or self._groups_by(key)
            if groups is None:
                continue
            why = failed.get(groups)
            if why is None:
                trial = [room.copy() for room in rooms]
                why = shortage(trial, groups)
                if why is None:
                    rooms = trial
                    self._grant(key, groups)
                    continue
                failed[groups] = why
            if not one.why:  # the first time: the message stays true until it fits
                self._worker.add(key)
            one.blocked, one.why = True, why

    def _groups_by(self, key: Key) -> tuple[Group, ...] | None:
        request = self._requests.get(*key)
        return self._groups(request) if request is not None else None

    def _grant(self, key: Key, groups: tuple[Group, ...]) -> None:
        del self._open[key]
        self._book(key, groups)
        self._granted.add(key)
        self._worker.add(key)

    # What is written down

    async def _carry_out(self, key: Key) -> float | None:
        """Write what is decided about a request, and what time brings; how long until the next of that."""
        request = self._requests.get(*key)
        if request is None or _is_over(request):
            self._granted.discard(key)
            return None
        if conditions.is_true(request, decide.PROVISIONED):
            return await self._expire_booking(request)
        left = _moment(request["metadata"]["creationTimestamp"]) + VALID_FOR - self._clock.now()
        if left <= timedelta():
            await self._write(request, decide.FAILED, "True", "Expired", "ProvisioningRequest is expired")
            return None
        if key in self._granted:
            await self._write_found(key, request)
            return BOOKED_FOR.total_seconds()
        known = self._open.get(key)
        if known is None:  # what was found could not be written
            self._open_up(key, request)
        elif known.why:
            await self._write_not_found(request, known.why)
        return left.total_seconds()

    async def _write_found(self, key: Key, request: Manifest) -> None:
        try:
            await self._write(
                request, decide.PROVISIONED, "True", _FOUND, "Capacity is found in the cluster", accept=True
            )
        finally:
            self._granted.discard(key)
            now = self._requests.get(*key)
            if now is None or not conditions.is_true(now, decide.PROVISIONED):
                self._bookings.pop(key, None)
                self._there_is_more_room()

    async def _write_not_found(self, request: Manifest, why: str) -> None:
        if (request["spec"].get("parameters") or {}).get(_NO_RETRY) == "true":
            self._recorder.warning(request, _NOT_FOUND, why)
            message = "CA could not find requested capacity"
            await self._write(request, decide.FAILED, "True", _NOT_FOUND, message, accept=True)
        elif conditions.find(request, decide.PROVISIONED) is None:
            self._recorder.warning(request, _NOT_FOUND, why)
            message = "Capacity is not found, CA will try to find it later."
            await self._write(request, decide.PROVISIONED, "False", _NOT_FOUND, message, accept=True)

    async def _expire_booking(self, request: Manifest) -> float | None:
        """End a booking whose time is over; else how long it still holds."""
        provisioned = conditions.find(request, decide.PROVISIONED)
        if provisioned is None:
            return None
        left = _moment(provisioned["lastTransitionTime"]) + BOOKED_FOR - self._clock.now()
        if left > timedelta():
            return left.total_seconds()
        message = "Capacity reservation time is expired"
        await self._write(request, decide.BOOKING_EXPIRED, "True", "CapacityReservationTimeExpired", message)
        return None

    async def _write(
        self, request: Manifest, kind: str, status: str, reason: str, message: str, *, accept: bool = False
    ) -> None:
        change = StatusChange(request, self._clock.now())
        if accept:
            accepted = "ProvisioningRequest is accepted by ClusterAutoscaler"
            change.set(decide.ACCEPTED, "True", "Accepted", accepted)
        change.set(kind, status, reason, message)
        await commit(self._writer, "provisioningrequests", change)


def _is_ours(request: Manifest) -> bool:
    return bool(request["spec"]["provisioningClassName"] == CHECK_CAPACITY)


def _is_over(request: Manifest) -> bool:
    """Whether nothing is promised to a request, now or later."""
    return (
        conditions.is_true(request, decide.FAILED)
        or conditions.is_true(request, decide.BOOKING_EXPIRED)
        or "deletionTimestamp" in request["metadata"]
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
