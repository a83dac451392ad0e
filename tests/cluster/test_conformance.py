"""Fairway on kube-apiserver decides as Kueue did: the recorded worlds of `tests/conformance`, through the real API.

A sample that has every kind of world (but the step `activate`) is played, each up to `SAMPLE_STEPS`; with
`FAIRWAY_WORLDS=all` all of them to their end (`make conformance-cluster`).
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.apiserver import ApiServer

from fairway.apis.kueue.configuration import CONFIG_KEY, CONFIG_MAP
from fairway.testing.conformance import Disagreement, read_worlds

from .controllers import Kubectl, controller, listed, namespace
from .worlds import Json, play

RECORDINGS = sorted((Path(__file__).parents[1] / "conformance" / "data").glob("*.jsonl.gz"))
CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
SAMPLE_STEPS = 10
SAMPLE_DEPTH = 2
"""Every kind is in so many worlds of the sample, if there are so many."""


@cache
def everything() -> list[Json]:
    return [{**world, "file": path.name} for path in RECORDINGS for world in read_worlds(path)]


TIMED = {31027, 31028}
"""Seeds of plain worlds that end otherwise, or never, unless freed quota wakes parked workloads only after a second."""


RACING = {
    False: {90, 200, 10012, 15013, 30201, 31033},
    True: {76, 116, 25010, 25012, 40212, 40217, 40260, 41000, 41030},
}
"""Seeds, plain and with fair sharing, whose outcome depends on whether evicted jobs stop at the same moment, which
requests to an API cannot: see docs/develop/conformance.md. They are played, and a difference is shown but allowed."""


def recorded(*, fair: bool) -> list[Json]:
    return [world for world in everything() if world["fairSharing"] is fair]


def chosen(*, fair: bool) -> list[Json]:
    worlds = recorded(fair=fair)
    return worlds if os.environ.get("FAIRWAY_WORLDS") == "all" else sample(worlds)


def sample(worlds: list[Json]) -> list[Json]:
    """Few worlds that have every kind."""
    steady = [world for world in worlds if world["seed"] not in RACING[world["fairSharing"]]]
    cut = [{**world, "trace": world["trace"][:SAMPLE_STEPS]} for world in steady]
    found = [world for world in cut if world["seed"] in TIMED]
    left = [(world, kinds(world)) for world in cut if world["seed"] not in TIMED]
    for _ in range(SAMPLE_DEPTH):
        missing = set[str]().union(*(has for _, has in left))
        while missing:
            best = max(left, key=lambda one: len(one[1] & missing))
            missing -= best[1]
            left.remove(best)
            found.append(best[0])
    return found


def kinds(world: Json) -> set[str]:
    """What occurs in a world: fields and policies of its objects, steps, states, evictions, flavors, fewer pods."""
    found = {one for manifest in world["objects"] for one in fields(manifest["spec"], manifest["kind"])}
    counts: dict[tuple[str, str], int] = {}
    for step in world["trace"]:
        ((verb, subject),) = step["do"].items()
        found.add(verb)
        if verb == "create":
            found.update(fields(subject["spec"], "Workload"))
            name = subject["metadata"]["name"]
            counts |= {(name, one["name"]): one["count"] for one in subject["spec"]["podSets"]}
        for name, outcome in step["expect"].items():
            found |= {outcome["state"], *outcome.get("evictions", ()), outcome.get("preempted", "")}
            for pod_set, assigned in outcome.get("assignments", {}).items():
                found.update(assigned["flavors"].values())
                if assigned["count"] < counts[name, pod_set]:
                    found.add("fewer pods than asked for")
    return found


def fields(value: Any, path: str) -> Iterator[str]:
    """The paths of all values; words of an enumeration with their value."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from fields(one, f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from fields(one, path)
    else:
        yield f"{path}={value}" if isinstance(value, str) and value[:1].isupper() else path


def forged(worlds: list[Json]) -> Json:
    """A copy of a world whose recording is wrong at the first admission."""
    world = min(worlds, key=admissions)
    name = world["namespace"]
    text = json.dumps(world).replace(f'"{name}"', '"forged"').replace(f'"{name}-', '"forged-')
    copy: Json = {**json.loads(text), "file": "a forged recording, which has to differ"}
    copy["trace"] = copy["trace"][: admissions(world) + 1]
    outcome = next(one for one in copy["trace"][-1]["expect"].values() if one["state"] == "admitted")
    outcome["state"] = "pending"
    return copy


def admissions(world: Json) -> int:
    """The step of the first admission."""
    states = [{one["state"] for one in step["expect"].values()} for step in world["trace"]]
    return next((number for number, found in enumerate(states) if "admitted" in found), len(states))


def test_the_sample_has_every_kind_of_world() -> None:
    played = [*sample(recorded(fair=False)), *sample(recorded(fair=True))]
    every = set[str]().union(*map(kinds, everything()))
    assert every - set[str]().union(*map(kinds, played)) == {"activate"}, "that comes later in all worlds that have it"


class Progress:
    """Says how far a long play is."""

    def __init__(self, total: int, capsys: pytest.CaptureFixture[str]) -> None:
        self._total = total
        self._capsys = capsys
        self._done = 0

    def ended(self, differences: list[Disagreement]) -> None:
        self._done += 1
        with self._capsys.disabled():
            for one in differences:
                print(f"\n{one}", end="")  # noqa: T201
            if differences or self._done % 20 == 0:
                print(f"\n{self._done} of {self._total} worlds played", flush=True)  # noqa: T201


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("conformance")) as running:
        yield running


@pytest.mark.parametrize("fair", [pytest.param(False, id="plain"), pytest.param(True, id="with fair sharing")])
def test_worlds_end_as_with_kueue(
    api: ApiServer,
    kubectl: Callable[[Path], Kubectl],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fair: bool,  # noqa: FBT001
) -> None:
    k, worlds = kubectl(api.kubeconfig), chosen(fair=fair)
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": "fairway-system"},
        "data": {CONFIG_KEY: CONFIGURATION + ("fairSharing: {}\n" if fair else "")},
    }
    k("apply", "-f", "-", given=json.dumps(listed([namespace("fairway-system"), config_map])))
    with controller(api.kubeconfig, tmp_path / "state", "fairway", k):
        wrong = forged(worlds)
        progress = Progress(len(worlds) + 1, capsys)
        found = asyncio.run(play(api.kubeconfig, [*worlds, wrong], progress.ended))

    assert {(one.step, one.field, one.got) for one in found.pop("forged")} >= {
        (len(wrong["trace"]) - 1, "state", "admitted")
    }
    differing = {world[0].seed: world for world in found.values() if world}
    wrong_ends = [str(one) for seed, world in differing.items() if seed not in RACING[fair] for one in world]
    assert wrong_ends == [], (
        f"{len(differing)} of {len(found)} worlds differ, {len(differing.keys() & RACING[fair])} may"
    )
