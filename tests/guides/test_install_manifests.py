"""`kubectl apply -f manifests.yaml` where all of it is built in: acknowledged as a whole, and nothing changes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.fairway import Fairway
from clients.kubectl import Kubectl
from fairway.testing.servers import Server

DATA = Path(__file__).parent / "data"
KUEUE, KUBERAY, FAIRWAY = (DATA / f"{name}-install.yaml" for name in ("kueue", "kuberay", "fairway"))


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def configuration(kubectl: Kubectl) -> str:
    return kubectl(
        "-n kueue-system get cm kueue-manager-config -o", "jsonpath={.data.controller_manager_config\\.yaml}"
    )


@pytest.mark.parametrize("manifest", [KUEUE, KUBERAY, FAIRWAY], ids=lambda path: path.stem)
@pytest.mark.parametrize("ways", [("--server-side", ""), ("", "--server-side")], ids=["from the server", "client"])
def test_an_install_manifest_is_accepted_as_a_whole_and_warned_of_once(
    kubectl: Kubectl, manifest: Path, ways: tuple[str, str]
) -> None:
    before = configuration(kubectl)
    count = len(documents(manifest))
    for way in (*ways, ways[0]):
        result = kubectl.run(f"apply {way} -f", str(manifest))
        assert (result.code, len(result.output.splitlines())) == (0, count), result.errors
        assert result.errors.count("is built into Fairway") == 1
    assert configuration(kubectl) == before

    deleted = kubectl.run("delete --timeout=30s -f", str(manifest))
    assert (deleted.code, len(deleted.output.splitlines())) == (0, count), deleted.errors


def test_definitions_of_any_size_are_acknowledged(kubectl: Kubectl, tmp_path: Path) -> None:
    manifests = documents(KUBERAY)
    for one in manifests:
        if one["kind"] == "CustomResourceDefinition":
            fields = {f"field{number}": {"type": "string", "description": "x" * 20} for number in range(12_000)}
            one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": fields}
    large = tmp_path / "large.yaml"
    large.write_text(yaml.safe_dump_all(manifests))
    for way in ("create", "apply", "apply --server-side"):
        result = kubectl.run(f"{way} -f", str(large))
        assert (result.code, result.errors.count("Warning: server rejected")) == (0, 0), result.errors
        kubectl("delete -f", str(KUBERAY))


def test_fairway_apply_takes_an_install_manifest_after_kubectl_did(
    server: Server, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl("apply -f", str(KUEUE))
    kubectl("apply --server-side -f", str(KUEUE))
    code, output, errors = Fairway(server.state, tmp_path).tried("apply", "-f", str(KUEUE))
    assert (code, len(output.splitlines())) == (0, len(documents(KUEUE))), errors
    assert errors.count("is built into Fairway") == 1


def test_what_is_built_in_outlasts_the_deletion_of_its_manifest(kubectl: Kubectl) -> None:
    kubectl("apply --server-side -f", str(KUEUE))
    queues = kubectl("get clusterqueues,localqueues -A -o name")
    said = kubectl.run("delete -f", str(KUEUE)).errors
    assert said.count("what is built into Fairway stays") == 1
    assert kubectl("get clusterqueues,localqueues -A -o name") == queues
    kubectl("get namespace kueue-system")
    kubectl("wait --for condition=established crd/workloads.kueue.x-k8s.io --timeout=20s")
    kubectl("-n kueue-system rollout status deployment kueue-controller-manager --timeout=20s")
    assert kubectl("get clusterroles,services,apiservices -A -o name") == ""


def test_the_deployment_of_kueue_is_there_and_can_be_restarted(kubectl: Kubectl) -> None:
    there = kubectl.at("kueue-system")
    assert there.table("get deploy")[1][:4] == ["kueue-controller-manager", "1/1", "1", "1"]
    there("rollout restart deployment kueue-controller-manager")
    assert "successfully rolled out" in there("rollout status deployment kueue-controller-manager --timeout=20s")
    there("wait deploy/kueue-controller-manager --for=condition=available --timeout=20s")


def test_the_operator_of_kuberay_is_there(kubectl: Kubectl) -> None:
    kubectl("apply --server-side -f", str(KUBERAY))
    assert kubectl.table("get deploy kuberay-operator")[1][1] == "1/1"
    kubectl("wait deploy/kuberay-operator --for=condition=available --timeout=20s")


def test_the_manifest_keeps_a_configuration_that_somebody_edited(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply --server-side -f", str(KUEUE))
    edited = tmp_path / "config.yaml"
    edited.write_text(configuration(kubectl) + "objectRetentionPolicies: {workloads: {afterFinished: 1h}}\n")
    made = kubectl(
        f"-n kueue-system create cm kueue-manager-config --from-file=controller_manager_config.yaml={edited}",
        "--dry-run=client",
        "-oyaml",
    )
    kubectl("apply -f -", given=made)
    assert configuration(kubectl) == edited.read_text()
    for way in ("--server-side", ""):
        kubectl(f"apply {way} -f", str(KUEUE))
        assert configuration(kubectl) == edited.read_text()


def test_a_configuration_edited_in_the_manifest_comes_into_force(kubectl: Kubectl) -> None:
    manifests = documents(KUEUE)
    (config_map,) = [one for one in manifests if one["kind"] == "ConfigMap"]
    key = "controller_manager_config.yaml"
    config_map["data"][key] += "fairSharing:\n  enable: true\n"
    kubectl("apply --server-side -f -", given=manifests)
    assert configuration(kubectl) == config_map["data"][key]
    # From then on it is an object like any other: an edit counts, whatever it says.
    config_map["metadata"].pop("labels")
    config_map["data"][key] = config_map["data"][key].replace("fairSharing:\n  enable: true\n", "")
    kubectl("replace -f -", given=config_map)
    assert configuration(kubectl) == config_map["data"][key]


def test_kinds_without_an_api_server_behind_them_are_refused(kubectl: Kubectl) -> None:
    manifest = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.x.io"}}
    for command in ("apply -f -", "apply --server-side -f -", "create -f -"):
        assert "this server calls no other API servers" in kubectl.refused(command, given=manifest)


def test_a_kind_that_is_not_served_is_said_to_have_no_match(kubectl: Kubectl) -> None:
    listed = kubectl("get crd -o name").split()
    assert "customresourcedefinition.apiextensions.k8s.io/rayjobs.ray.io" in listed
    assert "customresourcedefinition.apiextensions.k8s.io/rayservices.ray.io" not in listed
    said = kubectl.refused("apply -f -", given={"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}})
    assert 'no matches for kind "Foo" in version "x.io/v1"' in said
    assert "failed to list CRDs" not in said


def test_definitions_follow_what_a_later_version_serves(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        before = {one["metadata"]["name"]: one for one in server.call("GET", path).body["items"]}
        server.stop()
        server.start()
        after = {one["metadata"]["name"]: one for one in server.call("GET", path).body["items"]}
        assert before == after
        assert server.call("DELETE", f"{path}/workloads.kueue.x-k8s.io").code == 200
        assert server.call("GET", f"{path}/workloads.kueue.x-k8s.io").body == before["workloads.kueue.x-k8s.io"]
