"""A status of a Job or a Pod that a trusted author patches on the short way is stored exactly as on the long way."""

import asyncio
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.store.verbs import WriteOptions, statuses
from fairway.store.verbs.options import PatchType, WriteTarget
from fairway.testing.stores import LocalApi, local_api, log_in_memory

from .ways import on_the_long_way, outcome

SINCE, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
POD: Manifest = {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "0.5"}}}]}
SPECS: dict[str, Manifest] = {
    "jobs.batch": {"template": {"spec": {**POD, "restartPolicy": "Never"}}},
    "pods": {**POD, "restartPolicy": "Never"},
}


def condition(kind: str, status: str = "True", **others: Any) -> Manifest:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": SINCE, **others}


PARTS: dict[str, dict[str, list[Any]]] = {
    "jobs.batch": {
        "active": [1, 2, None],
        "ready": [0, 1],
        "terminating": [0, None],
        "succeeded": [1, None],
        "startTime": [SINCE, LATER, None],
        "completionTime": [LATER, None],
        "uncountedTerminatedPods": [{}, {"succeeded": ["u"]}, {"succeeded": None}],
        "conditions": [[condition("SuccessCriteriaMet")], [condition("SuccessCriteriaMet"), condition("Complete")], []],
    },
    "pods": {
        "phase": ["Pending", "Running", "Succeeded", None],
        "conditions": [[condition("Ready")], [condition("PodScheduled"), condition("Ready", "False")], None],
        "containerStatuses": [
            [{"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": SINCE}}}],
            [{"name": "main", "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}],
        ],
        "qosClass": ["Burstable", "", None],
        "observedGeneration": [1, 2, None],
        "podIP": ["10.0.0.1", "10.0.0.2", "", None],
        "podIPs": [[{"ip": "10.0.0.3"}], [{"ip": "10.0.0.1"}, {"ip": "::1"}], [], None],
        "hostIP": ["10.0.0.9"],
    },
}


def statuses_of(kind: str) -> st.SearchStrategy[Manifest]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(some) for name, some in PARTS[kind].items()})


@st.composite
def scripts(draw: st.DrawFn) -> tuple[str, list[Any]]:
    kind = draw(st.sampled_from(sorted(SPECS)))
    trusted = st.builds(
        WriteOptions,
        manager=st.sampled_from(["one", "two"]),
        tracked=st.booleans(),
        trusted=st.sampled_from([True, True, True, False]),
        shared=st.booleans(),
    )
    bodies = st.fixed_dictionaries(
        {},
        optional={
            "status": statuses_of(kind),
            "metadata": st.sampled_from([{}, {"uid": "no"}, {"namespace": "other"}, {"labels": {"a": "b"}}]),
        },
    )
    plain = st.tuples(trusted, st.fixed_dictionaries({"status": statuses_of(kind)}))
    others = st.sampled_from(["annotate", "resume", "bind", "second passes", "mark", "keep"])
    steps = st.one_of(plain, plain, st.tuples(trusted, bodies), others)
    return kind, draw(st.lists(steps, min_size=1, max_size=8))


async def do(api: LocalApi, kind: str, name: str, step: str) -> None:
    """One of the things that happen to an object besides patches of its status."""
    found = api.kind(kind)
    if step == "annotate":
        await api.patch(kind, name, {"metadata": {"annotations": {"a": "b"}}}, manager="five")
    elif step == "keep":
        await api.patch(kind, name, {"metadata": {"finalizers": ["example.com/mine"]}}, manager="five")
    elif step == "mark":
        if (api.get(kind, name) or {})["metadata"].get("finalizers"):
            await api.delete(kind, name)
    elif step == "resume" and kind == "jobs.batch":
        await api.patch(kind, name, {"spec": {"suspend": False}}, manager="five")
    elif step == "bind" and kind == "pods":
        pod = api.get(kind, name) or {}
        if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
            await api.objects.bind(found, ("default", name), "node", WriteOptions(tracked=False))


@given(script=scripts(), watched=st.booleans(), tracked=st.booleans())
@settings(max_examples=150, deadline=None)
def test_both_ways_lead_to_the_same(script: tuple[str, list[Any]], *, watched: bool, tracked: bool) -> None:
    kind, steps = script

    async def run() -> None:
        async with local_api(log_in_memory()) as api:
            short = api.kind(kind)
            if watched:
                api.objects.watched_here.add(short.resource)
            for name in ("short", "long"):
                made = {"metadata": {"name": name}, "spec": copy.deepcopy(SPECS[kind])}
                await api.create(kind, made, manager="one", tracked=tracked)
            for step in steps:
                if step == "second passes":
                    api.clock.advance(1)
                elif isinstance(step, str):
                    for name in ("short", "long"):
                        await do(api, kind, name, step)
                else:
                    how, body = step
                    found = await outcome(api, short, "short", body, how)
                    assert found == await outcome(api, on_the_long_way(short), "long", body, how)

    asyncio.run(run())


@pytest.mark.parametrize("kind", SPECS)
def test_only_those_who_are_trusted_and_not_recorded_take_the_short_way(kind: str) -> None:
    found = default_registry().by_name(kind)
    assert found is not None

    def is_simple(how: WriteOptions) -> bool:
        return statuses.is_simple(
            WriteTarget(found, "v1", ("default", "x"), how, "status"), PatchType.MERGE, {"status": {}}
        )

    assert is_simple(WriteOptions(trusted=True, tracked=False))
    assert not is_simple(WriteOptions(trusted=True))  # what the rules add to a status is not its author's
    assert not is_simple(WriteOptions(tracked=False))


@pytest.mark.parametrize("kind", SPECS)
def test_what_is_stored_needs_no_more_defaults(kind: str) -> None:
    """Neither from who made it nor from who changed it: a status is patched without asking for them again."""

    async def run() -> None:
        async with local_api() as api:
            await api.create(kind, {"metadata": {"name": "x"}, "spec": copy.deepcopy(SPECS[kind])})
            for step in ("annotate", "resume", "bind"):
                await do(api, kind, "x", step)
                stored = api.get(kind, "x")
                assert stored is not None
                completed = copy.deepcopy(stored)
                api.kind(kind).rules.default(completed)
                assert completed == stored

    asyncio.run(run())
