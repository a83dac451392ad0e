"""Changing what is there: `patch` in every type, `edit`, `label`, `annotate`, `replace`, `set`."""

import json
from pathlib import Path

import pytest

from .hand import Hand
from .kubectl import Kubectl
from .manifests import cluster_queue, config, job, pod, workload


@pytest.mark.parametrize(
    ("kind", "patch", "want"),
    [
        pytest.param(
            "strategic",
            {"spec": {"containers": [{"name": "side", "image": "side:2"}]}},
            {"main": "main:1", "side": "side:2"},
            id="strategic: lists are merged by key",
        ),
        pytest.param(
            "strategic",
            {"metadata": {"labels": {"a": None, "b": "2"}}},
            {"main": "main:1", "side": "side:1"},
            id="strategic: null removes",
        ),
        pytest.param(
            "merge",
            {"spec": {"containers": [{"name": "main", "image": "main:3"}, {"name": "side", "image": "side:3"}]}},
            {"main": "main:3", "side": "side:3"},
            id="merge: lists are replaced",
        ),
        pytest.param(
            "json",
            [
                {"op": "test", "path": "/spec/containers/1/name", "value": "side"},
                {"op": "replace", "path": "/spec/containers/1/image", "value": "side:4"},
            ],
            {"main": "main:1", "side": "side:4"},
            id="json: one place after another",
        ),
    ],
)
def test_a_pod_is_patched_in_every_type(
    kubectl: Kubectl, hand: Hand, kind: str, patch: object, want: dict[str, str]
) -> None:
    hand.make(pod("p", "main", "side", labels={"a": "1"}))

    assert kubectl(f"patch pod p --type={kind} -p", json.dumps(patch)) == "pod/p patched\n"

    after = hand.look(pod("p"))
    assert {one["name"]: one["image"] for one in after["spec"]["containers"]} == want
    if isinstance(patch, dict) and "metadata" in patch:
        assert after["metadata"]["labels"] == {"b": "2"}


def test_a_job_is_suspended_and_resumed_by_a_patch(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(job("j", suspend=True))

    kubectl("patch job j -p", '{"spec":{"suspend":false,"parallelism":3}}')

    spec = hand.look(job("j"))["spec"]
    assert (spec["suspend"], spec["parallelism"]) == (False, 3)


def test_kueues_kinds_take_merge_and_json_patches(kubectl: Kubectl, hand: Hand) -> None:
    name = kubectl.namespace
    hand.make(cluster_queue(name))
    resource = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"

    kubectl(f"patch cq {name} --type=merge -p", '{"spec":{"cohortName":"all"}}')
    kubectl(f"patch cq {name} --type=json -p", json.dumps([{"op": "replace", "path": resource, "value": "8"}]))

    assert kubectl(f"get cq {name} -o", "jsonpath={.spec.cohortName} {..nominalQuota}") == "all 8"
    refused = kubectl.refused(f"patch cq {name} --type=strategic -p", '{"spec":{}}')
    assert "application/strategic-merge-patch+json is not supported" in refused


def test_a_patch_of_the_status_changes_nothing_else(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(workload("w"))
    patch = {"spec": {"queueName": "other"}, "status": {"requeueState": {"count": 2}}}

    kubectl("patch workload w --subresource=status --type=merge -p", json.dumps(patch))
    kubectl("patch workload w --type=merge -p", '{"spec":{"priority":5},"status":{"requeueState":{"count":9}}}')

    after = hand.look(workload("w"))
    assert (after["spec"]["queueName"], after["spec"]["priority"]) == ("queue", 5)
    assert after["status"]["requeueState"]["count"] == 2
    assert kubectl("get workload w --subresource=status -o", "jsonpath={.status.requeueState.count}") == "2"


@pytest.mark.parametrize(
    ("command", "patch", "want"),
    [
        pytest.param("--type=json", [{"op": "remove", "path": "/data/x"}], "/data/x", id="json: nothing there"),
        pytest.param(
            "--type=json", [{"op": "test", "path": "/data/a", "value": "2"}], "/data/a", id="json: test fails"
        ),
        pytest.param("--type=merge", {"data": {"a": 1}}, "data[a]", id="merge: wrong type"),
        pytest.param("--type=merge", {"metadata": {"name": "d"}}, "the name of the object", id="merge: another name"),
        pytest.param(
            "--type=merge", {"metadata": {"resourceVersion": "1"}}, "the object has been modified", id="merge: outdated"
        ),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(
    kubectl: Kubectl, hand: Hand, command: str, patch: object, want: str
) -> None:
    hand.make(config("c", {"a": "1"}))

    assert want in kubectl.refused(f"patch cm c {command} -p", json.dumps(patch))
    assert hand.look(config("c"))["data"] == {"a": "1"}


def editor(directory: Path, script: str) -> str:
    """A program that edits the file it is given with sed."""
    program = directory / "editor"
    program.write_text(f"#!/bin/sh\nexec sed -i -e '{script}' \"$1\"\n")
    program.chmod(0o700)
    return str(program)


def test_edit_changes_what_the_editor_changed(kubectl: Kubectl, hand: Hand, tmp_path: Path) -> None:
    hand.make(config("c", {"a": "before", "b": "same"}))

    said = kubectl.with_variables(EDITOR=editor(tmp_path, "s/before/after/"))("edit configmap c")

    assert said == "configmap/c edited\n"
    assert hand.look(config("c"))["data"] == {"a": "after", "b": "same"}


def test_edit_of_a_queue_in_either_version(kubectl: Kubectl, hand: Hand, tmp_path: Path) -> None:
    name = kubectl.namespace
    hand.make(cluster_queue(name, cpu="4"))
    by_hand = kubectl.with_variables(EDITOR=editor(tmp_path, 's/nominalQuota: "4"/nominalQuota: 6/'))

    assert by_hand(f"edit clusterqueues.v1beta1.kueue.x-k8s.io {name}").endswith("edited\n")

    assert kubectl(f"get cq {name} -o", "jsonpath={..nominalQuota}") == "6"


def test_edit_without_a_change_does_nothing(kubectl: Kubectl, hand: Hand, tmp_path: Path) -> None:
    hand.make(config("c", {"a": "1"}))
    before = hand.look(config("c"))

    result = kubectl.with_variables(EDITOR=editor(tmp_path, "s/no such text/another/")).run("edit cm c")

    assert "Edit cancelled, no changes made" in result.output + result.errors
    assert hand.look(config("c")) == before


def test_edit_of_what_must_not_change_is_refused(kubectl: Kubectl, hand: Hand, tmp_path: Path) -> None:
    hand.make(job("j", completions=2, suspend=True))

    said = kubectl.with_variables(EDITOR=editor(tmp_path, "s/completions: 2/completions: 3/")).refused("edit job j")

    assert 'jobs.batch "j" was not valid' in said or 'jobs.batch "j" is invalid' in said
    assert hand.look(job("j"))["spec"]["completions"] == 2


def test_labels_are_set_changed_only_on_purpose_and_removed(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("p"), pod("q"))

    said = [kubectl("label pod p a=1 b=1"), kubectl("label pod p --overwrite a=2"), kubectl("label pod p b-")]
    kubectl("label pods --all c=3")

    assert said == ["pod/p labeled\n", "pod/p labeled\n", "pod/p unlabeled\n"]
    assert "already has a value (2)" in kubectl.refused("label pod p a=4")
    assert hand.look(pod("p"))["metadata"]["labels"] == {"a": "2", "c": "3"}
    assert hand.look(pod("q"))["metadata"]["labels"] == {"c": "3"}


def test_annotations_are_set_and_removed(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(workload("w"))

    assert kubectl("annotate workload w note='by hand' more=1") == "workload.kueue.x-k8s.io/w annotated\n"
    kubectl("annotate workload w more-")

    assert hand.look(workload("w"))["metadata"]["annotations"] == {"note": "by hand"}


def test_replace_puts_a_whole_object_in_place(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(config("c", {"a": "1"}, labels={"old": "1"}))
    before = hand.look(config("c"))

    assert kubectl("replace -f -", given=config("c", {"b": "2"})) == "configmap/c replaced\n"

    after = hand.look(config("c"))
    assert (after["data"], "labels" in after["metadata"]) == ({"b": "2"}, False)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    outdated = config("c", {"c": "3"}, resourceVersion=before["metadata"]["resourceVersion"])
    assert "the object has been modified" in kubectl.refused("replace -f -", given=outdated)
    assert 'configmaps "x" not found' in kubectl.refused("replace -f -", given=config("x"))


def test_replace_by_force_makes_it_anew(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(job("j", completions=2, suspend=True))
    before = hand.look(job("j"))

    kubectl("replace --force -f -", given=job("j", completions=3, suspend=True))

    after = hand.look(job("j"))
    assert after["spec"]["completions"] == 3
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def test_set_image_is_a_patch(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(pod("p", "main", "side"))

    assert kubectl("set image pod/p side=side:9") == "pod/p image updated\n"

    assert [one["image"] for one in hand.look(pod("p"))["spec"]["containers"]] == ["main:1", "side:9"]
