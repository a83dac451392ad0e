"""Names of pods: readable, valid, and never the same for two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.names import label_faults
from fairway.managedjobs.pods import group_name, pod_name

from .jobs import managed_job


@pytest.mark.parametrize(
    ("job", "tasks", "task", "attempt", "rank", "name"),
    [
        pytest.param("train-7", 1, 0, 1, 0, "train-7-1-head", id="the head"),
        pytest.param("train-7", 1, 0, 12, 3, "train-7-12-worker3", id="a worker of a later attempt"),
        pytest.param("train-7", 3, 2, 1, 0, "train-7-t2-1-head", id="a task of a pipeline"),
        pytest.param("a" * 56, 1, 0, 1, 0, f"{'a' * 56}-1-head", id="the longest that stays"),
        pytest.param("a" * 57, 1, 0, 1, 0, f"{'a' * 47}-f13b2d72-1-head", id="the first that is shortened"),
        pytest.param(f"a{'-' * 60}b", 1, 0, 1, 0, "a-6cf94197-1-head", id="no dashes pile up where it is cut"),
        pytest.param("train-t0", 1, 0, 1, 0, "train-t0-0cf26c90-1-head", id="one that looks like a pipeline's"),
    ],
)
def test_names_of_pods(job: str, tasks: int, task: int, attempt: int, rank: int, name: str) -> None:
    assert pod_name(managed_job(job, tasks=tasks), task, attempt, rank) == name


_JOBS = st.from_regex(r"[a-c]([-a-ct01]{0,61}[a-ct01])?", fullmatch=True) | st.from_regex(
    r"a(-t[01]|-1|-head|b{20}){0,6}", fullmatch=True
).filter(lambda name: len(name) <= 63)
_ATTEMPTS = st.tuples(_JOBS, st.booleans(), st.integers(0, 12), st.integers(1, 10**6), st.integers(0, 999))


@given(st.lists(_ATTEMPTS, min_size=2, max_size=8, unique=True))
def test_names_are_hosts_and_each_belongs_to_one_pod(attempts: list[tuple[str, bool, int, int, int]]) -> None:
    pipelines = {job: pipeline for job, pipeline, *_ in attempts}
    pods = {
        (job, task if pipelines[job] else 0, attempt, rank): pod_name(
            managed_job(job, tasks=13 if pipelines[job] else 1), task if pipelines[job] else 0, attempt, rank
        )
        for job, _, task, attempt, rank in attempts
    }
    assert all(not label_faults(name) for name in pods.values())
    assert len(set(pods.values())) == len(pods)


@given(_JOBS, st.booleans(), st.integers(1, 10**6), st.integers(0, 999))
def test_attempts_have_a_name_of_their_own(job: str, pipeline: bool, attempt: int, rank: int) -> None:  # noqa: FBT001
    owner = managed_job(job, tasks=2 if pipeline else 1)
    name = group_name(owner, 0, attempt)
    assert not label_faults(name)
    assert name != group_name(owner, 0, attempt + 1)
    assert pod_name(owner, 0, attempt, rank).endswith(f"-{attempt}-{f'worker{rank}' if rank else 'head'}")
