"""`kubectl delete`: at once, after finalizers, with dependents or without them."""

import pytest

from fairway.apis.machinery.kind import Manifest

from .hand import Hand
from .kubectl import Kubectl
from .manifests import config, job, named, pod, workload


def owner_reference(owner: Manifest) -> Manifest:
    """What names an object, as it is stored, as somebody's owner."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }


@pytest.fixture
def family(hand: Hand) -> tuple[Manifest, Manifest]:
    """A config map and another that it owns."""
    owner = config("owner")
    hand.make(owner)
    child = config("child", ownerReferences=[owner_reference(hand.look(owner))])
    hand.make(child)
    return owner, child


def test_delete_says_what_went(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("a"), config("b"), workload("w"))

    said = kubectl("delete configmap/a configmap/b workload/w").splitlines()

    assert [line.partition(" deleted")[0] for line in said] == [
        'configmap "a"',
        'configmap "b"',
        'workload.kueue.x-k8s.io "w"',
    ]
    assert kubectl("get cm,workloads -o name") == ""


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param("--all", [], id="all"),
        pytest.param("-l color=red", ["configmap/b"], id="by label"),
        pytest.param("--field-selector metadata.name=b", ["configmap/a", "configmap/c"], id="by field"),
        pytest.param("a nobody --ignore-not-found", ["configmap/b", "configmap/c"], id="missing ones passed over"),
    ],
)
def test_delete_of_many(kubectl: Kubectl, hand: Hand, flags: str, want: list[str]) -> None:
    red = {"labels": {"color": "red"}}
    hand.make(config("a", **red), config("b"), config("c", **red))

    kubectl(f"delete configmaps {flags}")

    assert kubectl("get configmaps -o name").split() == want


def test_delete_of_what_is_not_there_is_an_error(kubectl: Kubectl) -> None:
    assert kubectl.refused("delete cm nobody") == 'Error from server (NotFound): configmaps "nobody" not found'


def test_an_object_with_finalizers_stays_until_they_are_taken_away(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("kept", finalizers=["example.com/first", "example.com/second"]))
    with kubectl.following("delete configmap kept", tells_requests=True) as deleting:
        deleting.until("watch=true", "200 OK")
        terminating = hand.look(config("kept"))["metadata"]
        assert terminating["deletionTimestamp"]
        kubectl("patch cm kept --type=json -p", '[{"op":"remove","path":"/metadata/finalizers/0"}]')
        assert hand.look(config("kept"))["metadata"]["finalizers"] == ["example.com/second"]
        kubectl("patch cm kept --type=merge -p", '{"metadata":{"finalizers":[]}}')
        deleting.rest()

    assert hand.look(config("kept")) is None


def test_nothing_is_added_to_what_is_going(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("going", finalizers=["example.com/hold"]))
    kubectl("delete cm going --wait=false")

    said = kubectl.refused(
        "patch cm going --type=merge -p", '{"metadata":{"finalizers":["example.com/hold","example.com/new"]}}'
    )

    assert "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted" in said


def test_delete_without_waiting_leaves_it_terminating(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("web", finalizers=["example.com/hold"]))

    kubectl("delete pod web --wait=false")

    assert kubectl.table("get pods")[1][2] == "Terminating"


def test_a_pod_on_a_node_has_its_grace_period_unless_forced(kubectl: Kubectl, hand: Hand) -> None:
    """Whoever runs the pod deletes it for good when its processes have ended."""
    running = pod("web")
    running["spec"] |= {"nodeName": "n", "terminationGracePeriodSeconds": 77}
    hand.make(running)

    kubectl("delete pod web --wait=false")
    assert hand.look(running)["metadata"]["deletionGracePeriodSeconds"] == 77

    said = kubectl.run("delete pod web --grace-period=0 --force")
    assert "Immediate deletion does not wait for confirmation" in said.errors
    assert hand.look(running) is None


def test_dependents_go_in_the_background(kubectl: Kubectl, hand: Hand, family: tuple[Manifest, Manifest]) -> None:
    owner, child = family

    kubectl("delete cm owner --cascade=background")
    kubectl("wait cm/child --for=delete --timeout=60s")

    assert hand.look(owner) is None
    assert hand.look(child) is None


def test_in_the_foreground_the_owner_goes_last(kubectl: Kubectl, hand: Hand, family: tuple[Manifest, Manifest]) -> None:
    owner, child = family
    hand.change(child, {"metadata": {"finalizers": ["example.com/hold"]}})

    with kubectl.following("delete cm owner --cascade=foreground", tells_requests=True) as deleting:
        deleting.until("watch=true", "200 OK")
        assert hand.look(owner)["metadata"]["finalizers"] == ["foregroundDeletion"]
        kubectl("wait cm/child --timeout=60s", "--for=jsonpath={.metadata.deletionTimestamp}")
        hand.change(child, {"metadata": {"finalizers": None}})
        deleting.rest()

    assert (hand.look(owner), hand.look(child)) == (None, None)


def test_orphans_stay_and_forget_their_owner(kubectl: Kubectl, hand: Hand, family: tuple[Manifest, Manifest]) -> None:
    owner, child = family

    kubectl("delete cm owner --cascade=orphan")

    assert hand.look(owner) is None
    assert "ownerReferences" not in hand.look(child)["metadata"]


def test_the_workload_of_a_job_goes_with_it(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(job("j", suspend=True))
    mine = workload("job-j")
    mine["metadata"]["ownerReferences"] = [owner_reference(hand.look(job("j")))]
    hand.make(mine)

    assert kubectl("delete job j").startswith('job.batch "j" deleted')
    kubectl("wait workload/job-j --for=delete --timeout=60s")

    assert hand.look(mine) is None


def test_a_namespace_takes_everything_with_it(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("a"), pod("b"), job("c"), workload("d"))

    kubectl(f"delete namespace {kubectl.namespace}")

    assert hand.look(named("Namespace", kubectl.namespace)) is None
    assert hand.look(workload("d")) is None
    assert "not found" in kubectl.refused("create -f -", given=config("late"))


def test_a_namespace_waits_for_what_holds_on(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("held", finalizers=["example.com/hold"]))
    with kubectl.following(f"delete namespace {kubectl.namespace}", tells_requests=True) as deleting:
        deleting.until("watch=true", "200 OK")
        assert kubectl(f"get ns {kubectl.namespace} -o", "jsonpath={.status.phase}") == "Terminating"
        said = kubectl.refused("create -f -", given=config("late"))
        assert "because it is being terminated" in said
        hand.change(config("held"), {"metadata": {"finalizers": None}})
        deleting.rest()

    assert hand.look(named("Namespace", kubectl.namespace)) is None
