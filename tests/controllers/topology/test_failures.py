"""What the state of a node means for the workloads placed on it."""

from typing import Any

import pytest

from controllers.topology.test_ungating import HOST, workload
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.topology.failures import judge


def node(ready: str | None = "True", *taints: str) -> Manifest:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    return {"metadata": {"name": "a"}, "spec": spec, "status": {"conditions": conditions}}


def running(**more: Any) -> Manifest:
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "a"}, "status": {"phase": "Running"}, **more}


def bound_for_it() -> Manifest:
    return {"metadata": {"name": "q"}, "spec": {"nodeSelector": {HOST: "a"}}, "status": {"phase": "Pending"}}


def placed(*tolerations: dict[str, Any], host: str = "a") -> Manifest:
    made = workload({host: 1})
    made["spec"]["podSets"][0]["template"] = {"spec": {"tolerations": list(tolerations)}}
    return made


@pytest.mark.parametrize(
    ("owner", "machine", "pods", "lost", "stranded"),
    [
        pytest.param(placed(), node(), [], False, 0, id="a node that is well"),
        pytest.param(placed(), None, [running()], True, 0, id="a node that is gone"),
        pytest.param(placed(), node(None), [running()], True, 0, id="a node that never said it is ready"),
        pytest.param(placed(), node("False"), [running()], False, 0, id="not ready, but a pod runs on"),
        pytest.param(placed(), node("False"), [], True, 0, id="not ready, and no pod runs"),
        pytest.param(
            placed(),
            node("Unknown"),
            [running(metadata={"name": "p", "deletionTimestamp": "now"})],
            True,
            0,
            id="not ready, and its pod ends",
        ),
        pytest.param(placed(), node("True", "bad"), [], True, 0, id="a taint that is not tolerated"),
        pytest.param(placed(), node("True", "bad"), [running()], False, 0, id="such a taint while a pod runs on"),
        pytest.param(placed({"operator": "Exists"}), node("True", "bad"), [], False, 0, id="a taint that is tolerated"),
        pytest.param(
            placed({"operator": "Exists", "tolerationSeconds": 9}), node("True", "bad"), [], True, 0, id="not for long"
        ),
        pytest.param(placed(), node("True", "bad"), [bound_for_it()], True, 1, id="a pod that cannot get there"),
        pytest.param(placed(host="b"), node(), [bound_for_it()], False, 1, id="a pod that is late"),
    ],
)
def test_a_node_is_lost_when_pods_cannot_run_there(
    owner: Manifest,
    machine: Manifest | None,
    pods: list[Manifest],
    *,
    lost: bool,
    stranded: int,
) -> None:
    verdict = judge(owner, "a", machine, pods, lambda _: None)
    assert (verdict.lost, len(verdict.stranded)) == (lost, stranded)
