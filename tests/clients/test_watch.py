"""Commands that go on until something happens: `get --watch` and `wait`."""

import pytest

from .hand import Hand
from .kubectl import Kubectl
from .manifests import cluster_queue, condition, config, pod, workload


def test_a_watch_sees_an_object_appear_change_and_vanish(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("first"))
    with kubectl.following("get pods --watch --output-watch-events") as watched:
        head = watched.line().split()
        shown = [watched.line().split()[:4]]
        hand.make(pod("second"))
        shown.append(watched.line().split()[:4])
        hand.change(pod("second"), {"status": {"phase": "Running"}}, "status")
        shown.append(watched.line().split()[:4])
        hand.remove(pod("second"))
        shown.append(watched.line().split()[:4])

    assert head == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert shown == [
        ["ADDED", "first", "0/1", "Pending"],
        ["ADDED", "second", "0/1", "Pending"],
        ["MODIFIED", "second", "0/1", "Running"],
        ["DELETED", "second", "0/1", "Running"],
    ]


def test_a_watch_with_a_selector_sees_only_what_matches(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("out"), config("in", labels={"pick": "me"}))
    with kubectl.following("get configmaps --watch -l pick=me --output-watch-events") as watched:
        assert [watched.line().split()[:2], watched.line().split()[:2]] == [["EVENT", "NAME"], ["ADDED", "in"]]
        hand.change(config("out"), {"metadata": {"labels": {"pick": "me"}}})
        assert watched.line().split()[:2] == ["ADDED", "out"]
        hand.change(config("in"), {"metadata": {"labels": {"pick": "no"}}})
        assert watched.line().split()[:2] == ["DELETED", "in"]


def test_a_watch_of_one_object_sees_nothing_of_others(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("mine", {"n": "0"}), config("other"))
    with kubectl.following("get configmap mine --watch -o", "jsonpath={.data.n}{'\\n'}") as watched:
        assert watched.line() == "0"
        hand.change(config("other"), {"data": {"n": "1"}})
        hand.change(config("mine"), {"data": {"n": "2"}})
        assert watched.line() == "2"


def test_a_watch_of_workloads_prints_their_columns(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(workload("w"))
    with kubectl.following("get workloads --watch") as watched:
        assert watched.line().split() == ["NAME", "QUEUE", "RESERVED", "IN", "ADMITTED", "FINISHED", "AGE"]
        assert watched.line().split()[:2] == ["w", "queue"]
        finished = condition("Finished", reason="Succeeded", message="done")
        hand.change(workload("w"), {"status": {"conditions": [finished]}}, "status")
        assert watched.line().split()[:3] == ["w", "queue", "True"]


def test_wait_ends_when_the_condition_comes(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("slow"))
    with kubectl.following("wait pod/slow --for=condition=Ready --timeout=60s", tells_requests=True) as waiting:
        waiting.until("watch=true", "200 OK")
        hand.change(pod("slow"), {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status")
        assert "pod/slow condition met" in waiting.rest()


@pytest.mark.parametrize(
    "awaited",
    [
        pytest.param("--for=condition=Ready", id="condition is true"),
        pytest.param("--for=condition=Started=false", id="condition is false"),
        pytest.param("--for=jsonpath={.status.phase}=Running", id="field has a value"),
        pytest.param("--for=jsonpath={.status.podIP}", id="field is there"),
    ],
)
def test_wait_ends_at_once_where_it_holds_already(kubectl: Kubectl, hand: Hand, awaited: str) -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Started", "status": "False"}]
    hand.make(pod("ready"))
    hand.change(pod("ready"), {"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions}}, "status")

    assert kubectl("wait pod/ready --timeout=60s", awaited) == "pod/ready condition met\n"


def test_wait_for_deletion_ends_when_the_object_is_gone(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("going", finalizers=["example.com/hold"]))
    hand.remove(config("going"))
    with kubectl.following("wait cm/going --for=delete --timeout=60s", tells_requests=True) as waiting:
        waiting.until("watch=true", "200 OK")
        hand.change(config("going"), {"metadata": {"finalizers": None}})
        assert "configmap/going condition met" in waiting.rest()


def test_wait_gives_up_and_says_so(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(cluster_queue(kubectl.namespace))

    said = kubectl.refused(f"wait clusterqueue/{kubectl.namespace} --for=condition=Active --timeout=0.2s")

    assert said == f"error: timed out waiting for the condition on clusterqueues/{kubectl.namespace}"
