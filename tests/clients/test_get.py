"""`kubectl get` in all its forms."""

import json
from dataclasses import replace

import pytest
import yaml

from .hand import Hand
from .kubectl import Kubectl
from .manifests import config, job, named, pod


@pytest.fixture
def three_pods(kubectl: Kubectl, hand: Hand) -> Kubectl:
    hand.make(
        pod("anna", labels={"team": "red", "tier": "front"}),
        pod("bert", "main", "side", labels={"team": "blue"}),
        pod("carl", labels={"team": "blue", "tier": "back"}),
    )
    hand.change(pod("carl"), {"status": {"phase": "Running"}}, "status")
    return kubectl


def test_get_prints_the_table_of_kubernetes(three_pods: Kubectl) -> None:
    head, *rows = three_pods.table("get pods")

    assert head == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in rows] == [
        ["anna", "0/1", "Pending", "0"],
        ["bert", "0/2", "Pending", "0"],
        ["carl", "0/1", "Running", "0"],
    ]
    assert all(row[4].endswith("s") for row in rows)


def test_get_wide_adds_columns(three_pods: Kubectl) -> None:
    assert three_pods.table("get pods -o wide")[0][5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param("-l team=blue", ["bert", "carl"], id="label equals"),
        pytest.param("-l team!=blue", ["anna"], id="label differs"),
        pytest.param("-l 'tier in (front,back)'", ["anna", "carl"], id="label in a set"),
        pytest.param("-l '!tier'", ["bert"], id="label is missing"),
        pytest.param("-l team=blue,tier", ["carl"], id="two labels"),
        pytest.param("--field-selector status.phase=Running", ["carl"], id="field equals"),
        pytest.param("--field-selector status.phase!=Running,metadata.name!=anna", ["bert"], id="fields differ"),
        pytest.param("-l team=blue --field-selector metadata.name=bert", ["bert"], id="label and field"),
        pytest.param("anna carl", ["anna", "carl"], id="by name"),
        pytest.param("--chunk-size=1", ["anna", "bert", "carl"], id="page by page"),
        pytest.param("--sort-by=.status.phase", ["anna", "bert", "carl"], id="sorted by a field"),
        pytest.param("--sort-by=.metadata.labels.tier", ["bert", "carl", "anna"], id="sorted by what not all have"),
    ],
)
def test_get_finds_what_is_asked_for(three_pods: Kubectl, flags: str, want: list[str]) -> None:
    assert three_pods(f"get pods -o name {flags}").split() == [f"pod/{name}" for name in want]


def test_get_says_when_nothing_matches(three_pods: Kubectl) -> None:
    result = three_pods.run("get pods -l team=green")

    assert (result.code, result.output) == (0, "")
    assert result.errors.strip() == f"No resources found in {three_pods.namespace} namespace."


@pytest.mark.parametrize(
    ("output", "want"),
    [
        pytest.param("name", "pod/carl", id="name"),
        pytest.param("jsonpath={.status.phase}", "Running", id="jsonpath"),
        pytest.param("jsonpath-as-json={.metadata.labels.team}", '[\n    "blue"\n]', id="jsonpath as json"),
        pytest.param("go-template={{.metadata.name}}/{{.kind}}", "carl/Pod", id="template"),
        pytest.param(
            "custom-columns=POD:.metadata.name,PHASE:.status.phase", "POD    PHASE\ncarl   Running", id="columns"
        ),
    ],
)
def test_get_in_other_forms(three_pods: Kubectl, output: str, want: str) -> None:
    assert three_pods("get pod carl -o", output).strip() == want


def test_get_as_json_and_yaml_is_the_whole_object(three_pods: Kubectl) -> None:
    as_json = json.loads(three_pods("get pod carl -o json"))

    assert yaml.safe_load(three_pods("get pod carl -o yaml")) == as_json
    assert (as_json["apiVersion"], as_json["kind"], as_json["spec"]["containers"][0]["image"]) == (
        "v1",
        "Pod",
        "main:1",
    )
    assert "managedFields" not in as_json["metadata"]
    assert json.loads(three_pods("get pod carl -o json --show-managed-fields"))["metadata"]["managedFields"]


def test_get_everywhere_names_the_namespaces(three_pods: Kubectl, hand: Hand) -> None:
    elsewhere = f"{three_pods.namespace}-b"
    hand.make(named("Namespace", elsewhere))
    replace(hand, namespace=elsewhere).make(pod("anna"))

    head, *rows = three_pods.table("get pods -A --field-selector metadata.name=anna")

    assert head[:2] == ["NAMESPACE", "NAME"]
    assert [three_pods.namespace, "anna"] in [row[:2] for row in rows]
    assert [elsewhere, "anna"] in [row[:2] for row in rows]


def test_get_shows_labels(three_pods: Kubectl) -> None:
    assert three_pods.table("get pod anna --show-labels")[1][5] == "team=red,tier=front"
    assert [row[5] for row in three_pods.table("get pods -L tier")] == ["TIER", "front", "", "back"]


def test_get_several_kinds_at_once(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("one"), job("two", suspend=True))

    tables = kubectl("get pods,jobs").split("\n\n")

    assert [table.split()[0] for table in tables] == ["NAME", "NAME"]
    assert [table.splitlines()[1].split()[0] for table in tables] == ["pod/one", "job.batch/two"]
    assert kubectl("get all -o name").split() == ["pod/one", "job.batch/two"]


def test_get_pages_through_many(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(*(config(f"c{number:02}") for number in range(25)))

    assert kubectl("get cm -o name --chunk-size=7").split() == [f"configmap/c{number:02}" for number in range(25)]


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param("get pod nobody", 'Error from server (NotFound): pods "nobody" not found', id="no such pod"),
        pytest.param("get rf nobody", 'resourceflavors.kueue.x-k8s.io "nobody" not found', id="no such flavor"),
        pytest.param("get widgets", 'the server doesn\'t have a resource type "widgets"', id="no such kind"),
        pytest.param("get pods --field-selector spec.x=1", "field label not supported: spec.x", id="no such field"),
        pytest.param("get pods -l 'a in (b'", "unable to parse requirement", id="broken selector"),
        pytest.param("get --raw /nowhere", "the server could not find the requested resource", id="no such path"),
        pytest.param("get --raw /apis/kueue.x-k8s.io/v1/workloads", "could not find", id="no such version"),
    ],
)
def test_get_says_what_there_is_not(kubectl: Kubectl, command: str, want: str) -> None:
    assert want in kubectl.refused(command)


def test_get_raw_is_the_document_itself(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("plain", {"a": "1"}))

    document = json.loads(kubectl(f"get --raw /api/v1/namespaces/{kubectl.namespace}/configmaps/plain"))

    assert (document["kind"], document["data"]) == ("ConfigMap", {"a": "1"})
    assert kubectl("get --raw /readyz") == "ok"
