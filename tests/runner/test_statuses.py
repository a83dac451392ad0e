"""What a pod's status says, at each point of its life."""

from typing import Any

import pytest
from msgspec import structs

from fairway.apis.machinery.kind import Manifest
from fairway.runner.pods.attempts import ContainerHistory, ContainerRun
from fairway.runner.pods.planning import Health, PodObservation, decide
from fairway.runner.pods.statuses import duration, status_of, status_patch
from fairway.runner.pods.troubles import Trouble

from .test_planning import INIT, NOW, SIDECAR, A, B, asked, deleted, ended, going
from .worlds import pod

PENDING, RUNNING, DONE, FAILED = "Pending", "Running", "Succeeded", "Failed"


def status(manifest: Manifest, lives: dict[str, ContainerHistory], **fields: Any) -> Manifest:
    manifest["metadata"].setdefault("uid", "u")
    seen = PodObservation(pod=manifest, lives=lives, now=NOW, since=fields.pop("since", NOW - 5), **fields)
    return status_of(seen, decide(seen))


def words(found: Manifest) -> dict[str, str]:
    """Each container's state in one or two words."""
    both = [*found.get("initContainerStatuses", ()), *found["containerStatuses"]]
    return {one["name"]: _word(one["state"]) for one in both}


def _word(state: Manifest) -> str:
    (kind, details), *_ = state.items()
    return f"{kind} {details['reason']}" if details.get("reason") else str(kind)


def conditions(found: Manifest) -> dict[str, str]:
    return {one["type"]: f"{one['status']} {one.get('reason', '')}".strip() for one in found["conditions"]}


@pytest.mark.parametrize(
    ("manifest", "lives", "phase", "states", "ready"),
    [
        pytest.param(
            pod("p", A), {"a": asked()}, PENDING, {"a": "waiting ContainerCreating"}, "False ContainersNotReady",
            id="about to start",
        ),
        pytest.param(pod("p", A), {"a": going()}, RUNNING, {"a": "running"}, "True", id="running"),
        pytest.param(
            pod("p", A, B), {"a": going(), "b": asked()}, PENDING, {"a": "running", "b": "waiting ContainerCreating"},
            "False ContainersNotReady", id="pending until all have started",
        ),
        pytest.param(
            pod("p", A, B), {"a": going(), "b": ended(1)}, RUNNING, {"a": "running", "b": "terminated"},
            "False ContainersNotReady", id="running while one still does",
        ),
        pytest.param(pod("p", A), {"a": ended(0)}, DONE, {"a": "terminated"}, "False PodCompleted", id="succeeded"),
        pytest.param(pod("p", A), {"a": ended(7)}, FAILED, {"a": "terminated"}, "False PodFailed", id="failed"),
        pytest.param(
            pod("p", A, B), {"a": ended(0), "b": ended(1)}, FAILED, {"a": "terminated", "b": "terminated"},
            "False PodFailed", id="failed if one of them did",
        ),
        pytest.param(
            pod("p", A, restartPolicy="Always"), {"a": ended(1, 3)}, RUNNING, {"a": "waiting CrashLoopBackOff"},
            "False ContainersNotReady", id="waiting to be started again",
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT]), {"i": going()}, PENDING,
            {"i": "running", "a": "waiting PodInitializing"}, "False ContainersNotReady", id="initializing",
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT]), {"i": ended(0), "a": going()}, RUNNING,
            {"i": "terminated", "a": "running"}, "True", id="initialized",
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT]), {"i": ended(2)}, FAILED,
            {"i": "terminated", "a": "waiting PodInitializing"}, "False PodFailed", id="failed to initialize",
        ),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR]), {"s": going(), "a": ended(0)}, RUNNING,
            {"s": "running", "a": "terminated"}, "False ContainersNotReady", id="its sidecar still ends",
        ),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR]), {"s": ended(143), "a": ended(0)}, DONE,
            {"s": "terminated", "a": "terminated"}, "False PodCompleted", id="how a sidecar ended does not matter",
        ),
        pytest.param(
            deleted(grace=30, at="1970-01-01T02:47:10Z"), {"a": going()}, RUNNING, {"a": "running"}, "True",
            id="terminating",
        ),
        pytest.param(
            deleted(grace=30, at="1970-01-01T02:47:10Z"), {"a": ended(143)}, FAILED, {"a": "terminated"},
            "False PodFailed", id="terminated",
        ),
        pytest.param(
            deleted(grace=30, at="1970-01-01T02:47:10Z", restartPolicy="Always"), {"a": ended(0)}, DONE,
            {"a": "terminated"}, "False PodCompleted", id="terminated, and well",
        ),
    ],
)  # fmt: skip
def test_phase_and_states(
    manifest: Manifest, lives: dict[str, ContainerHistory], phase: str, states: dict[str, str], ready: str
) -> None:
    found = status(manifest, lives)
    assert (found["phase"], words(found), conditions(found)["Ready"]) == (phase, states, ready)


def told(life: ContainerHistory) -> ContainerHistory:
    """The same, but it had been told to stop."""
    assert life.latest is not None
    assert life.latest.end is not None
    end = structs.replace(life.latest.end, told=True)
    return structs.replace(life, latest=structs.replace(life.latest, end=end))


@pytest.mark.parametrize(
    ("manifest", "lives", "want"),
    [
        pytest.param(pod("p", A), {"a": ended(0)}, None, id="done by itself"),
        pytest.param(pod("p", A), {"a": ended(7)}, None, id="failed by itself"),
        pytest.param(pod("p", A), {"a": told(ended(0))}, "Stopped", id="ended well when it was told"),
        pytest.param(pod("p", A), {"a": told(ended(143))}, "Stopped", id="failed when it was told"),
        pytest.param(pod("p", A, initContainers=[INIT]), {"i": told(ended(143))}, "Stopped", id="told before it began"),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR]), {"s": told(ended(143)), "a": ended(0)}, None, id="a sidecar was told"
        ),
    ],
)
def test_a_pod_that_was_told_to_end_says_so(
    manifest: Manifest, lives: dict[str, ContainerHistory], want: str | None
) -> None:
    assert status(manifest, lives).get("reason") == want


def test_a_whole_status() -> None:
    manifest = pod("p", A)
    manifest["metadata"] |= {"uid": "u", "generation": 2}
    manifest["status"] = {
        "phase": "Pending",
        "qosClass": "BestEffort",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
    }
    now = "1970-01-01T02:46:40Z"

    def condition(kind: str) -> Manifest:
        return {"type": kind, "status": "True", "lastTransitionTime": now}

    assert status(manifest, {"a": going()}) == {
        "phase": "Running",
        "qosClass": "BestEffort",
        "observedGeneration": 2,
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "startTime": "1970-01-01T02:46:35Z",
        "containerStatuses": [
            {
                "name": "a",
                "state": {"running": {"startedAt": "1970-01-01T02:46:35Z"}},
                "lastState": {},
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": "busybox",
                "imageID": "not used: the command runs directly on this machine",
                "containerID": "fairway://u/a/0",
            }
        ],
        "conditions": [
            condition("PodReadyToStartContainers"),
            condition("Initialized"),
            condition("Ready"),
            condition("ContainersReady"),
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"},
        ],
    }


def test_the_conditions_of_a_pod_that_is_over() -> None:
    assert conditions(status(pod("p", A), {"a": ended(0)})) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True PodCompleted",
        "Ready": "False PodCompleted",
        "ContainersReady": "False PodCompleted",
        "PodScheduled": "True",
    }


def test_a_transition_keeps_its_time_while_the_status_is_the_same() -> None:
    manifest = pod("p", A)
    manifest["status"] = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"}]
    }
    times = {one["type"]: one["lastTransitionTime"] for one in status(manifest, {"a": going()})["conditions"]}
    assert times["Ready"] == "1970-01-01T00:00:01Z"
    assert times["Initialized"] == "1970-01-01T02:46:40Z"


def test_a_back_off_says_how_long_it_takes() -> None:
    found = status(pod("p", A, restartPolicy="Always"), {"a": ended(1, 4)})
    (container,) = found["containerStatuses"]
    assert container["state"]["waiting"]["message"] == ("back-off 1m20s restarting failed container=a pod=p_default(u)")
    assert container["restartCount"] == 4
    assert container["lastState"] == {"terminated": {"exitCode": 1}}
    assert [duration(seconds) for seconds in (0, 10, 60, 300)] == ["0s", "10s", "1m0s", "5m0s"]


def test_trouble_is_why_a_container_waits() -> None:
    troubles = {"a": Trouble(reason="CreateContainerConfigError", message='secret "x" not found')}
    found = status(pod("p", A), {}, troubles=troubles)
    assert found["phase"] == "Pending"
    assert found["containerStatuses"][0]["state"] == {
        "waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}
    }


def test_a_pod_that_had_its_time_says_so() -> None:
    before = status(pod("p", A, activeDeadlineSeconds=3), {"a": ended(143, ago=8)}, since=NOW - 9)
    assert before["phase"] == "Failed"
    assert "reason" not in before, "it ended before anybody stopped it"
    found = status(pod("p", A, activeDeadlineSeconds=3), {"a": ended(143)}, since=NOW - 9)
    assert found["phase"] == "Failed"
    assert (found["reason"], found["message"]) == (
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )


def test_a_pod_whose_processes_were_lost_was_disrupted() -> None:
    found = status(pod("p", A), {"a": ended(137, lost=True)})
    assert found["phase"] == "Failed"
    assert conditions(found)["DisruptionTarget"] == "True TerminationByKubelet"
    assert "DisruptionTarget" not in conditions(status(pod("p", A), {"a": ended(137)}))


def test_a_container_that_never_came_to_run_before_the_deletion_is_unknown() -> None:
    manifest = deleted(grace=30, at="1970-01-01T02:47:10Z")
    manifest["spec"]["containers"] = [A, B]
    assert words(status(manifest, {"a": ended(143)})) == {"a": "terminated", "b": "terminated ContainerStatusUnknown"}


def test_readiness_is_what_probes_and_gates_say() -> None:
    unready = {"a": Health(started=True, ready=False)}
    found = status(pod("p", A), {"a": going()}, health=unready)
    assert found["containerStatuses"][0]["ready"] is False
    assert conditions(found)["Ready"] == "False ContainersNotReady"
    gated = pod("p", A, readinessGates=[{"conditionType": "x.org/warm"}])
    assert conditions(status(gated, {"a": going()}))["Ready"] == "False ReadinessGatesNotReady"
    gated["status"] = {
        "conditions": [{"type": "x.org/warm", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]
    }
    assert conditions(status(gated, {"a": going()}))["Ready"] == "True"


def test_a_restart_that_was_asked_for_still_shows_the_end_before() -> None:
    life = ContainerHistory(latest=ContainerRun(number=3), previous={"exitCode": 9})
    (container,) = status(pod("p", A, restartPolicy="Always"), {"a": life})["containerStatuses"]
    assert container["restartCount"] == 2
    assert container["lastState"] == {"terminated": {"exitCode": 9}}


def test_only_what_changed_is_written() -> None:
    assert status_patch({"phase": "Running", "qosClass": "x"}, {"phase": "Failed", "qosClass": "x"}) == {
        "phase": "Failed"
    }
