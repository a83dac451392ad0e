"""What comes next for a pod: its containers' lives in, starts and stops out."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.runner.pods.attempts import ContainerHistory, ContainerRun, End, lives_of
from fairway.runner.pods.planning import ContainerStart, ContainerStop, Health, PodObservation, PodPlan, decide
from fairway.runner.pods.restarts import delay_seconds, failures_after, is_restarted
from fairway.runner.pods.troubles import Trouble
from fairway.runner.processes import Ended, Process

from .worlds import container, pod

NOW = 10_000.0


def going(number: int = 0) -> ContainerHistory:
    return ContainerHistory(latest=ContainerRun(number=number, started_at=NOW - 5))


def asked(number: int = 0) -> ContainerHistory:
    return ContainerHistory(latest=ContainerRun(number=number))


def ended(
    code: int = 0, number: int = 0, *, ago: float = 0.0, ran: float = 5.0, lost: bool = False
) -> ContainerHistory:
    end = End(at=NOW - ago, exit_code=code, terminated={"exitCode": code}, lost=lost)
    return ContainerHistory(latest=ContainerRun(number=number, started_at=NOW - ago - ran, end=end))


def seen(manifest: Manifest, since: float = NOW - 5, **fields: Any) -> PodObservation:
    manifest["metadata"].setdefault("uid", "u")
    return PodObservation(pod=manifest, now=NOW, since=since, **{"lives": {}, **fields})


def starts(*names: str) -> tuple[ContainerStart, ...]:
    return tuple(ContainerStart(container=name, number=0) for name in names)


A, B = container("a"), container("b")
INIT, SECOND = container("i"), container("j")
SIDECAR = container("s", restartPolicy="Always")


@pytest.mark.parametrize(
    ("manifest", "lives", "want"),
    [
        pytest.param(pod("p", A, B), {}, PodPlan(starts=starts("a", "b")), id="containers start side by side"),
        pytest.param(pod("p", A), {"a": asked()}, PodPlan(), id="nothing is asked for twice"),
        pytest.param(pod("p", A), {"a": going()}, PodPlan(), id="nothing is done while it runs"),
        pytest.param(pod("p", A), {"a": ended(0)}, PodPlan(over=True), id="over when it succeeded"),
        pytest.param(pod("p", A), {"a": ended(1)}, PodPlan(over=True), id="over when it failed and is not restarted"),
        pytest.param(pod("p", A, B), {"a": ended(1), "b": going()}, PodPlan(), id="others run on when one fails"),
        pytest.param(
            pod("p", A, initContainers=[INIT, SECOND]), {}, PodPlan(starts=starts("i")), id="init containers come first"
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT, SECOND]),
            {"i": ended(0)},
            PodPlan(starts=starts("j")),
            id="one after the other",
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT, SECOND]),
            {"i": ended(0), "j": ended(0)},
            PodPlan(starts=starts("a")),
            id="then the containers",
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT]),
            {"i": ended(3)},
            PodPlan(over=True),
            id="a failed init container ends the pod",
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT], restartPolicy="Always"),
            {"i": ended(3)},
            PodPlan(starts=(ContainerStart(container="i", number=1, failures=1),)),
            id="unless it is restarted",
        ),
        pytest.param(
            pod("p", A, initContainers=[INIT], restartPolicy="Always"),
            {"i": ended(0), "a": going()},
            PodPlan(),
            id="one that is through is not restarted with the others",
        ),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR, INIT]),
            {"s": asked()},
            PodPlan(),
            id="a sidecar must run before others follow",
        ),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR, INIT]),
            {"s": going()},
            PodPlan(starts=starts("i")),
            id="then they follow",
        ),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR]),
            {"s": ended(0), "a": going()},
            PodPlan(starts=(ContainerStart(container="s", number=1, failures=1),)),
            id="a sidecar that ends is started again",
        ),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR]),
            {"s": going(), "a": ended(0)},
            PodPlan(stops=(ContainerStop(container="s", number=0, grace_seconds=30.0),)),
            id="a sidecar is stopped when the others are done",
        ),
        pytest.param(
            pod("p", A, initContainers=[SIDECAR]),
            {"s": ended(137), "a": ended(0)},
            PodPlan(over=True),
            id="then it is over",
        ),
        pytest.param(
            pod("p", A, restartPolicy="OnFailure"), {"a": ended(0)}, PodPlan(over=True), id="success is not restarted"
        ),
        pytest.param(
            pod("p", A, restartPolicy="OnFailure"),
            {"a": ended(1)},
            PodPlan(starts=(ContainerStart(container="a", number=1, failures=1),)),
            id="the first failure is restarted at once",
        ),
        pytest.param(
            pod("p", A, restartPolicy="Always"),
            {"a": ended(0, 2, ago=4)},
            PodPlan(again_seconds=16.0),
            id="the third end waits twenty seconds",
        ),
        pytest.param(
            pod("p", A, restartPolicy="Always"),
            {"a": ended(0, 2, ago=20)},
            PodPlan(starts=(ContainerStart(container="a", number=3, failures=3),)),
            id="and no longer",
        ),
        pytest.param(
            pod("p", A, restartPolicy="Always"),
            {"a": ended(1, 7, ran=601)},
            PodPlan(starts=(ContainerStart(container="a", number=8, failures=1),)),
            id="who ran for long is restarted at once",
        ),
        pytest.param(
            pod("p", A, restartPolicy="OnFailure"),
            {"a": ended(137, 7, lost=True)},
            PodPlan(starts=(ContainerStart(container="a", number=8, failures=1),)),
            id="who was lost is restarted at once",
        ),
        pytest.param(
            pod("p", A, activeDeadlineSeconds=60),
            {"a": going()},
            PodPlan(again_seconds=55.0),
            id="a deadline is looked after",
        ),
        pytest.param(
            pod("p", A, activeDeadlineSeconds=5),
            {"a": going()},
            PodPlan(stops=(ContainerStop(container="a", number=0, grace_seconds=30.0),), expired=True),
            id="and kept",
        ),
        pytest.param(
            pod("p", A, activeDeadlineSeconds=5),
            {"a": ended(0, ago=1)},
            PodPlan(over=True),
            id="not by who is done before",
        ),
    ],
)
def test_the_next_step(manifest: Manifest, lives: dict[str, ContainerHistory], want: PodPlan) -> None:
    assert decide(seen(manifest, lives=lives)) == want


def deleted(*, grace: int, at: str, **spec: Any) -> Manifest:
    manifest = pod("p", A, **spec)
    manifest["metadata"] |= {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace}
    return manifest


@pytest.mark.parametrize(
    ("manifest", "lives", "want"),
    [
        pytest.param(
            deleted(grace=7, at="1970-01-01T02:46:47Z"),
            {"a": going()},
            PodPlan(stops=(ContainerStop(container="a", number=0, grace_seconds=7.0),)),
            id="it has the time that the deletion grants",
        ),
        pytest.param(
            deleted(grace=60, at="1970-01-01T02:46:45Z"),
            {"a": going()},
            PodPlan(stops=(ContainerStop(container="a", number=0, grace_seconds=6.0),)),
            id="of which some is over after a restart of the server",
        ),
        pytest.param(
            deleted(grace=0, at="1970-01-01T02:46:40Z"),
            {"a": going()},
            PodPlan(stops=(ContainerStop(container="a", number=0, grace_seconds=2.0),)),
            id="two seconds in any case",
        ),
        pytest.param(
            deleted(grace=30, at="1970-01-01T02:47:10Z"), {}, PodPlan(over=True), id="nothing is started any more"
        ),
        pytest.param(
            deleted(grace=30, at="1970-01-01T02:47:10Z", restartPolicy="Always"),
            {"a": ended(1)},
            PodPlan(over=True),
            id="nor restarted",
        ),
    ],
)
def test_a_pod_that_is_deleted_ends(manifest: Manifest, lives: dict[str, ContainerHistory], want: PodPlan) -> None:
    assert decide(seen(manifest, lives=lives)) == want


def test_a_sidecar_with_a_startup_probe_is_waited_for() -> None:
    manifest = pod("p", A, initContainers=[SIDECAR])
    starting = {"s": Health(started=False, ready=False)}
    assert decide(seen(manifest, lives={"s": going()}, health=starting)) == PodPlan()


def test_a_container_in_trouble_is_not_tried_while_others_are() -> None:
    troubles = {"a": Trouble(reason="CreateContainerConfigError", message="no")}
    assert decide(seen(pod("p", A, B), troubles=troubles)) == PodPlan(starts=starts("b"))


def test_what_is_left_of_a_pod_whose_end_is_written_is_stopped() -> None:
    manifest = pod("p", A)
    manifest["status"] = {"phase": "Failed"}
    assert decide(seen(manifest, lives={"a": going()})).stops == (
        ContainerStop(container="a", number=0, grace_seconds=30.0),
    )
    assert decide(seen(manifest, lives={"a": ended(1)})).over


@pytest.mark.parametrize(
    ("policy", "own", "rules", "code", "init", "want"),
    [
        pytest.param("Always", None, [], 0, False, True, id="always, also after success"),
        pytest.param("OnFailure", None, [], 0, False, False, id="on failure, not after success"),
        pytest.param("OnFailure", None, [], 2, False, True, id="on failure, after a failure"),
        pytest.param("Never", None, [], 2, False, False, id="never"),
        pytest.param("Always", None, [], 0, True, False, id="an init container only after a failure"),
        pytest.param("Always", None, [], 2, True, True, id="an init container after a failure"),
        pytest.param("Never", "Always", [], 0, True, True, id="a sidecar, whatever the pod says"),
        pytest.param("Never", "OnFailure", [], 1, False, True, id="the container's own policy counts"),
        pytest.param(
            "Never", "Never", [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}], 42, False, True,
            id="a rule for this exit code",
        ),
        pytest.param(
            "Never", "Never", [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [42]}}], 42, False,
            False, id="a rule for all others",
        ),
    ],
)  # fmt: skip
def test_who_is_started_again(
    policy: str,
    own: str | None,
    rules: list[dict[str, Any]],
    code: int,
    init: bool,  # noqa: FBT001 - of a table
    want: bool,  # noqa: FBT001 - of a table
) -> None:
    part = container("a", **({"restartPolicy": own} if own else {}), restartPolicyRules=rules)
    assert is_restarted(part, {"restartPolicy": policy}, code, init=init) is want


def test_the_wait_doubles_from_ten_seconds_to_five_minutes() -> None:
    assert [delay_seconds(failures) for failures in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert delay_seconds(10_000) == 300


def test_ends_in_a_row_are_counted() -> None:
    crashed = ended(1, 5).latest
    assert crashed is not None
    assert failures_after(crashed, 2) == 2
    assert failures_after(crashed, None) == 5, "who was started anew takes all of them for failures"


def written(state: dict[str, Any], restarts: int = 0, last: dict[str, Any] | None = None) -> Manifest:
    manifest = pod("p", A)
    manifest["metadata"]["uid"] = "u"
    status = {"name": "a", "state": state, "lastState": last or {}, "restartCount": restarts}
    manifest["status"] = {"containerStatuses": [status]}
    return manifest


def process(number: int, **fields: Any) -> dict[str, dict[int, Process]]:
    return {"a": {number: Process(id=f"u/a/{number}", started_at=NOW - 9, **fields)}}


TERMINATED = {
    "exitCode": 3,
    "reason": "Error",
    "startedAt": "1970-01-01T00:00:05Z",
    "finishedAt": "1970-01-01T00:00:09Z",
}


@pytest.mark.parametrize(
    ("manifest", "processes", "number", "code"),
    [
        pytest.param(pod("p", A), {}, None, None, id="nobody knows of it: it was never started"),
        pytest.param(pod("p", A), process(0), 0, None, id="the supervisor runs it"),
        pytest.param(pod("p", A), process(0, ended=Ended(at=NOW, exit_code=4)), 0, 4, id="the supervisor saw it end"),
        pytest.param(pod("p", A), process(0, ended=Ended(at=NOW, signal=15)), 0, 143, id="by a signal"),
        pytest.param(pod("p", A), process(0, ended=Ended(at=NOW, error="no such file")), 0, 128, id="before it began"),
        pytest.param(pod("p", A), process(0, ended=Ended(at=NOW, lost=True)), 0, 137, id="nobody saw it end"),
        pytest.param(written({"terminated": TERMINATED}), {}, 0, 3, id="its end is written"),
        pytest.param(
            written({"terminated": TERMINATED}), process(0, ended=Ended(at=NOW, exit_code=4)), 0, 3,
            id="what was written first stays",
        ),
        pytest.param(
            written({"waiting": {}}, 2, {"terminated": TERMINATED}), {}, 2, 3, id="its end is written while it waits"
        ),
        pytest.param(
            written({"waiting": {}}, 2, {"terminated": TERMINATED}), process(3), 3, None, id="it was started again"
        ),
        pytest.param(written({"running": {"startedAt": "1970-01-01T00:00:05Z"}}, 1), {}, 1, 137,
            id="it ran, and the supervisor knows nothing of it: lost"),
        pytest.param(written({"running": {"startedAt": "1970-01-01T00:00:05Z"}}, 1), process(1), 1, None,
            id="it ran and runs on"),
        pytest.param(written({"waiting": {"reason": "ContainerCreating"}}), process(0), 0, None,
            id="it was about to start, and has"),
    ],
)  # fmt: skip
def test_two_witnesses_tell_how_far_a_container_has_come(
    manifest: Manifest, processes: Any, number: int | None, code: int | None
) -> None:
    manifest["metadata"]["uid"] = "u"
    life = lives_of(manifest, processes, NOW)["a"]
    assert (life.latest.number if life.latest else None) == number
    assert (life.end.exit_code if life.end else None) == code
