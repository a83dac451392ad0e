"""A patch of a status on the short way is stored, refused, warned of and owned exactly as on the long way."""

import asyncio
import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest, Rules
from fairway.apis.registry import default_registry
from fairway.errors import StorageFailed
from fairway.store.memory import MemoryLog
from fairway.store.verbs import WriteOptions, Written, partscache
from fairway.store.verbs.reading import decoded
from fairway.testing.stores import LocalApi, UnreliableLog, local_api, log_in_memory

from .ways import on_the_long_way, outcome

CONTAINER = {"name": "main", "image": "x", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}
SPECS: dict[str, Manifest] = {
    "workloads": {
        "queueName": "q",
        "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [CONTAINER]}}}],
    },
    "clusterqueues": {"namespaceSelector": {}, "resourceGroups": []},
    "localqueues": {"clusterQueue": "cq"},
}


def condition(kind: str, status: Any = "True", **others: Any) -> Manifest:
    made = {"type": kind, "status": status, "reason": "Because", "message": "", "lastTransitionTime": SINCE}
    return made | others


SINCE = "2026-01-01T00:00:00Z"
ASSIGNMENT: Manifest = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"}, "count": 2}
GOOD_CONDITIONS = [
    condition("QuotaReserved"),
    condition("QuotaReserved", "False"),
    condition("Admitted"),
    condition("Admitted", observedGeneration=1),
    condition("Finished", message="done"),
]
BAD_CONDITIONS = [
    condition("QuotaReserved", status=True),
    condition("Admitted", observedGeneration=True),
    condition("Admitted", observedGeneration=1.0),
    condition("Admitted", observedGeneration=None),
    condition("not a type!"),
    condition("Admitted", colour="red"),
    condition("Admitted", lastTransitionTime="yesterday"),
    {"type": "Finished"},
    {},
    None,
    "True",
]
GOOD_PARTS: dict[str, list[Any]] = {
    "admission": [
        {"clusterQueue": "cq", "podSetAssignments": [ASSIGNMENT]},
        {"clusterQueue": "other", "podSetAssignments": [ASSIGNMENT]},
        None,
    ],
    "reclaimablePods": [[{"name": "main", "count": 1}], [{"name": "main", "count": 2}], [], None],
    "requeueState": [{"count": 1}, {"count": 2, "requeueAt": SINCE}, {"requeueAt": None}, None],
    "accumulatedPastExecutionTimeSeconds": [1, 2, None],
}
BAD_PARTS: dict[str, list[Any]] = {
    "admission": [
        {"clusterQueue": "cq", "podSetAssignments": [{**ASSIGNMENT, "count": 3}]},
        {"clusterQueue": "cq", "podSetAssignments": [{**ASSIGNMENT, "name": "other"}]},
        {"clusterQueue": "cq", "podSetAssignments": []},
        {"podSetAssignments": None},
        {"clusterQueue": 5},
        {},
        7,
    ],
    "reclaimablePods": [[{"name": "main", "count": True}], [{"name": "other", "count": 1}], [ASSIGNMENT], {}],
    "requeueState": [{"count": True}, {"count": 1.0}, {"count": -1}, {"colour": "red"}, []],
    "accumulatedPastExecutionTimeSeconds": [True, 1.0, -1, "1"],
    "clusterName": ["somewhere", None],
    "nominatedClusterNames": [["somewhere"], ["somewhere", "elsewhere"], None],
    "colour": ["red", None],
}


def patches(conditions: list[Any], parts: dict[str, list[Any]]) -> st.SearchStrategy[Manifest]:
    lists = st.lists(st.sampled_from(conditions), max_size=3)
    optional: dict[str, st.SearchStrategy[Any]] = {name: st.sampled_from(some) for name, some in parts.items()}
    return st.fixed_dictionaries({}, optional={"conditions": lists, **optional})


def distinct(status: Manifest) -> bool:
    kinds = [one["type"] for one in status.get("conditions", ())]
    return len(kinds) == len(set(kinds))


good = patches(GOOD_CONDITIONS, GOOD_PARTS)
anything = patches(
    GOOD_CONDITIONS * 3 + BAD_CONDITIONS,
    {name: GOOD_PARTS.get(name, []) * 3 + BAD_PARTS.get(name, []) for name in {**GOOD_PARTS, **BAD_PARTS}},
)
options = st.builds(
    WriteOptions,
    manager=st.sampled_from(["one", "two", "three"]),
    field_validation=st.sampled_from(["Strict", "Warn", "Ignore"]),
    tracked=st.booleans(),
    dry_run=st.sampled_from([False] * 9 + [True]),
)
trusted = st.builds(
    WriteOptions, tracked=st.booleans(), trusted=st.sampled_from([True]), manager=st.sampled_from(["one", "four"])
)
bodies = st.fixed_dictionaries(
    {"status": anything},
    optional={
        "metadata": st.sampled_from(
            [{}, {"namespace": "default"}, {"namespace": "other"}, {"uid": "no"}, {"uid": None}]
        ),
        "kind": st.sampled_from(["Workload", "Job", None]),
        "apiVersion": st.sampled_from(["kueue.x-k8s.io/v1beta2", "v1", None]),
        "spec": st.sampled_from([None, {"active": False}]),
    },
)
steps = st.one_of(
    st.tuples(options, bodies),
    st.tuples(options, st.fixed_dictionaries({"status": anything})),
    st.tuples(options, st.fixed_dictionaries({"status": good})),
    st.tuples(trusted, st.fixed_dictionaries({"status": good.filter(distinct)})),
    st.sampled_from(["annotate", "second passes"]),
)


async def made(api: LocalApi, kind: str, name: str) -> Manifest:
    found = api.kind(kind)
    sent = {"apiVersion": found.api_version(found.stored), "kind": found.kind, "metadata": {"name": name}}
    return await api.create(kind, {**sent, "spec": copy.deepcopy(SPECS[kind])}, manager="one")


@given(script=st.lists(steps, min_size=1, max_size=8), watched=st.booleans())
@settings(max_examples=100, deadline=None)
def test_both_ways_lead_to_the_same(script: list[Any], *, watched: bool) -> None:
    async def run() -> None:
        async with local_api(log_in_memory()) as api:
            short = api.kind("workloads")
            if watched:
                api.objects.watched_here.add(short.resource)
            for name in ("short", "long"):
                await made(api, "workloads", name)
            for step in script:
                if step == "annotate":
                    for name in ("short", "long"):
                        await api.patch("workloads", name, {"metadata": {"annotations": {"a": "b"}}}, manager="five")
                elif step == "second passes":
                    api.clock.advance(1)
                else:
                    how, body = step
                    found = await outcome(api, short, "short", body, how)
                    assert found == await outcome(api, on_the_long_way(short), "long", body, how)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("clusterqueues", {"pendingWorkloads": 3, "flavorsUsage": [{"name": "f", "resources": []}]}),
        ("localqueues", {"pendingWorkloads": 3, "flavorUsage": [{"name": "f", "resources": []}]}),
        ("workloads", {"conditions": [condition("QuotaReserved", "False")]}),
    ],
)
def test_every_kind_with_a_short_way_comes_to_the_same(kind: str, status: Manifest) -> None:
    async def run() -> None:
        async with local_api() as api:
            found = api.kind(kind)
            for name in ("short", "long"):
                await made(api, kind, name)
            for more in ({}, {"conditions": [condition("Active")]}, {"conditions": None}, {"pendingWorkloads": -1}):
                for how in (WriteOptions(manager="me"), WriteOptions(tracked=False), WriteOptions(manager="you")):
                    body = {"status": {**status, **more}}
                    short = await outcome(api, found, "short", body, how)
                    assert short == await outcome(api, on_the_long_way(found), "long", body, how)

    asyncio.run(run())


RESERVED, ADMITTED = condition("QuotaReserved"), condition("Admitted")
ADMISSION: Manifest = {"clusterQueue": "cq", "podSetAssignments": [ASSIGNMENT]}
GATED = {"kueue.x-k8s.io/admission-gated-by": "no gate"}


@pytest.mark.parametrize(
    ("old", "new", "annotations"),
    [
        ([RESERVED, ADMITTED], [RESERVED, ADMITTED, condition("Finished")], {}),
        ([RESERVED], [condition("QuotaReserved", message="again")], {"other": "one"}),
        ([RESERVED], [condition("QuotaReserved", "False")], {}),
        ([RESERVED], [], {}),
        ([], [condition("Admitted", "False")], {}),
        ([], [RESERVED], {}),
        ([condition("QuotaReserved", "False")], [ADMITTED, RESERVED], {}),
        ([RESERVED], [RESERVED, condition("no name!")], {}),
        ([RESERVED, condition("no name!")], [RESERVED, condition("no name!")], {}),
        ([RESERVED], [RESERVED, condition("Finished", observedGeneration=1.0)], {}),
        ([RESERVED], [RESERVED, condition("Finished", lastTransitionTime="2026-01-01")], {}),
        ([RESERVED], [RESERVED, condition("Finished")], GATED),
    ],
)
@pytest.mark.parametrize(
    "rest",
    [
        {"admission": ADMISSION},
        {"admission": ADMISSION, "requeueState": {"count": 1}},
        {},
        {"admission": ADMISSION, "reclaimablePods": [{"name": "main", "count": 3}]},
        {"admission": ADMISSION, "clusterName": "here", "nominatedClusterNames": ["here"]},
    ],
)
def test_new_conditions_alone_are_judged_as_the_whole_object_is(
    old: list[Manifest],
    new: list[Manifest],
    annotations: Manifest,
    rest: Manifest,
) -> None:
    kind = default_registry().by_resource("kueue.x-k8s.io", "v1beta2", "workloads")
    assert kind is not None
    rules = kind.rules
    assert rules.validate_status is not None
    metadata = {"name": "x", "namespace": "default", "annotations": annotations}
    spec = json.dumps(SPECS["workloads"]).encode()

    def of(status: Manifest, spec: Any) -> Manifest:
        return {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }

    before, after = {"conditions": old, **rest}, {"conditions": new, **rest}
    errors = rules.validate_status(of(before, msgspec.Raw(spec)), of(after, msgspec.Raw(spec)))

    assert errors == rules.validate_update(of(before, json.loads(spec)), of(after, json.loads(spec)))


def test_an_object_with_many_owners_or_on_its_way_out_goes_the_long_way() -> None:
    async def run() -> None:
        async with local_api() as api:
            found = api.kind("workloads")
            for name in ("short", "long"):
                await made(api, "workloads", name)
                await api.patch("workloads", name, {"metadata": {"finalizers": ["example.com/mine"]}})
            for number in range(14):
                if number == 12:
                    for name in ("short", "long"):
                        await api.delete("workloads", name)
                api.clock.advance(1)
                body = {"status": {"conditions": [condition("QuotaReserved", "False", message=str(number))]}}
                how = WriteOptions(manager=f"manager-{number}")
                short = await outcome(api, found, "short", body, how)
                assert short == await outcome(api, on_the_long_way(found), "long", body, how)

    asyncio.run(run())


def test_the_short_way_is_only_for_kinds_whose_rules_complete_nothing() -> None:
    kinds = default_registry().of_group("kueue.x-k8s.io", "v1beta2")
    short = [kind for kind in kinds if kind.rules.validate_status is not None]

    assert {"workloads", "clusterqueues", "localqueues"} <= {kind.plural for kind in short}
    for kind in short:
        assert kind.rules.default is Rules().default
        assert kind.rules.prepare_update is Rules().prepare_update


async def patched(api: LocalApi, name: str, message: str, **how: Any) -> Written:
    body = {"status": {"conditions": [condition("QuotaReserved", "False", message=message)]}}
    return await api.patch("workloads", name, body, subresource="status", **how)


def test_conditions_that_were_right_elsewhere_are_not_right_everywhere() -> None:
    """There must not be too many, and each but once."""

    async def run() -> None:
        async with local_api() as api:
            found = api.kind("workloads")
            known = [condition(f"C{number}") for number in range(20)]
            for name in ("other", "short", "long"):
                await made(api, "workloads", name)
                await api.patch("workloads", name, {"status": {"conditions": known[:1]}}, subresource="status")
            for some in (known[1:11], known[11:]):
                await api.patch("workloads", "other", {"status": {"conditions": some}}, subresource="status")
            wrong = [[known[0], known[5], known[5]], known, [known[0], None], [known[0], condition("C1", "No")]]
            for conditions in (*wrong, known[:3]):
                body = {"status": {"conditions": conditions}}
                short = await outcome(api, found, "short", body, WriteOptions(manager="me"))
                assert short == await outcome(api, on_the_long_way(found), "long", body, WriteOptions(manager="me"))

    asyncio.run(run())


def test_a_state_that_was_never_stored_is_not_built_upon() -> None:
    async def run() -> None:
        log = UnreliableLog(MemoryLog())
        async with local_api(lambda: log) as api:
            await made(api, "workloads", "x")
            await patched(api, "x", "stored")
            log.failing = True
            with pytest.raises(StorageFailed):
                await patched(api, "x", "lost")
            log.failing = False
            body = {"status": {"requeueState": {"count": 1}}}
            written = await api.patch("workloads", "x", body, subresource="status")

            status = decoded(written.entry)["status"]
            assert status["conditions"][0]["message"] == "stored"
            assert status["requeueState"] == {"count": 1}

    asyncio.run(run())


def test_what_the_last_writes_knew_is_kept_for_so_many_bytes_and_no_more() -> None:
    async def run() -> None:
        async with local_api() as api:
            entries = []
            for number in range(60):
                await made(api, "workloads", f"x-{number}")
                entries.append((await patched(api, f"x-{number}", "m" * 32_000, manager="me")).entry)
            large = (await patched(api, "x-59", "small", manager="me")).entry
            huge = {"status": {"conditions": [condition(f"C{number}", message="m" * 32_000) for number in range(3)]}}
            larger = (await api.patch("workloads", "x-59", huge, subresource="status")).entry

            assert large.parts is None
            assert larger.parts is None
            assert entries[58].parts is not None
            enough = partscache.MOST_BYTES // 32_000 + 1
            for number in range(enough):
                await patched(api, "x-1", str(number) + "m" * 32_000)
            assert entries[1].parts is None
            assert entries[58].parts is not None, "states that another has replaced take no room"
            for number in range(enough):
                await made(api, "workloads", f"y-{number}")
                await patched(api, f"y-{number}", "m" * 32_000)
            assert all(entry.parts is None for entry in entries)

    asyncio.run(run())
