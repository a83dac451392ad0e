"""`kubectl apply`, client-side and `--server-side`, and `kubectl diff`."""

import pytest

from fairway.apis.machinery.kind import Manifest

from .hand import Hand
from .kubectl import Kubectl
from .manifests import cluster_queue, config, job, pod


def applied(kubectl: Kubectl, manifest: object, flags: str = "") -> str:
    return kubectl(f"apply {flags} -f -", given=manifest).strip()


def test_apply_creates_leaves_alone_and_changes(kubectl: Kubectl, hand: Hand) -> None:
    said = [
        applied(kubectl, config("c", {"a": "1", "b": "1"})),
        applied(kubectl, config("c", {"a": "1", "b": "1"})),
        applied(kubectl, config("c", {"a": "2"})),
    ]

    assert said == ["configmap/c created", "configmap/c unchanged", "configmap/c configured"]
    assert hand.look(config("c"))["data"] == {"a": "2"}, "what is no longer in the file is gone"


def test_apply_keeps_what_others_added(kubectl: Kubectl, hand: Hand) -> None:
    applied(kubectl, config("c", {"a": "1"}))
    hand.change(config("c"), {"data": {"theirs": "1"}, "metadata": {"labels": {"theirs": "1"}}})

    applied(kubectl, config("c", {"b": "2"}))

    assert hand.look(config("c"))["data"] == {"b": "2", "theirs": "1"}
    assert hand.look(config("c"))["metadata"]["labels"] == {"theirs": "1"}


def test_apply_merges_lists_of_kubernetes_own_kinds_by_key(kubectl: Kubectl, hand: Hand) -> None:
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    manifest = pod("p", "one", "two", finalizers=["a.example/x", "a.example/y"])
    applied(kubectl, manifest)
    hand.change(pod("p"), {"spec": {"tolerations": [*hand.look(pod("p"))["spec"]["tolerations"], *tolerations]}})

    changed = pod("p", "one", "two", finalizers=["a.example/x"])
    changed["spec"]["containers"][1]["image"] = "two:2"
    assert applied(kubectl, changed) == "pod/p configured"

    after = hand.look(pod("p"))
    assert [each["image"] for each in after["spec"]["containers"]] == ["one:1", "two:2"]
    assert after["metadata"]["finalizers"] == ["a.example/x"], "an element that left the file leaves the list"
    assert tolerations[0] in after["spec"]["tolerations"]


def test_apply_to_kueues_kinds_replaces_lists(kubectl: Kubectl, hand: Hand) -> None:
    name = kubectl.namespace
    applied(kubectl, cluster_queue(name, cpu="4"))

    assert applied(kubectl, cluster_queue(name, cpu="4")) == f"clusterqueue.kueue.x-k8s.io/{name} unchanged"
    assert applied(kubectl, cluster_queue(name, cpu="9")) == f"clusterqueue.kueue.x-k8s.io/{name} configured"
    groups = hand.look(cluster_queue(name))["spec"]["resourceGroups"]
    assert groups[0]["flavors"][0]["resources"] == [{"name": "cpu", "nominalQuota": "9"}]


def test_apply_says_what_must_not_change(kubectl: Kubectl) -> None:
    applied(kubectl, job("j", completions=2, suspend=True))

    said = kubectl.refused("apply -f -", given=job("j", completions=3, suspend=True))

    assert said == 'The Job "j" is invalid: spec.completions: Invalid value: 3: field is immutable'


def test_apply_prunes_what_is_no_longer_there(kubectl: Kubectl) -> None:
    marked = {"labels": {"set": "one"}}
    applied(kubectl, [config("stays", **marked), config("goes", **marked)])

    said = applied(kubectl, [config("stays", **marked)], "--prune -l set=one --prune-allowlist=core/v1/ConfigMap")

    assert said.splitlines() == ["configmap/stays unchanged", "configmap/goes pruned"]


def test_diff_shows_what_apply_would_do(kubectl: Kubectl) -> None:
    applied(kubectl, config("c", {"a": "1", "b": "1"}))
    assert kubectl("diff -f -", given=config("c", {"a": "1", "b": "1"})) == ""

    differs = kubectl.run("diff -f -", given=config("c", {"a": "2", "b": "1"}))

    assert differs.code == 1
    lines = [line for line in differs.output.splitlines() if line.startswith(("-  a", "+  a", "-  b", "+  b"))]
    assert lines == ['-  a: "1"', '+  a: "2"']
    assert kubectl("get cm c -o", "jsonpath={.data.a}") == "1", "nothing was changed"


def test_server_side_apply_owns_what_it_sets(kubectl: Kubectl, hand: Hand) -> None:
    said = [
        applied(kubectl, config("c", {"a": "1", "b": "1"}), "--server-side"),
        applied(kubectl, config("c", {"a": "1", "b": "1"}), "--server-side"),
        applied(kubectl, config("c", {"a": "2"}), "--server-side"),
    ]

    assert said == ["configmap/c serverside-applied"] * 3
    after = hand.look(config("c"))
    assert after["data"] == {"a": "2"}
    (owner,) = after["metadata"]["managedFields"]
    assert (owner["manager"], owner["operation"]) == ("kubectl", "Apply")
    assert owner["fieldsV1"] == {"f:data": {"f:a": {}}}


@pytest.mark.parametrize(
    "manifest",
    [
        config("c", {"a": "1"}),
        config("c"),
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "applied-twice"}},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ResourceFlavor",
            "metadata": {"name": "applied-twice-older"},
            "spec": {"nodeLabels": {"a": "b"}},
        },
    ],
    ids=["with a field", "without any", "without a spec", "in an older version"],
)
def test_server_side_apply_of_the_same_again_changes_nothing(kubectl: Kubectl, hand: Hand, manifest: Manifest) -> None:
    applied(kubectl, manifest, "--server-side")
    before = hand.look(manifest)
    applied(kubectl, manifest, "--server-side")

    assert hand.look(manifest) == before


def test_server_side_apply_refuses_to_take_from_others_unless_forced(kubectl: Kubectl, hand: Hand) -> None:
    applied(kubectl, config("c", {"a": "1", "b": "1"}), "--server-side --field-manager=one")

    said = kubectl.refused("apply --server-side --field-manager=two -f -", given=config("c", {"a": "2", "c": "2"}))
    assert 'Apply failed with 1 conflict: conflict with "one": .data.a' in said
    assert "--force-conflicts" in said

    applied(kubectl, config("c", {"a": "2", "c": "2"}), "--server-side --field-manager=two --force-conflicts")
    after = hand.look(config("c"))
    assert after["data"] == {"a": "2", "b": "1", "c": "2"}
    assert {one["manager"]: one["fieldsV1"] for one in after["metadata"]["managedFields"]} == {
        "one": {"f:data": {"f:b": {}}},
        "two": {"f:data": {"f:a": {}, "f:c": {}}},
    }


def test_server_side_apply_shares_equal_values_and_gives_up_fields(kubectl: Kubectl, hand: Hand) -> None:
    for manager in ("one", "two"):
        applied(kubectl, config("c", {"a": "1", manager: "1"}), f"--server-side --field-manager={manager}")

    applied(kubectl, config("c", {"one": "1"}), "--server-side --field-manager=one")
    assert hand.look(config("c"))["data"] == {"a": "1", "one": "1", "two": "1"}, "the other still owns it"

    applied(kubectl, config("c", {"two": "1"}), "--server-side --field-manager=two")
    assert hand.look(config("c"))["data"] == {"one": "1", "two": "1"}, "nobody owns it any more"


def test_server_side_apply_names_the_edited_field(kubectl: Kubectl, hand: Hand) -> None:
    """People edit a queue by hand, and the next deployment tells them."""
    name = kubectl.namespace
    applied(kubectl, cluster_queue(name, cpu="4"), "--server-side --field-manager=deploy")
    kubectl(f"patch clusterqueue {name} --type=merge -p", '{"spec":{"queueingStrategy":"StrictFIFO"}}')

    said = kubectl.refused(
        "apply --server-side --field-manager=deploy -f -", given=cluster_queue(name, queueingStrategy="BestEffortFIFO")
    )

    assert 'conflict with "kubectl-patch" using kueue.x-k8s.io/v1beta2: .spec.queueingStrategy' in said


def test_moving_from_client_side_to_server_side_apply_keeps_one_owner(kubectl: Kubectl, hand: Hand) -> None:
    applied(kubectl, config("c", {"a": "1", "b": "1"}))

    applied(kubectl, config("c", {"a": "1"}), "--server-side")

    after = hand.look(config("c"))
    assert after["data"] == {"a": "1"}
    owners = {one["manager"]: one["fieldsV1"] for one in after["metadata"]["managedFields"]}
    assert owners["kubectl"] == {"f:data": {"f:a": {}}}
    assert "kubectl-client-side-apply" not in owners


@pytest.mark.parametrize("flags", ["", "--server-side"], ids=["client-side", "server-side"])
def test_apply_reports_every_object_of_a_file(kubectl: Kubectl, flags: str) -> None:
    result = kubectl.run(f"apply {flags} -f -", given=[config("good"), config("Bad_Name"), config("good-too")])

    assert result.code == 1
    assert [line.split()[0] for line in result.output.splitlines()] == ["configmap/good", "configmap/good-too"]
    assert 'The ConfigMap "Bad_Name" is invalid' in result.errors
