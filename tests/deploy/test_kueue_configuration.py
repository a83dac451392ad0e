"""Kueue's Configuration: what it lacks, and the text with that added."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.kueue.configuration_file import FRAMEWORKS
from fairway.deploy.kueue import EXTERNAL_FRAMEWORK, configuration_findings, mend, without_managed_jobs

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
RELEASED = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
#waitForPodsReady:
#  timeout: 5m
integrations:
  frameworks:
  - "batch/job"
  # - "kubeflow.org/paddlejob"
  - "jobset.x-k8s.io/jobset"
#  externalFrameworks:
#  - "Foo.v1.example.com"
#fairSharing:
#  preemptionStrategies: [LessThanOrEqualToFinalShare]
"""

TEXTS = {
    "as released, with comments": RELEASED,
    "a list in brackets": HEAD + "integrations: {frameworks: [batch/job]}\n",
    "a list in brackets of its own line": HEAD + "integrations:\n  frameworks: [batch/job]\n  labelKeysToCopy: [a]\n",
    "an indented list": HEAD + "integrations:\n    frameworks:\n      - batch/job\nclientConnection:\n  qps: 50\n",
    "no integrations": HEAD + "clientConnection:\n  qps: 50\n",
    "frameworks without a value": HEAD + "integrations:\n  frameworks:\n  labelKeysToCopy:\n  - a\n",
    "another external framework": HEAD + "integrations:\n  frameworks:\n  - pod\n  externalFrameworks:\n  - A.v1.b.c\n",
    "an empty list": HEAD + "integrations:\n  frameworks:\n  - pod\n  externalFrameworks: []\n",
    "everything is managed": HEAD + "manageJobsWithoutQueueName: true\nintegrations:\n  frameworks: [pod]\n",
    "everything is managed but some": HEAD + "manageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector:\n"
    "  matchExpressions:\n  - key: kubernetes.io/metadata.name\n    operator: NotIn\n    values: [ kube-system ]\n",
    "everything with a label is managed": HEAD + "manageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector:\n"
    "  matchExpressions:\n  - key: batch\n    operator: DoesNotExist\nintegrations:\n  frameworks: [batch/job]\n",
}


def lacking(text: str) -> list[str]:
    return [one.message for one in configuration_findings(yaml.safe_load(text)) if one.mended]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_what_lacks_is_added_once_and_nothing_else_changes(text: str) -> None:
    assert lacking(text)
    mended = mend(text)
    before, after = yaml.safe_load(text), yaml.safe_load(mended)

    assert lacking(mended) == []
    assert mend(mended) == mended
    assert after["integrations"]["externalFrameworks"][-1] == EXTERNAL_FRAMEWORK
    kept = [line for line in text.split("\n") if line.strip().startswith("#")]
    assert [line for line in mended.split("\n") if line.strip().startswith("#")] == kept
    for name in before.keys() - {"integrations", "managedJobsNamespaceSelector"}:
        assert after[name] == before[name]
    was = (before.get("integrations") or {}).get("frameworks") or ["batch/job"]
    assert after["integrations"]["frameworks"][: len(was)] == was if "pod" not in was else True


def test_the_diff_of_the_released_configuration_is_three_lines() -> None:
    added = [line for line in mend(RELEASED).split("\n") if line not in RELEASED.split("\n")]

    assert added == ['  - "pod"', "  externalFrameworks:", f'  - "{EXTERNAL_FRAMEWORK}"']


names = st.lists(st.sampled_from(FRAMEWORKS), unique=True)


@settings(max_examples=40, deadline=None)
@given(names, st.lists(st.sampled_from(["A.v1.b.c", EXTERNAL_FRAMEWORK]), unique=True), st.booleans(), st.booleans())
def test_any_configuration_is_mended(frameworks: list[str], external: list[str], flow: bool, everything: bool) -> None:  # noqa: FBT001
    config = {
        "manageJobsWithoutQueueName": everything,
        "integrations": {"frameworks": frameworks, "externalFrameworks": external},
        "clientConnection": {"qps": 50},
    }
    text = yaml.safe_dump(config, default_flow_style=flow)

    after = yaml.safe_load(mend(text))

    assert lacking(mend(text)) == []
    assert set(frameworks) <= set(after["integrations"]["frameworks"])
    assert set(external) <= set(after["integrations"]["externalFrameworks"])
    assert after["clientConnection"] == {"qps": 50}


@pytest.mark.parametrize(
    ("frameworks", "severity", "words"),
    [
        pytest.param("[pod, ray.io/rayjob, ray.io/raycluster]", "ok", "Kueue queues the jobs of KubeRay", id="both"),
        pytest.param("[pod, ray.io/rayjob]", "warning", "lacks ray.io/raycluster: such jobs start", id="one"),
        pytest.param("[]", "warning", "lacks ray.io/raycluster, ray.io/rayjob", id="neither"),
    ],
)
def test_jobs_of_an_installed_operator_that_kueue_does_not_queue(frameworks: str, severity: str, words: str) -> None:
    text = f"{HEAD}integrations:\n  frameworks: {frameworks}\n"
    kuberay = {"KubeRay": ("ray.io/rayjob", "ray.io/raycluster")}

    [found] = [one for one in configuration_findings(yaml.safe_load(text), kuberay) if "KubeRay" in one.message]
    assert found.severity == severity
    assert words in found.message
    assert not [one for one in configuration_findings(yaml.safe_load(text)) if "KubeRay" in one.message]


def test_managing_everything_without_knowing_managed_jobs_is_an_error() -> None:
    found = configuration_findings(yaml.safe_load(TEXTS["everything is managed"]))

    assert [one.severity for one in found if one.mended] == ["broken", "broken"]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_managed_jobs_are_removed_and_nothing_else_changes(text: str) -> None:
    mended = mend(text)
    wanted = yaml.safe_load(mended)
    wanted["integrations"]["externalFrameworks"].remove(EXTERNAL_FRAMEWORK)
    shorter = without_managed_jobs(mended)
    after = yaml.safe_load(shorter)

    after["integrations"].setdefault("externalFrameworks", [])
    assert after == wanted
    assert without_managed_jobs(shorter) == shorter
    kept = [line for line in text.split("\n") if line.strip().startswith("#")]
    assert [line for line in shorter.split("\n") if line.strip().startswith("#")] == kept


def test_the_released_configuration_is_restored_but_for_plain_pods() -> None:
    assert without_managed_jobs(mend(RELEASED)) == RELEASED.replace(
        '  - "jobset.x-k8s.io/jobset"\n', '  - "jobset.x-k8s.io/jobset"\n  - "pod"\n'
    )


@settings(max_examples=40, deadline=None)
@given(st.permutations(["A.v1.b.c", "B.v1.b.c", EXTERNAL_FRAMEWORK]), st.integers(0, 3), st.booleans())
def test_managed_jobs_are_removed_from_any_list(external: list[str], size: int, flow: bool) -> None:  # noqa: FBT001
    config = {"integrations": {"externalFrameworks": external[:size]}, "clientConnection": {"qps": 50}}
    text = yaml.safe_dump(config, default_flow_style=flow)
    left = [one for one in external[:size] if one != EXTERNAL_FRAMEWORK]

    after = yaml.safe_load(without_managed_jobs(text))

    assert after["clientConnection"] == {"qps": 50}
    assert ((after.get("integrations") or {}).get("externalFrameworks") or []) == left
