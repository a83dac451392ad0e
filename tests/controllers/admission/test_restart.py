"""A controller may end at any moment, and any write may fail: nobody gets quota twice, nobody is forgotten."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.admission.events import EvictionRequested
from fairway.admission.records import Stage
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import ApiError
from fairway.integrations import conditions
from fairway.store.entries import DELETED, Change
from fairway.store.memory import MemoryLog
from fairway.testing.builders import Limited, admission_check, cluster_queue, flavor, local_queue, workload
from fairway.testing.stores import UnreliableLog

from .plays import Play, play

CORES = {"a": 4, "b": 4}
ALL_CORES = sum(CORES.values())


def queue(name: str, stop: str = "None") -> Any:
    return cluster_queue(
        name,
        cohort="all",
        reclaim="Any",
        within="LowerPriority",
        checks=["check"] if name == "b" else (),
        stop=stop,
        cpu=Limited(CORES[name], borrowing=2),
    )


QUEUES = (
    flavor(),
    admission_check("check"),
    queue("a"),
    queue("b"),
    local_queue("a", "a"),
    local_queue("b", "b"),
)


class Books:
    """What the store says is taken, after every single write."""

    def __init__(self, on_stage: Play) -> None:
        self._workloads = on_stage.api.kind("workloads").resource
        self._taken: dict[tuple[str, str], tuple[str, int]] = {}
        self.broken: list[str] = []
        on_stage.api.store.observe(self._write)

    def _write(self, change: Change) -> None:
        entry = change.entry
        if entry.resource != self._workloads:
            return
        self._taken.pop(entry.key, None)
        manifest = msgspec.json.decode(entry.data)
        if change.type != DELETED and _counts(manifest):
            admission = manifest["status"]["admission"]
            (given_to,) = admission["podSetAssignments"]
            cores = Quantity.parse(given_to["resourceUsage"]["cpu"]).value()
            self._taken[entry.key] = admission["clusterQueue"], cores
        by_queue = {name: sum(cores for at, cores in self._taken.values() if at == name) for name in CORES}
        if sum(by_queue.values()) > ALL_CORES or any(used > CORES[name] + 2 for name, used in by_queue.items()):
            self.broken.append(f"revision {entry.revision}, {entry.key}: {by_queue}")


def _counts(manifest: dict[str, Any]) -> bool:
    return (
        conditions.is_true(manifest, "QuotaReserved")
        and not conditions.is_true(manifest, "Finished")
        and manifest["spec"].get("active") is not False
    )


class Troupe:
    """Everybody else: they do what they can, and fail with the disk."""

    def __init__(self, on_stage: Play, log: UnreliableLog) -> None:
        self.on_stage = on_stage
        self.log = log
        self.submitted = 0

    async def act(self, deed: str, number: int) -> None:
        with suppress(ApiError):
            await getattr(self, f"_{deed}")(number)

    def _one(self, number: int, *wanted: str) -> str | None:
        """Somebody in one of these states."""
        found = [name for name, state in self.on_stage.states().items() if self._state(name, state) in wanted]
        return found[number % len(found)] if found else None

    def _state(self, name: str, state: str) -> str:
        manifest = self.on_stage.get(name)
        if state in ("reserved", "admitted") and conditions.is_true(manifest, "Evicted"):
            return "evicted"
        return state if manifest["spec"].get("active") is not False or state == "finished" else f"inactive {state}"

    async def _submit(self, number: int) -> None:
        self.submitted += 1
        made = workload(
            f"w{self.submitted}", queue="ab"[number % 2], priority=number % 3, cpu=number % 4 + 1, active=number != 11
        )
        await self.on_stage.submit(made)

    async def _finish(self, number: int) -> None:
        name = self._one(number, "admitted", "evicted")
        if name is not None:
            await self.on_stage.finish(name)

    async def _release(self, number: int) -> None:
        name = self._one(number, "evicted", "inactive reserved", "inactive admitted")
        if name is not None and conditions.is_true(self.on_stage.get(name), "Evicted"):
            await self.on_stage.release(name)

    async def _report(self, number: int) -> None:
        name = self._one(number, "reserved")
        if name is not None and self.on_stage.status(name).get("admissionChecks"):
            verdict = ("Ready", "Ready", "Ready", "Retry", "Rejected")[number % 5]
            more: dict[str, Any] = {"requeueAfterSeconds": 2} if number % 2 and verdict == "Retry" else {}
            await self.on_stage.report(name, "check", verdict, **more)

    async def _deactivate(self, number: int) -> None:
        name = self._one(number, "pending", "reserved", "admitted", "evicted")
        if name is not None:
            await self.on_stage.set_active(name, active=False)

    async def _activate(self, number: int) -> None:
        name = self._one(number, "inactive pending")
        if name is not None:
            await self.on_stage.set_active(name, active=True)

    async def _delete(self, number: int) -> None:
        name = self._one(number, "pending", "admitted", "evicted", "finished")
        if name is not None:
            await self.on_stage.api.delete("workloads", name)

    async def _rank(self, number: int) -> None:
        name = self._one(number, "pending", "admitted")
        if name is not None:
            await self.on_stage.api.patch("workloads", name, {"spec": {"priority": number % 5}})

    async def _resize(self, number: int) -> None:
        name = self._one(number, "pending")
        if name is not None:
            pod_sets = self.on_stage.get(name)["spec"]["podSets"]
            pod_sets[0]["count"] = number % 3 + 1
            await self.on_stage.api.patch("workloads", name, {"spec": {"podSets": pod_sets}})

    async def _time_out(self, number: int) -> None:
        name = self._one(number, "admitted")
        if name is not None:
            reason, cause = (("PodsReadyTimeout", "WaitForStart"), ("Deactivated", "SomeCause"))[number % 2]
            at = self.on_stage.clock.now().timestamp()
            asked = EvictionRequested(at=at, key=f"default/{name}", reason=reason, cause=cause, message="too slow")
            self.on_stage.queueing.tell(asked)

    async def _stop(self, number: int) -> None:
        name, policy = "ab"[number % 2], ("Hold", "HoldAndDrain", "None")[number % 3]
        await self.on_stage.api.patch("clusterqueues", name, {"spec": {"stopPolicy": policy}})

    async def _configure(self, number: int) -> None:
        self.on_stage.configuration.set(Configuration(excluded_resource_prefixes=(f"example.com/{number % 3}",)))

    async def _wait(self, number: int) -> None:
        await self.on_stage.pass_time((0.0, 0.03, 0.3, 2.5)[number % 4])

    async def _break_disk(self, _: int) -> None:
        self.log.failing = True

    async def _mend_disk(self, _: int) -> None:
        self.log.failing = False

    async def _restart(self, _: int) -> None:
        await self.on_stage.restart()

    async def end(self) -> None:
        """The disk works, queues run, evicted jobs stop and checks say yes, until there is nothing left to do."""
        self.log.failing = False
        await self.on_stage.rest()
        for name in CORES:
            await self.on_stage.api.patch("clusterqueues", name, {"spec": {"stopPolicy": "None"}})
        for _ in range(40):
            before = self.on_stage.api.store.revision
            await self.on_stage.pass_time(6.0)
            for name in list(self.on_stage.states()):
                manifest = self.on_stage.get(name)
                if conditions.is_true(manifest, "Evicted") and conditions.is_true(manifest, "QuotaReserved"):
                    await self.on_stage.release(name)
                elif _counts(manifest) and not conditions.is_true(manifest, "Admitted"):
                    await self.on_stage.report(name, "check", "Ready")
            if self.on_stage.api.store.revision == before:
                return
        pytest.fail("the queue does not come to rest")


DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["submit"] * 6,
                *["finish", "release", "report", "wait", "restart"] * 2,
                *["deactivate", "activate", "delete", "rank", "resize", "time_out", "stop", "configure"],
                *["break_disk", "mend_disk", "mend_disk"],
            ]
        ),
        st.integers(0, 60),
        st.booleans(),
    ),
    max_size=40,
)


@settings(max_examples=40)
@pytest.mark.parametrize("staging", [True, False])
@given(deeds=DEEDS)
def test_whatever_happens_quota_is_given_once_and_nobody_is_lost(
    deeds: list[tuple[str, int, bool]], *, staging: bool
) -> None:
    """Between two deeds all may come to rest, or only a few turns pass, so that ends and failures meet writes."""

    async def scenario() -> None:
        log = UnreliableLog(MemoryLog())
        async with play(*QUEUES, open_log=lambda: log, staging=staging) as on_stage:
            books = Books(on_stage)
            troupe = Troupe(on_stage, log)
            for deed, number, at_rest in deeds:
                if at_rest:
                    await troupe.act(deed, number)
                    await on_stage.rest()
                else:
                    hurried = asyncio.ensure_future(troupe.act(deed, number))
                    for _ in range(number % 7):
                        await asyncio.sleep(0)
                    if number % 4 == 0:
                        await on_stage.restart()
                    await hurried
                assert on_stage.queueing.engine.violations() == []
            await troupe.end()

            assert books.broken == []
            _agree(on_stage)
            before = on_stage.states()
            await on_stage.restart()
            await on_stage.pass_time(3.0)
            assert on_stage.states() == before

    logging.disable(logging.ERROR)
    try:
        asyncio.run(scenario())
    finally:
        logging.disable(logging.NOTSET)


def _agree(on_stage: Play) -> None:
    """What the engine thinks is what is stored."""
    stages = {"pending": Stage.PENDING, "reserved": Stage.RESERVED, "admitted": Stage.ADMITTED}
    for name, state in on_stage.states().items():
        record, manifest = on_stage.queueing.engine.record(f"default/{name}"), on_stage.get(name)
        if state == "finished":
            assert record is None or record.stage is Stage.FINISHED
            continue
        assert record is not None, f"{name} is forgotten"
        assert (name, record.stage) == (name, stages[state])
        assert record.active is (manifest["spec"].get("active") is not False)
        if record.stage is not Stage.PENDING:
            assert (record.evicted is not None) is conditions.is_true(manifest, "Evicted")
