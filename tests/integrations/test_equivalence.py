"""Whether a job still matches its workload."""

import copy
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.batch_job import BatchJob
from fairway.integrations.equivalence import is_equivalent
from fairway.integrations.injection import infos_of
from fairway.integrations.workloads import pod_set
from fairway.store.patching.merge import merge_patch

from .stored import stored_job

JOBS = BatchJob()
FLAVOR: Manifest = {"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
PARTIAL = {"kueue.x-k8s.io/job-min-parallelism": "2"}
TOLERANT = {"spec": {"tolerations": [{"key": "mine"}]}}


def flavor(name: str) -> Manifest | None:
    return FLAVOR if name == "spot" else None


def workload_of(job: Manifest, *conditions: str, count: int = 1, flavor_name: str = "spot") -> Manifest:
    made = [pod_set(one["name"], one["template"], one["count"], one.get("minCount")) for one in JOBS.pod_sets(job)]
    assignments = [{"name": "main", "flavors": {"cpu": flavor_name}, "count": count}]
    return {
        "metadata": {"name": "job-train-1"},
        "spec": {"podSets": made, "queueName": "q"},
        "status": {
            "conditions": [{"type": one, "status": "True"} for one in conditions],
            "admission": {"clusterQueue": "team", "podSetAssignments": assignments},
        },
    }


def container(**fields: Any) -> Manifest:
    return {"spec": {"containers": [{"name": "main", "image": "busybox", **fields}]}}


def env(*pairs: tuple[str, str]) -> Manifest:
    return container(env=[{"name": name, "value": value} for name, value in pairs])


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({}, {}, True, id="unchanged"),
        pytest.param({}, {"parallelism": 2}, False, id="another count"),
        pytest.param({"parallelism": 4}, {"parallelism": 4, "annotations": PARTIAL}, False, id="another least count"),
        pytest.param({}, {"template": container(image="other")}, False, id="another image"),
        pytest.param({}, {"template": {"spec": {"initContainers": [{"name": "i", "image": "x"}]}}}, False,
                     id="another container before"),
        pytest.param({}, {"template": TOLERANT}, False, id="another toleration"),
        pytest.param({}, {"template": {"metadata": {"labels": {"a": "b"}}}}, True, id="another label is no matter"),
        pytest.param({}, {"template": {"spec": {"nodeSelector": {"a": "b"}}}}, True, id="nor another selector"),
        pytest.param({}, {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "5"}}, False, id="another time limit"),
        pytest.param({"template": env(("A", "1"), ("A", "2"))}, {"template": env(("A", "1"), ("A", "2"))}, True,
                     id="a variable that is set twice"),
        pytest.param({"template": env(("A", "1"))}, {"template": env(("A", "2"))}, False, id="another variable"),
        pytest.param({"template": container(command=[])}, {"template": container()}, True, id="nothing and empty"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suspended", [True, False])
def test_while_it_waits(before: dict[str, Any], after: dict[str, Any], want: bool, suspended: bool) -> None:  # noqa: FBT001 - a table
    job = stored_job(**after)

    assert (
        is_equivalent(job, JOBS.pod_sets(job), workload_of(stored_job(**before)), flavor, suspended=suspended) is want
    )


def test_amounts_count_by_what_they_are() -> None:
    job = stored_job(template=container(resources={"requests": {"cpu": "1"}}))
    workload = workload_of(job)
    workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000m"}}

    assert is_equivalent(job, JOBS.pod_sets(job), workload, flavor, suspended=True)


def _run(job: Manifest, workload: Manifest) -> Manifest:
    started: Manifest = merge_patch(job, JOBS.start(copy.deepcopy(job), infos_of(workload, flavor)))
    return started


@pytest.mark.parametrize(
    ("job", "conditions", "count", "change", "want"),
    [
        pytest.param(stored_job(), ["QuotaReserved", "Admitted"], 1, {}, True, id="as it was started"),
        pytest.param(stored_job(), ["QuotaReserved", "Admitted"], 1,
                     {"spec": {"template": TOLERANT}}, True, id="tolerations are no matter once admitted"),
        pytest.param(stored_job(), ["QuotaReserved"], 1, {}, True, id="its flavor's tolerations are expected before"),
        pytest.param(stored_job(), ["QuotaReserved"], 1, {"spec": {"template": TOLERANT}}, False,
                     id="others are not"),
        pytest.param(stored_job(parallelism=5, annotations=PARTIAL), ["QuotaReserved", "Admitted"], 3, {}, True,
                     id="with fewer pods"),
        pytest.param(stored_job(parallelism=5, annotations=PARTIAL), ["QuotaReserved", "Admitted"], 3,
                     {"spec": {"parallelism": 5}}, False, id="with more pods than admitted"),
        pytest.param(stored_job(parallelism=2), ["QuotaReserved", "Admitted"], 2, {"spec": {"parallelism": 3}}, False,
                     id="with more pods than asked for"),
    ],
)  # fmt: skip
def test_while_it_runs(job: Manifest, conditions: list[str], count: int, change: Manifest, want: bool) -> None:  # noqa: FBT001 - a table
    workload = workload_of(job, *conditions, count=count)
    running = merge_patch(_run(job, workload), change)

    assert is_equivalent(running, JOBS.pod_sets(running), workload, flavor, suspended=False) is want


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(stored_job(suspend=True), id="plain"),
        pytest.param(stored_job(suspend=True, parallelism=3, completions=2), id="with several pods"),
        pytest.param(stored_job(suspend=True, template=TOLERANT), id="with tolerations of its own"),
        pytest.param(stored_job(suspend=True, template=env(("A", "1"), ("A", "2"))), id="with a variable set twice"),
        pytest.param(stored_job(suspend=True, labels={"kueue.x-k8s.io/max-exec-time-seconds": "5"}), id="limited"),
        pytest.param(stored_job(suspend=True, template=container(image="other")), id="not what was admitted"),
    ],
)
def test_a_start_makes_no_difference_where_all_pods_are_needed(job: Manifest) -> None:
    """So what was found out before it need not be found out again."""
    for made_for in (job, stored_job(suspend=True)):
        workload = workload_of(made_for, "QuotaReserved", "Admitted")
        running = _run(job, workload)
        assert is_equivalent(job, JOBS.pod_sets(job), workload, flavor, suspended=True) is is_equivalent(
            running, JOBS.pod_sets(running), workload, flavor, suspended=False
        )


def test_a_job_that_is_about_to_start_is_still_as_it_waited() -> None:
    job = stored_job(parallelism=5, annotations=PARTIAL, suspend=True)
    workload = workload_of(job, "QuotaReserved", "Admitted", count=3)

    assert is_equivalent(job, JOBS.pod_sets(job), workload, flavor, suspended=True)
    assert not is_equivalent(job, JOBS.pod_sets(job), workload, flavor, suspended=False)


def test_without_its_flavor_a_job_is_held_against_what_it_asked_for() -> None:
    job = stored_job()
    workload = workload_of(job, "QuotaReserved", flavor_name="gone")

    assert is_equivalent(job, JOBS.pod_sets(job), workload, flavor, suspended=False)
