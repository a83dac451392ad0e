"""GPUs by index: never one for two pods, and known again after a restart."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairway.runner.devices import Devices, NotEnough, asked_by, models_of, share_of, wanted_by

from .worlds import container, pod


def gpus(name: str, count: int, **fields: Any) -> dict[str, Any]:
    return container(name, resources={"limits": {"nvidia.com/gpu": str(count)}}, **fields)


@pytest.mark.parametrize(
    ("inits", "mains", "want"),
    [
        pytest.param([], [container("a")], 0, id="none asked for"),
        pytest.param([], [gpus("a", 2), gpus("b", 1)], 3, id="containers run side by side"),
        pytest.param([gpus("i", 4), gpus("j", 1)], [gpus("a", 2)], 4, id="init containers one after the other"),
        pytest.param([gpus("s", 1, restartPolicy="Always")], [gpus("a", 2)], 3, id="sidecars beside all that follow"),
        pytest.param(
            [gpus("s", 1, restartPolicy="Always"), gpus("i", 3)], [gpus("a", 2)], 4, id="a sidecar beside an init"
        ),
    ],
)
def test_a_pod_needs_as_many_as_run_at_once(inits: list[Any], mains: list[Any], want: int) -> None:
    assert wanted_by(pod("p", *mains, initContainers=inits)) == want


_containers = st.lists(st.integers(0, 3), min_size=1, max_size=3)


@given(mains=_containers, inits=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=3))
def test_containers_that_run_together_share_no_gpu(mains: list[int], inits: list[tuple[int, bool]]) -> None:
    manifest = pod(
        "p",
        *(gpus(f"m{position}", count) for position, count in enumerate(mains)),
        initContainers=[
            gpus(f"i{position}", count, **({"restartPolicy": "Always"} if stays else {}))
            for position, (count, stays) in enumerate(inits)
        ],
    )
    given_to_pod = tuple(range(10, 10 + wanted_by(manifest)))
    sidecars = [f"i{position}" for position, (_, stays) in enumerate(inits) if stays]
    together = [share_of(manifest, name, given_to_pod) for name in [*sidecars, *(f"m{n}" for n in range(len(mains)))]]
    flat = [index for share in together for index in share]
    assert len(flat) == len(set(flat))
    for part in (*manifest["spec"]["initContainers"], *manifest["spec"]["containers"]):
        assert len(share_of(manifest, part["name"], given_to_pod)) == asked_by(part), "everybody gets what it asks for"


def test_of_several_models_only_those_that_are_asked_for_are_given(tmp_path: Path) -> None:
    devices = Devices(6, ("v100",) * 4 + ("t4",) * 2)

    assert devices.take("a", 2, tmp_path / "a", {"t4"}) == (4, 5)
    assert devices.take("b", 1, tmp_path / "b", {"v100"}) == (0,)
    assert devices.take("c", 3, tmp_path / "c") == (1, 2, 3)
    with pytest.raises(NotEnough):
        devices.take("d", 1, tmp_path / "d", {"t4"})


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, set(), id="any"),
        pytest.param({"nodeSelector": {"skypilot.co/accelerator": "t4"}}, {"t4"}, id="a node selector"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "skypilot.co/accelerator", "operator": op, "values": values}
                                    ]
                                }
                                for op, values in (("In", ["t4", "l4"]), ("DoesNotExist", []))
                            ]
                        }
                    }
                }
            },
            {"t4", "l4"},
            id="an affinity, as managed jobs have it",
        ),
    ],
)
def test_the_models_that_a_pod_asks_for(spec: dict[str, Any], want: set[str]) -> None:
    assert models_of(pod("p", **spec)) == want


class Handing(RuleBasedStateMachine):
    """Pods come and go, and the server is started anew in between."""

    @initialize()
    def begin(self) -> None:
        self.place = TemporaryDirectory()
        self.devices = Devices(4)
        self.holding: dict[str, tuple[int, ...]] = {}
        self.count = 0

    @rule(wanted=st.integers(0, 5))
    def come(self, wanted: int) -> None:
        self.count += 1
        uid = f"pod-{self.count}"
        free = 4 - sum(len(indices) for indices in self.holding.values())
        if wanted > free:
            with pytest.raises(NotEnough):
                self.devices.take(uid, wanted, Path(self.place.name) / uid)
            return
        taken = self.devices.take(uid, wanted, Path(self.place.name) / uid)
        assert len(taken) == wanted
        if wanted:
            self.holding[uid] = taken

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.holding)))
        assert self.devices.take(uid, len(self.holding[uid]), Path(self.place.name) / uid) == self.holding[uid]

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.holding)))
        assert self.devices.release(uid)
        del self.holding[uid]

    @rule()
    def restart(self) -> None:
        self.devices = Devices(4)
        for uid in self.holding:
            self.devices.restore(uid, Path(self.place.name) / uid)

    @invariant()
    def nobody_shares(self) -> None:
        held = [index for indices in self.devices.holders.values() for index in indices]
        assert len(held) == len(set(held))
        assert all(0 <= index < 4 for index in held)
        assert dict(self.devices.holders) == self.holding

    def teardown(self) -> None:
        self.place.cleanup()


TestHanding = Handing.TestCase
TestHanding.settings = settings(max_examples=30, stateful_step_count=25)
