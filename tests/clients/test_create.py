"""`kubectl create` from files and from flags, dry runs, and the refusals that people meet."""

import base64
import json

import pytest

from .hand import Hand
from .kubectl import Kubectl
from .manifests import cluster_queue, config, job, named, pod, ray_job, workload


def test_create_from_a_file_says_what_was_made(kubectl: Kubectl) -> None:
    made = kubectl("create -f -", given=[config("a"), pod("b"), job("c"), workload("d")])

    assert made.splitlines() == [
        "configmap/a created",
        "pod/b created",
        "job.batch/c created",
        "workload.kueue.x-k8s.io/d created",
    ]


def test_create_twice_is_refused(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(workload("twin"))

    assert 'workloads.kueue.x-k8s.io "twin" already exists' in kubectl.refused("create -f -", given=workload("twin"))


def test_create_makes_up_names(kubectl: Kubectl) -> None:
    names = {kubectl("create -o name -f -", given=ray_job(generateName="dev-train-")).strip() for _ in range(2)}

    assert len(names) == 2
    assert all(
        name.startswith("rayjob.ray.io/dev-train-") and len(name) == len("rayjob.ray.io/dev-train-") + 5
        for name in names
    )


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(
            "configmap made --from-literal=a=1 --from-literal=b=2", {"data": {"a": "1", "b": "2"}}, id="configmap"
        ),
        pytest.param(
            "secret generic made --from-literal=word=open",
            {"type": "Opaque", "data": {"word": base64.b64encode(b"open").decode()}},
            id="secret",
        ),
        pytest.param("serviceaccount made", {"kind": "ServiceAccount"}, id="serviceaccount"),
    ],
)
def test_create_from_flags(kubectl: Kubectl, flags: str, want: dict[str, object]) -> None:
    made = kubectl.json(f"create {flags}")

    assert made["metadata"]["name"] == "made"
    assert made["metadata"]["uid"]
    assert {name: made[name] for name in want} == want


def test_create_a_job_from_flags(kubectl: Kubectl) -> None:
    made = json.loads(kubectl("create job sum --image=calc:1 -o json -- add 1 2"))

    container = made["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("calc:1", ["add", "1", "2"])
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert kubectl("get job sum -o name") == "job.batch/sum\n"


def test_create_a_namespace_and_a_priority_class_from_flags(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-b"

    assert kubectl(f"create namespace {name}") == f"namespace/{name} created\n"
    assert kubectl(f"create priorityclass {name} --value=7 --description=seven").endswith("created\n")

    assert kubectl(f"get ns {name} -o", "jsonpath={.status.phase}") == "Active"
    assert kubectl.table(f"get priorityclass {name}")[1][:3] == [name, "7", "false"]


def test_run_makes_a_pod(kubectl: Kubectl) -> None:
    assert kubectl("run once --image=busy:1 --restart=Never --labels=a=b -- sleep 1") == "pod/once created\n"

    made = kubectl.json("get pod once")
    assert (made["spec"]["restartPolicy"], made["spec"]["containers"][0]["args"]) == ("Never", ["sleep", "1"])


def test_a_dry_run_on_the_server_changes_nothing(kubectl: Kubectl) -> None:
    shown = kubectl.json("create --dry-run=server -f -", given=job("maybe"))

    assert shown["spec"]["backoffLimit"] == 6, "the server's defaults are shown"
    assert kubectl("apply --dry-run=server -f -", given=config("x")) == "configmap/x created (server dry run)\n"
    assert kubectl("get jobs,configmaps -o name") == ""


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(
            config("Not_Good"), ['The ConfigMap "Not_Good" is invalid: metadata.name: Invalid value'], id="name"
        ),
        pytest.param(
            named("Pod", "x", spec={"containers": []}),
            ['The Pod "x" is invalid: spec.containers: Required value'],
            id="nothing to run",
        ),
        pytest.param(
            pod("x") | {"spec": {"containers": [{"name": "a", "image": "b", "imag": "c"}]}},
            ["strict decoding error", 'unknown field "spec.containers[0].imag"'],
            id="misspelt field",
        ),
        pytest.param(
            cluster_queue("x", queueingStrategy="Fastest"),
            ["spec.queueingStrategy", 'Unsupported value: "Fastest"', '"StrictFIFO"'],
            id="value not known",
        ),
        pytest.param(workload("x", cpu="much"), ["requests", '"much"', "quantities must match"], id="not a quantity"),
        pytest.param(
            named("CertificateSigningRequest", "x", version="certificates.k8s.io/v1"),
            ['no matches for kind "CertificateSigningRequest" in version "certificates.k8s.io/v1"'],
            id="kind that is not served",
        ),
        pytest.param(
            named("ClusterQueue", "x", version="kueue.x-k8s.io/v1"),
            ['no matches for kind "ClusterQueue" in version "kueue.x-k8s.io/v1"'],
            id="version that is not served",
        ),
    ],
)
def test_create_says_what_is_wrong(kubectl: Kubectl, manifest: dict[str, object], want: list[str]) -> None:
    said = kubectl.refused("create -f -", given=manifest)

    assert [text for text in want if text not in said] == [], said


def test_unknown_fields_are_warned_of_or_passed_over_if_so_wished(kubectl: Kubectl) -> None:
    manifest = config("lax") | {"dat": {"a": "1"}}

    result = kubectl.run("create --validate=warn -f -", given=manifest)

    assert (result.code, result.output) == (0, "configmap/lax created\n")
    assert 'Warning: unknown field "dat"' in result.errors
    assert kubectl.run("replace --validate=ignore -f -", given=manifest).errors == ""
