"""The player: the same each time, within quota at every moment, and first come, first served."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.admission import events
from fairway.admission.config import Config
from fairway.apis.kueue.manifests import encode
from fairway.apis.machinery.kind import Manifest
from fairway.errors import ValidationError
from fairway.simulate.changes import changed, read_changes
from fairway.simulate.jobs import TraceJob
from fairway.simulate.player import JobRun, Player
from fairway.simulate.playing import trace_scenario
from fairway.simulate.report import comparison, summary
from fairway.simulate.scenario import PreparedScenario, Scenario
from fairway.simulate.traces import JobTrace, one_queue
from fairway.testing.builders import cluster_queue, flavor, local_queue


def job(
    name: str, at: float = 0.0, *, cpu: int = 1, seconds: float = 10.0, priority: int = 0, queue: str = "a"
) -> TraceJob:
    requests = (("cpu", str(cpu)),)
    return TraceJob(name=name, queue=queue, submitted=at, seconds=seconds, requests=requests, priority=priority)


def two_queues(**options: str) -> list[Manifest]:
    """Two ClusterQueues of 4 cpu each that lend to each other."""
    queues = [cluster_queue(name, cpu=4, cohort="all", **options) for name in "ab"]  # type: ignore[arg-type]
    local = [local_queue(name, name, namespace="default") for name in "ab"]
    return [encode(flavor()), *map(encode, queues), *map(encode, local)]


def scenario(jobs: list[TraceJob], objects: list[Manifest] | None = None, config: Config | None = None) -> Scenario:
    trace = JobTrace(jobs=jobs, objects=two_queues() if objects is None else objects)
    return trace_scenario(trace, config=config)[0]


def played(of: Scenario) -> Player:
    player = PreparedScenario.of(of).player()
    player.run(of.at + 1e9)
    return player


jobs_lists = st.lists(
    st.builds(
        lambda number, at, cpu, seconds, priority, queue: job(
            f"j{number}", float(at), cpu=cpu, seconds=float(seconds), priority=priority, queue=queue
        ),
        st.integers(0, 10**6),
        st.integers(0, 60),
        st.integers(1, 5),
        st.integers(0, 30),
        st.sampled_from([0, 0, 10]),
        st.sampled_from("ab"),
    ),
    max_size=25,
    unique_by=lambda one: one.name,
)
policies = st.sampled_from(
    [{}, {"within": "LowerPriority"}, {"within": "LowerPriority", "reclaim": "Any"}, {"strategy": "StrictFIFO"}]
)


@settings(max_examples=30, deadline=None)
@given(jobs_lists, policies, st.sampled_from([0.0, 1.0, 5.0]))
def test_quota_is_never_exceeded_at_any_moment(jobs: list[TraceJob], options: dict[str, str], release: float) -> None:
    of = scenario(jobs, two_queues(**options))
    of.release_seconds = release
    player = PreparedScenario.of(of).player()
    while player._step(1e9):
        assert player.usage.used.get(("default", "cpu"), 0) <= 8000
        assert not player.engine.violations()
        assert not player.engine.overused()
    assert all(run.ended is not None for run in player.runs.values())
    assert player.waiting == 0


@settings(max_examples=15, deadline=None)
@given(jobs_lists, policies)
def test_the_same_scenario_ends_the_same_each_time(jobs: list[TraceJob], options: dict[str, str]) -> None:
    of = scenario(jobs, two_queues(**options))
    assert list(played(of).runs.values()) == list(played(of).runs.values())


@settings(max_examples=15, deadline=None)
@given(jobs_lists)
def test_no_change_changes_nothing(jobs: list[TraceJob]) -> None:
    of = scenario(jobs)
    same = changed(of, read_changes([{"quota": {"clusterQueue": "a", "resource": "cpu", "nominal": "+0"}}]))
    status = comparison((of, played(of)), (same, played(same)))
    assert status["before"] == status["after"]
    assert {one["change"] for one in status["jobs"]} <= {"same"}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(1, 3))
def test_equal_jobs_of_a_strict_queue_start_and_end_in_the_order_of_their_submission(at: list[int], cpu: int) -> None:
    jobs = [job(f"j{number:02d}", float(when), cpu=cpu, queue="default") for number, when in enumerate(sorted(at))]
    objects = one_queue({"cpu": "4"}, ["default"])
    objects[2]["spec"]["queueingStrategy"] = "StrictFIFO"
    runs = played(scenario(jobs, objects)).runs
    starts = [runs[one.key].started or 0.0 for one in jobs]
    ends = [runs[one.key].ended or 0.0 for one in jobs]
    assert starts == sorted(starts)
    assert ends == sorted(ends)


def test_a_preempted_job_starts_over() -> None:
    jobs = [job("low", 0, cpu=4, seconds=10), job("high", 4, cpu=4, seconds=5, priority=9)]
    objects = [one for one in two_queues(within="LowerPriority") if one["metadata"]["name"] != "b"]
    runs = played(scenario(jobs, objects)).runs
    assert runs["default/high"] == JobRun("default/high", 4, 5, started=4, ended=9, began=4, cluster_queue="a")
    low = runs["default/low"]
    assert (low.started, low.preemptions, low.ended) == (0, 1, 19)


def test_the_figures_of_a_run() -> None:
    jobs = [job("one", 0, cpu=4, seconds=10, queue="default"), job("two", 0, cpu=4, seconds=10, queue="default")]
    of = scenario(jobs, one_queue({"cpu": "4"}, ["default"]))
    found = summary(of, played(of))
    assert found["wait"] == {"mean": 5.0, "p50": 10.0, "p90": 10.0, "max": 10.0}
    assert (found["jobs"], found["finished"], found["makespanSeconds"]) == (2, 2, 20.0)
    assert found["use"] == [{"flavor": "default", "resource": "cpu", "nominal": "4", "ratio": 1.0}]
    assert [point["waiting"] for point in found["timeline"]] == [1, 0, 0]


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"quota": {"clusterQueue": "x", "resource": "cpu", "nominal": 1}},
         "spec.changes[0].quota.clusterQueue", "there are a, b"),
        ({"quota": {"clusterQueue": "a", "resource": "gpu", "nominal": 1}},
         "spec.changes[0].quota.resource", "quota of default/cpu"),
        ({"quota": {"clusterQueue": "a", "resource": "cpu", "nominal": "-9"}},
         "spec.changes[0].quota.nominal", "less than nothing"),
        ({"quota": {"clusterQueue": "a", "resource": "cpu", "nominal": "4x"}}, "spec.changes[0].quota.nominal", ""),
        ({"job": {"requests": {"cpu": 1}, "queue": "x"}}, "spec.changes[0].job.queue", "there are a, b"),
        ({"job": {"requests": {"cpu": 1}, "queue": "a", "count": 0}}, "spec.changes[0].job.count", "from 1"),
        ({"node": {"resources": {"cpu": 1}}}, "spec.changes[0].node.clusterQueue", "a, b"),
        ({"priority": {"name": "x", "priority": 1}}, "spec.changes[0].priority.name", "no job of this name"),
        ({"policy": {"clusterQueue": "a"}}, "spec.changes[0].policy", "changes nothing"),
        ({"policy": {"clusterQueue": "a", "withinClusterQueue": "Sometimes"}}, "spec.changes[0].policy", "Sometimes"),
        ({"apply": {"kind": "Pod", "metadata": {"name": "p"}}}, "spec.changes[0].apply.kind", "ClusterQueue"),
        ({}, "spec.changes[0]", "exactly one"),
        ({"quotas": {}}, "spec.changes[0]", "quotas"),
    ],
)  # fmt: skip
def test_a_wrong_change_names_its_field(change: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(ValidationError) as problem:
        changed(scenario([]), read_changes([change]))
    assert problem.value.errors[0].path == path
    assert words in str(problem.value)


@pytest.mark.parametrize(
    ("change", "starts"),
    [
        pytest.param({"quota": {"clusterQueue": "default", "resource": "cpu", "nominal": "+4"}}, [0, 0], id="quota"),
        pytest.param({"node": {"resources": {"cpu": "4"}}}, [0, 0], id="a node"),
        pytest.param(
            {"job": {"requests": {"cpu": 4}, "durationSeconds": 5, "priority": 1}}, [5, 15], id="a job before"
        ),
        pytest.param({"policy": {"clusterQueue": "default", "stopPolicy": "Hold"}}, [None, None], id="a stopped queue"),
    ],
)
def test_what_a_change_leads_to(change: dict[str, object], starts: list[float | None]) -> None:
    jobs = [job("one", 0, cpu=4, queue="default"), job("two", 0, cpu=4, queue="default")]
    of = scenario(jobs, one_queue({"cpu": "4"}, ["default"]))
    runs = played(changed(of, read_changes([change]))).runs
    assert [runs[f"default/{name}"].started for name in ("one", "two")] == starts
    assert [run.started for run in played(of).runs.values()] == [0, 10]


def test_without_jobs_no_time_passes() -> None:
    at = 5.0
    player = Player(Config(), [events.TimePassed(at=at)], (), (), at=at)
    player.run()
    assert player.now == at
