"""`kubectl describe` and `kubectl events`: the objects for people, with what happened to them."""

import re
from typing import Any

from fairway.apis.machinery.kind import Manifest

from .hand import Hand
from .kubectl import Kubectl
from .manifests import admitted_status, cluster_queue, config, job, named, pod, workload


def fields(described: str) -> dict[str, str]:
    """The lines `Name:  value` of a description; the first of each name."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"^ *([A-Z][A-Za-z ]*): +(\S.*)$", described, re.MULTILINE):
        found.setdefault(name, value.strip())
    return found


def event(name: str, about: Manifest, /, **parts: Any) -> Manifest:
    """Something that happened to an object, which is as it is stored."""
    metadata = about["metadata"]
    involved = {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": involved,
        "type": "Normal",
        "source": {"component": "test"},
        "firstTimestamp": "2026-11-16T08:30:00Z",
        "lastTimestamp": "2026-11-16T08:30:00Z",
        "count": 1,
        **parts,
    }


def test_describe_a_pod_with_what_happened_to_it(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("web", "main", "side", labels={"app": "web"}), pod("other"))
    stored, other = hand.look(pod("web")), hand.look(pod("other"))
    hand.make(
        event("e1", stored, reason="Scheduled", message="given to node n", count=3),
        event("e2", stored, reason="Failed", message="it broke", type="Warning"),
        event("e3", other, reason="Elsewhere", message="another pod"),
    )

    said = kubectl("describe pod web")

    shown = fields(said)
    assert {name: shown[name] for name in ("Name", "Namespace", "Labels", "Status", "QoS Class")} == {
        "Name": "web",
        "Namespace": kubectl.namespace,
        "Labels": "app=web",
        "Status": "Pending",
        "QoS Class": "BestEffort",
    }
    assert re.search(r"^  side:\n    Image: +side:1$", said, re.MULTILINE)
    assert re.search(r"Normal +Scheduled .*\(x3 over .*\) +test +given to node n", said)
    assert re.search(r"Warning +Failed .* it broke", said)
    assert "another pod" not in said


def test_describe_a_job_counts_its_pods(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(job("calc", parallelism=2, completions=4, suspend=True))
    hand.change(job("calc"), {"status": {"active": 2, "ready": 1, "succeeded": 1}}, "status")
    hand.make(event("e", hand.look(job("calc")), reason="Suspended", message="Job suspended"))

    said = kubectl("describe job calc")

    shown = fields(said)
    assert (shown["Parallelism"], shown["Completions"]) == ("2", "4")
    assert shown["Pods Statuses"] == "2 Active (1 Ready) / 1 Succeeded / 0 Failed"
    assert re.search(r"Normal +Suspended .* Job suspended", said)


def test_describe_a_node_adds_up_its_pods(kubectl: Kubectl, hand: Hand) -> None:
    name = kubectl.namespace
    hand.make(named("Node", name, spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}))
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": "it runs"}],
    }
    assert (
        hand.server.call(
            "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content_type="application/merge-patch+json"
        ).code
        == 200
    )
    placed = pod("busy")
    placed["spec"] |= {"nodeName": name}
    placed["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "2Gi"}}
    hand.make(placed)

    said = kubectl(f"describe node {name}")

    assert "gpu:NoSchedule" in said
    assert re.search(rf"{kubectl.namespace} +busy +1 \(25%\) +0 \(0%\) +2Gi \(25%\)", said)
    assert kubectl.table(f"get node {name}")[1][1] == "Ready"


def test_describe_a_namespace(kubectl: Kubectl) -> None:
    shown = fields(kubectl(f"describe namespace {kubectl.namespace}"))

    assert (shown["Name"], shown["Status"]) == (kubectl.namespace, "Active")
    assert shown["Labels"] == f"kubernetes.io/metadata.name={kubectl.namespace}"


def test_describe_a_cluster_queue_and_a_workload(kubectl: Kubectl, hand: Hand) -> None:
    name = kubectl.namespace
    hand.make(cluster_queue(name, cohortName="all"), workload("w"))
    hand.change(workload("w"), {"status": admitted_status(name)}, "status")
    hand.make(event("e", hand.look(workload("w")), reason="QuotaReserved", message=f"Quota reserved in {name}"))

    queue, work = kubectl(f"describe clusterqueue {name}"), kubectl("describe workload w")

    assert fields(queue)["Cohort Name"] == "all"
    assert fields(queue)["Nominal Quota"] == "4"
    assert fields(queue)["API Version"] == "kueue.x-k8s.io/v1beta2"
    assert fields(work)["Cluster Queue"] == name
    assert re.search(rf"Normal +QuotaReserved .* Quota reserved in {name}", work)


def test_describe_what_kubectl_knows_of_the_rest(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(
        config("c", {"key": "the value"}),
        named("Secret", "s", stringData={"word": "open"}),
        named("ServiceAccount", "a"),
    )

    said = kubectl("describe configmap/c secret/s serviceaccount/a")

    assert "the value" in said
    assert "word:  4 bytes" in said
    assert "Mountable secrets" in said


def test_events_are_listed_for_people(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("web"), pod("other"))
    stored, other = hand.look(pod("web")), hand.look(pod("other"))
    hand.make(
        event("e1", stored, reason="Started", message="it runs"),
        event("e2", stored, reason="Failed", message="it broke", type="Warning"),
        event("e3", other, reason="Started", message="so does this", lastTimestamp="2026-11-16T08:31:00Z"),
    )

    head, *rows = kubectl.table("events")
    assert head == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert sorted(row[1:] for row in rows) == [
        ["Normal", "Started", "Pod/other", "so does this"],
        ["Normal", "Started", "Pod/web", "it runs"],
        ["Warning", "Failed", "Pod/web", "it broke"],
    ]
    assert [row[3:] for row in kubectl.table("events --for pod/web --types=Warning")[1:]] == [["Pod/web", "it broke"]]


def test_events_are_served_by_their_new_group_too(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("web"))
    hand.make(event("e1", hand.look(pod("web")), reason="Started", message="it runs"))
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e2"},
        "eventTime": "2026-11-16T08:31:00.000000Z",
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
        "action": "Ran",
        "reason": "Ran",
        "note": "it ran",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "web", "namespace": hand.look(pod("web"))["metadata"]["namespace"]},
    }
    kubectl("create -f -", given=new)

    head, *rows = kubectl.table("get events.v1.events.k8s.io")
    assert head == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert sorted(row[1:] for row in rows) == [
        ["Normal", "Ran", "pod/web", "it ran"],
        ["Normal", "Started", "pod/web", "it runs"],
    ]
    assert kubectl("get events.v1.events.k8s.io e1 -o jsonpath={.note},{.regarding.name}") == "it runs,web"
    assert kubectl("get events e2 -o jsonpath={.message},{.involvedObject.name},{.reportingComponent}") == (
        "it ran,web,example.com/me"
    )


def test_get_events_has_the_columns_of_kubernetes(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("web"))
    hand.make(event("e1", hand.look(pod("web")), reason="Started", message="it runs"))

    head, row = kubectl.table("get events --field-selector involvedObject.name=web,type=Normal")

    assert head == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row[1:] == ["Normal", "Started", "pod/web", "it runs"]
    assert "No resources found" in kubectl.run("get events --field-selector involvedObject.name=none").errors
