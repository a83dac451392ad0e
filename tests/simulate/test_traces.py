"""Traces: the Standard Workload Format, Kueue's generator files, Fairway's own history; wrong lines are named."""

from typing import Any

import pytest

from fairway.simulate.generator import read_generator
from fairway.simulate.playing import trace_scenario
from fairway.simulate.traces import BadTraceError, read_history, read_swf

GOOD = "1 0 5 100 4 -1 -1 8 200 -1 1 3 1 -1 2 -1 -1 -1"
CANCELLED = "2 10 -1 -1 0 -1 -1 4 60 -1 5 2 1 -1 1 -1 -1 -1"


def test_a_line_is_a_job() -> None:
    trace = read_swf(f"; MaxProcs: 64\n\n{GOOD}\n{CANCELLED}\n")
    (job,) = trace.jobs
    assert (job.key, job.queue, job.user) == ("default/job-1", "queue-2", "user-3")
    assert (job.submitted, job.seconds, job.declared) == (0, 100, 200)
    assert job.requests == (("cpu", "8"),)
    assert trace.waits == {"default/job-1": 5}
    assert trace.notes == ["1 jobs without a run time or processors are left out: they never started"]
    quota = trace.objects[2]["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert quota == [{"name": "cpu", "nominalQuota": "64"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("1 2 3", "line 1: 3 fields, a job has 18", id="too few fields"),
        pytest.param(f"{GOOD}\n;\n{GOOD} 7", "line 3: 19 fields", id="too many fields"),
        pytest.param(GOOD.replace("100", "soon"), "line 1: 'soon' is not a number", id="not a number"),
        pytest.param(GOOD.replace("1 0 5", "1 -3 5"), "line 1: submit time -3 is negative", id="before time began"),
        pytest.param(f"{GOOD}\n{GOOD}", "line 2: there is a job 1 already", id="a number twice"),
        pytest.param("x\n" * 9, "(and 4 more)", id="many at once"),
    ],
)
def test_a_bad_line_is_named_by_its_number(text: str, words: str) -> None:
    with pytest.raises(BadTraceError) as problem:
        read_swf(text)
    assert words in str(problem.value)
    assert "--skip-bad-lines" in str(problem.value)
    assert "could not be read" in read_swf(text, skip_bad_lines=True).notes[0]


GENERATOR: dict[str, Any] = {
    "cohorts": [
        {
            "className": "cohort",
            "count": 2,
            "queuesSets": [
                {
                    "className": "cq",
                    "count": 3,
                    "nominalQuota": 20,
                    "borrowingLimit": "100",
                    "reclaimWithinCohort": "Any",
                    "withinClusterQueue": "LowerPriority",
                    "workloadsSets": [
                        {
                            "count": 2,
                            "creationIntervalMs": 100,
                            "workloads": [
                                {"className": "small", "runtimeMs": 200, "priority": 50, "request": 1},
                                {
                                    "className": "large",
                                    "runtimeMs": 500,
                                    "priority": 90,
                                    "request": "20",
                                    "podCount": 2,
                                },
                            ],
                        }
                    ],
                }
            ],
        }
    ]
}


def test_a_generator_file_is_read_as_kueues_runner_does() -> None:
    trace = read_generator(GENERATOR)
    assert len(trace.jobs) == 2 * 3 * 2 * 2
    first = [job for job in trace.jobs if job.queue == "cohort-0-cq-0"]
    assert [(job.name, job.submitted, job.seconds, job.pods) for job in first] == [
        ("small-0-0-0", 0.1, 0.2, 1),
        ("large-0-0-1", 0.2, 0.5, 2),
        ("small-0-1-0", 0.3, 0.2, 1),
        ("large-0-1-1", 0.4, 0.5, 2),
    ]
    scenario, notes = trace_scenario(trace)
    assert not notes
    assert len(list(scenario.of_kind("ClusterQueue"))) == 6


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "cohorts"),
        ({"cohorts": []}, "at least one cohort"),
        ({"cohorts": [{"count": "two"}]}, "$.cohorts[0].count"),
        ("text", "object"),
    ],
)
def test_another_file_is_no_generator_file(document: Any, words: str) -> None:
    with pytest.raises(BadTraceError, match=r"generator file|cohort") as problem:
        read_generator(document)
    assert words in str(problem.value)


ATTEMPT: dict[str, Any] = {
    "metadata": {"name": "w-2", "namespace": "ml"},
    "workload": "w",
    "user": "ana",
    "queue": "training",
    "priority": 5,
    "queued": "2026-11-17T23:10:00Z",
    "started": "2026-11-17T23:12:00Z",
    "ended": "2026-11-17T23:40:00Z",
    "waitSeconds": 120,
    "outcome": "Succeeded",
    "resources": {"cpu": "4", "nvidia.com/gpu": "1"},
}


def test_a_history_has_each_job_once_with_its_last_attempt() -> None:
    trace = read_history([{**ATTEMPT, "outcome": "Preempted"}, ATTEMPT])
    (job,) = trace.jobs
    assert (job.key, job.queue, job.seconds, job.priority) == ("ml/w", "training", 1680, 5)
    assert job.requests == (("cpu", "4"), ("nvidia.com/gpu", "1"))
    assert trace.waits == {"ml/w": 120}
    assert trace.notes == ["1 attempts that did not come to their own end are left out"]


def test_an_item_that_is_no_attempt_is_named() -> None:
    with pytest.raises(BadTraceError, match=r"items\[1\] is no attempt"):
        read_history([ATTEMPT, {"outcome": "Succeeded"}])


def test_jobs_of_unknown_queues_go_to_the_one_that_is_named() -> None:
    trace = read_swf(f"; MaxProcs: 64\n{GOOD}")
    trace.objects[-1]["metadata"]["name"] = "other"
    scenario, notes = trace_scenario(trace)
    assert scenario.jobs[0].queue == "other"
    assert notes == ["1 jobs name a LocalQueue that is not there and are put into default/other"]
    with pytest.raises(BadTraceError, match="--queue"):
        trace_scenario(trace, "nowhere")
