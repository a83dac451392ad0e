"""What the command line reads of a job, and the figures that follow from it."""

from typing import Any

import msgspec
import pytest

from fairway.cli.jobs.records import decode_jobs, decode_waiting, requested, waiting_of

from .looking import NOW, ago, job, known, waiting


@pytest.mark.parametrize(
    ("fields", "waited", "ran"),
    [
        pytest.param({"phase": ""}, 600, 0, id="nobody has looked at it yet"),
        pytest.param({"phase": "PENDING"}, 600, 0, id="it waits"),
        pytest.param({"phase": "STARTING", "startedAt": ago(10)}, 600, 0, id="starting is not running"),
        pytest.param({"phase": "RUNNING", "runningSince": ago(200)}, 400, 200, id="it runs"),
        pytest.param(
            {"phase": "RUNNING", "runningSince": ago(100), "ranSeconds": 50}, 450, 150, id="it runs for the second time"
        ),
        pytest.param({"phase": "RECOVERING", "ranSeconds": 50}, 550, 50, id="it waits again"),
        pytest.param({"phase": "SUCCEEDED", "ranSeconds": 50, "endedAt": ago(300)}, 250, 50, id="it ended"),
        pytest.param(
            {"phase": "FAILED", "ranSeconds": 50, "runningSince": ago(500), "endedAt": ago(300)},
            250,
            50,
            id="of one that ended, what is left of a clock does not count",
        ),
        pytest.param({"phase": "RUNNING", "runningSince": ago(-5)}, 600, 0, id="clocks that disagree"),
    ],
)
def test_how_long_it_waited_and_ran(fields: dict[str, Any], waited: float, ran: float) -> None:
    one = job(1, **fields)

    assert (one.waited_for(NOW), one.ran_for(NOW)) == (waited, ran)


@pytest.mark.parametrize(
    ("task", "candidate", "want"),
    [
        pytest.param({}, 0, "1 cpu", id="nothing"),
        pytest.param({"resources": {"cpus": 6}}, 0, "6 cpu", id="cpus"),
        pytest.param({"resources": {"cpus": "4+", "memory": "16+"}}, 0, "4+ cpu, 16Gi+", id="at least"),
        pytest.param({"resources": {"memory": "16GB"}}, 0, "1 cpu, 16Gi", id="memory with a unit"),
        pytest.param({"resources": {"accelerators": "T4:4"}}, 0, "T4:4", id="accelerators"),
        pytest.param({"resources": {"accelerators": {"T4": 4, "A100": None}}}, 0, "T4:4 or A100:1", id="a map of them"),
        pytest.param({"resources": {"accelerators": ["T4:4", "L4:2"]}}, 0, "T4:4 or L4:2", id="a list of them"),
        pytest.param({"num_nodes": 3, "resources": {"cpus": 2}}, 0, "3x(2 cpu)", id="several nodes"),
        pytest.param({"num_nodes": "three"}, 0, "1 cpu", id="a number of nodes that is none"),
        pytest.param({"resources": ["cpus"]}, 0, "1 cpu", id="resources that are none"),
        pytest.param(
            {"resources": {"cpus": 2, "any_of": [{"cpus": 4}, {"infra": "k8s/other"}]}},
            0,
            "4 cpu",
            id="the first choice",
        ),
        pytest.param(
            {"resources": {"cpus": 2, "ordered": [{"cpus": 4}, {"infra": "k8s/other"}]}}, 1, "2 cpu", id="the second"
        ),
    ],
)
def test_what_is_asked_for(task: dict[str, Any], candidate: int, want: str) -> None:
    assert requested(job(1, spec={"tasks": [task]}, candidate=candidate)) == want


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({}, {"preemptions": 0}, 0, id="never preempted"),
        pytest.param({}, {"preemptions": 3}, 30, id="ten for each"),
        pytest.param({}, {"preemptions": 99}, 100, id="to the cap"),
        pytest.param({"aging": {"step": 5, "cap": 7}}, {"preemptions": 2}, 7, id="as the job says"),
        pytest.param({"aging": {"step": 0}}, {"preemptions": 2}, 0, id="without aging"),
    ],
)
def test_how_far_preemptions_raised_it(spec: dict[str, Any], status: dict[str, Any], want: int) -> None:
    assert job(1, spec=spec, **status).raised_by == want


def test_a_pipeline_asks_for_what_its_present_task_does() -> None:
    tasks = [{"resources": {"cpus": 1}}, {"resources": {"cpus": 8}}]

    assert requested(job(1, spec={"tasks": tasks}, task=1)) == "8 cpu"


def test_the_queue_of_a_job_that_names_none_is_the_default_one() -> None:
    unnamed = job(1, spec={"queue": ""})

    assert unnamed.queue(None) == "default"
    assert unnamed.queue(waiting(unnamed, localQueue="elsewhere")) == "elsewhere"
    assert job(1, spec={"queue": ""}, workload="").queue(None) == ""


def test_a_job_is_found_in_the_queue_by_its_workload() -> None:
    one, other = job(1), job(2)
    entries = known(waiting(one, 4))

    assert waiting_of(one, entries) is entries["default", one.status.workload]
    assert waiting_of(other, entries) is None
    assert waiting_of(job(3, workload=""), entries) is None


def test_fields_that_nobody_shows_are_passed_over() -> None:
    items = [{"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"tasks": [{"run": "x"}], "new": [1]}}]

    (found,) = decode_jobs(msgspec.json.encode({"kind": "List", "items": items})).items

    assert (found.name, found.phase, found.is_live) == ("a", "PENDING", True)
    assert decode_waiting(b'{"items":[{"metadata":{"name":"w"},"owner":null,"extra":{}}]}').items[0].owner is None
