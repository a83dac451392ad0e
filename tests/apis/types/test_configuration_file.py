"""What the text of a Configuration means, in both versions, and what is said about a wrong one."""

from pathlib import Path

import pytest

from fairway.apis.kueue.configuration import (
    DEFAULT_TEXT,
    AdmissionFairSharingPolicy,
    Configuration,
    FairSharingPolicy,
    PreemptionStrategy,
    ResourceTransformation,
    WaitForPodsReady,
)
from fairway.apis.kueue.configuration_file import read
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.selectors import LabelSelector, LabelSelectorRequirement
from fairway.errors import BadRequest, ValidationError

OLD = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"
NEW = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"

GUIDE_000 = (Path(__file__).parents[2] / "guides" / "data" / "controller_manager_config.yaml").read_text()
OUTSIDE_SYSTEM = LabelSelector(
    match_expressions=(
        LabelSelectorRequirement(
            key="kubernetes.io/metadata.name", operator="NotIn", values=("kube-system", "kueue-system")
        ),
    )
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(DEFAULT_TEXT, Configuration(), id="what a first start writes is what holds without it"),
        pytest.param(
            NEW, Configuration(frameworks=("batch/job",)), id="without integrations only batch jobs are queued"
        ),
        pytest.param(
            f"{NEW}integrations: {{frameworks: null, labelKeysToCopy: null}}\nwaitForPodsReady: null\n"
            "resources: {excludeResourcePrefixes: null, transformations: null}\nmetrics: null\n",
            Configuration(frameworks=("batch/job",)),
            id="a null is a field that is left out",
        ),
        pytest.param(
            GUIDE_000,
            Configuration(frameworks=("batch/job", "pod"), pod_namespace_selector=OUTSIDE_SYSTEM),
            id="the configuration of guide 000",
        ),
        pytest.param(
            OLD + "integrations: {frameworks: [batch/job, pod, pod]}\n",
            Configuration(frameworks=("batch/job", "pod")),
            id="a framework that is added twice is on once",
        ),
        pytest.param(
            OLD + "waitForPodsReady: {enable: true}\n",
            Configuration(
                frameworks=("batch/job",),
                wait_for_pods_ready=WaitForPodsReady(
                    timeout_seconds=300, recovery_timeout_seconds=300, block_admission=True
                ),
            ),
            id="the older version waits five minutes and blocks admission",
        ),
        pytest.param(
            OLD + "waitForPodsReady: {enable: false, timeout: 1m}\n",
            Configuration(frameworks=("batch/job",)),
            id="waiting that is switched off in the older version is on with the newer defaults, as in Kueue",
        ),
        pytest.param(
            NEW + "waitForPodsReady: {timeout: 1h30m, recoveryTimeout: 0s, blockAdmission: true, requeuingStrategy: "
            "{timestamp: Creation, backoffLimitCount: 3, backoffBaseSeconds: 1, backoffMaxSeconds: 2}}\n",
            Configuration(
                frameworks=("batch/job",),
                wait_for_pods_ready=WaitForPodsReady(
                    timeout_seconds=5400,
                    recovery_timeout_seconds=None,
                    block_admission=True,
                    requeue_timestamp="Creation",
                    backoff_limit=3,
                    backoff_base_seconds=1,
                    backoff_max_seconds=2,
                ),
            ),
            id="everything about waiting for pods",
        ),
        pytest.param(
            OLD + "fairSharing: {enable: true, preemptionStrategies: [LessThanInitialShare]}\n",
            Configuration(
                frameworks=("batch/job",),
                fair_sharing=FairSharingPolicy(strategies=(PreemptionStrategy.INITIAL_SHARE,)),
            ),
            id="fair sharing in the older version",
        ),
        pytest.param(
            OLD + "fairSharing: {enable: false}\n",
            Configuration(frameworks=("batch/job",)),
            id="fair sharing that is switched off",
        ),
        pytest.param(
            NEW + "fairSharing: {}\nadmissionFairSharing: {usageHalfLifeTime: 168h, resourceWeights: {cpu: 0}}\n",
            Configuration(
                frameworks=("batch/job",),
                fair_sharing=FairSharingPolicy(),
                admission_fair_sharing=AdmissionFairSharingPolicy(
                    half_life_seconds=604800, resource_weights={"cpu": 0}
                ),
            ),
            id="fair sharing in the newer version is on when it is named",
        ),
        pytest.param(
            NEW + "resources: {excludeResourcePrefixes: [example.com], quotaCheckStrategy: IgnoreUndeclared, "
            "transformations: [{input: a/b, strategy: Replace, outputs: {c/d: 5Gi}}]}\n",
            Configuration(
                frameworks=("batch/job",),
                excluded_resource_prefixes=("example.com",),
                ignore_undeclared_resources=True,
                transformations=(
                    ResourceTransformation(input="a/b", strategy="Replace", outputs={"c/d": Quantity.parse("5Gi")}),
                ),
            ),
            id="resources that are left out and counted as others",
        ),
        pytest.param(
            NEW + "manageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector: {matchLabels: {team: a}}\n"
            "integrations: {frameworks: [pod], labelKeysToCopy: [team]}\nmetrics: {enableClusterQueueResources: true}\n"
            "objectRetentionPolicies: {workloads: {afterFinished: 1h, afterDeactivatedByKueue: 0s}}\n",
            Configuration(
                frameworks=("pod",),
                label_keys_to_copy=("team",),
                manage_jobs_without_queue_name=True,
                namespace_selector=LabelSelector(match_labels={"team": "a"}),
                queue_resource_metrics=True,
                finished_retention_seconds=3600,
                deactivated_retention_seconds=0,
            ),
            id="whose jobs are managed, and how long they are kept",
        ),
    ],
)
def test_a_text_means(text: str, want: Configuration) -> None:
    assert read(text) == want


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        pytest.param("", "(root)", "missing required field `apiVersion`", id="an empty text"),
        pytest.param("[]", "(root)", "Expected `object`, got `array`", id="a list"),
        pytest.param(NEW + "fairShering: {}\n", "(root)", "unknown field `fairShering`", id="a slip of the pen"),
        pytest.param(
            NEW + "waitForPodsReady: {timout: 5m}\n", "waitForPodsReady", "unknown field", id="one further in"
        ),
        pytest.param(NEW + "manageJobsWithoutQueueName: 1\n", "manageJobsWithoutQueueName", "bool", id="a wrong type"),
        pytest.param(
            NEW.replace("v1beta2", "v1"), "apiVersion", "config.kueue.x-k8s.io/v1beta2", id="an unknown version"
        ),
        pytest.param(NEW.replace("Configuration", "Config"), "kind", "Configuration", id="another kind"),
        pytest.param(
            NEW + "integrations: {frameworks: [pods]}\n",
            "integrations.frameworks[0]",
            '"pod"',
            id="an unknown framework",
        ),
        pytest.param(
            NEW + "waitForPodsReady: {timeout: 5 minutes}\n", "waitForPodsReady.timeout", "30s", id="no duration"
        ),
        pytest.param(
            NEW + "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: -1}}\n",
            "waitForPodsReady.requeuingStrategy.backoffLimitCount",
            "greater than or equal to 0",
            id="a negative limit",
        ),
        pytest.param(
            NEW + "resources: {transformations: [{input: a, outputs: {b: lots}}]}\n",
            "resources.transformations[0].outputs[b]",
            "quantities must match",
            id="no quantity",
        ),
    ],
)
def test_a_wrong_text_is_refused_with_the_place(text: str, where: str, what: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        read(text)
    (error,) = refusal.value.errors
    assert error.path == where
    assert what in str(error)


def test_a_text_that_is_no_yaml_is_refused() -> None:
    with pytest.raises(BadRequest, match="not valid YAML"):
        read("a: [")


def test_the_feature_gates_of_topologies_are_read_and_others_ignored() -> None:
    gates = "{TASBalancedPlacement: true, TASFailedNodeReplacementFailFast: false, PartialAdmission: false}"
    found = read(f"{NEW}featureGates: {gates}\n")
    assert (found.balanced_placement, found.replace_failed_nodes_once) == (True, False)
