"""`kubectl logs` of pods whose containers write to files, as whoever runs them does."""

import time
from pathlib import Path

import pytest

from fairway.server.logs.entries import append
from fairway.server.logs.reading import log_path

from .hand import Hand
from .kubectl import Kubectl
from .manifests import pod

BEGIN = 1_794_818_000_000_000_000
"""Some moment in November 2026, in nanoseconds."""

SECOND = 1_000_000_000


class Running:
    """A pod on a node, its containers running, and a pen to write their logs with."""

    def __init__(self, hand: Hand, name: str, *containers: str) -> None:
        self._hand = hand
        self._pod = pod(name, *containers, labels={"app": "web"})
        self._pod["spec"]["nodeName"] = "here"
        self._containers = containers or ("main",)
        hand.make(self._pod)
        self._uid = hand.look(self._pod)["metadata"]["uid"]
        self.become({"running": {}})

    def become(self, state: dict[str, object], *, restarts: int = 0, last: dict[str, object] | None = None) -> None:
        statuses = [
            {
                "name": name,
                "image": name,
                "imageID": "",
                "ready": "running" in state,
                "restartCount": restarts,
                "state": state,
                "lastState": last or {},
            }
            for name in self._containers
        ]
        self._hand.change(self._pod, {"status": {"phase": "Running", "containerStatuses": statuses}}, "status")

    def write(self, text: str, container: str = "main", *, restart: int = 0, at: int = BEGIN) -> None:
        append(self._file(container, restart), at, "stdout", text.encode())

    def _file(self, container: str, restart: int) -> Path:
        return log_path(self._hand.server.state, self._hand.namespace, self._uid, container, restart)


ENDED: dict[str, object] = {"terminated": {"exitCode": 1}}


@pytest.fixture
def running(hand: Hand) -> Running:
    made = Running(hand, "web")
    for number in range(5):
        made.write(f"line {number}", at=BEGIN + number * SECOND)
    return made


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param("", ["line 0", "line 1", "line 2", "line 3", "line 4"], id="all"),
        pytest.param("--tail=2", ["line 3", "line 4"], id="the last lines"),
        pytest.param("--tail=0", [], id="no line"),
        pytest.param("--since-time=2026-11-16T08:33:23Z", ["line 3", "line 4"], id="since a moment"),
        pytest.param("--tail=1 --timestamps", ["2026-11-16T08:33:24.000000000Z line 4"], id="with times"),
        pytest.param("--limit-bytes=9", ["line 0", "li"], id="so many bytes"),
        pytest.param("-c main --tail=1", ["line 4"], id="of a container"),
    ],
)
def test_logs_show_the_part_that_is_asked_for(kubectl: Kubectl, running: Running, flags: str, want: list[str]) -> None:
    assert kubectl(f"logs web {flags}").splitlines() == want


def test_logs_since_a_while(kubectl: Kubectl, hand: Hand) -> None:
    made = Running(hand, "web")
    now = time.time_ns()
    made.write("long ago", at=now - 7200 * SECOND)
    made.write("just now", at=now - 60 * SECOND)

    assert kubectl("logs web --since=1h") == "just now\n"


def test_logs_follow_a_file_that_grows_until_the_container_ends(kubectl: Kubectl, running: Running) -> None:
    with kubectl.following("logs web --follow --tail=1") as followed:
        assert followed.line() == "line 4"
        running.write("line 5")
        assert followed.line() == "line 5"
        running.write("line 6")
        running.write("line 7")
        assert [followed.line(), followed.line()] == ["line 6", "line 7"]
        running.become(ENDED)
        assert followed.rest() == []


def test_logs_follow_from_before_the_first_line(kubectl: Kubectl, hand: Hand) -> None:
    made = Running(hand, "web")
    with kubectl.following("logs -f web", tells_requests=True) as followed:
        followed.until("/log?", "follow=true", "200 OK")
        made.write("first")
        assert followed.line() == "first"


def test_logs_of_the_time_before_the_restart(kubectl: Kubectl, running: Running) -> None:
    assert 'previous terminated container "main" in pod "web" not found' in kubectl.refused("logs web --previous")

    running.become({"running": {}}, restarts=1, last=ENDED)
    running.write("again", restart=1)

    assert kubectl("logs web") == "again\n"
    assert kubectl("logs web --previous --tail=1") == "line 4\n"


def test_logs_of_several_containers(kubectl: Kubectl, hand: Hand) -> None:
    made = Running(hand, "web", "main", "side")
    made.write("of main", "main")
    made.write("of side", "side")

    first = kubectl.run("logs web")

    assert first.output == "of main\n"
    assert 'Defaulted container "main" out of: main, side' in first.errors
    assert kubectl("logs web -c side") == "of side\n"
    assert sorted(kubectl("logs web --all-containers --prefix").splitlines()) == [
        "[pod/web/main] of main",
        "[pod/web/side] of side",
    ]


def test_logs_by_label(kubectl: Kubectl, hand: Hand) -> None:
    for name in ("one", "two"):
        Running(hand, name).write(f"of {name}")

    assert sorted(kubectl("logs -l app=web").splitlines()) == ["of one", "of two"]


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param("logs nobody", 'pods "nobody" not found', id="no such pod"),
        pytest.param("logs web -c nobody", "container nobody is not valid for pod web", id="no such container"),
        pytest.param("logs slow", 'container "main" in pod "slow" is waiting to start: Starting', id="not started"),
        pytest.param("logs web --tail=-7", "must be greater than or equal to -1", id="fewer lines than none"),
    ],
)
def test_logs_that_there_are_not(kubectl: Kubectl, hand: Hand, running: Running, command: str, want: str) -> None:
    if "slow" in command:
        Running(hand, "slow").become({"waiting": {"reason": "Starting"}})

    assert want in kubectl.refused(command)


def test_logs_of_a_pod_on_no_node_are_empty(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("waits"))

    assert kubectl("logs waits") == ""
