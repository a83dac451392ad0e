"""What never happens to a job, whatever its pods and people do, and what happens in the end.

Random lives are played with restarts at any point between two writes; every status is checked by the server's rules.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob.decide import NOTHING
from fairway.controllers.batchjob.observe import Indexes
from fairway.controllers.batchjob.statuses import is_over

from .things import Play, job

SPECS = st.fixed_dictionaries(
    {
        "parallelism": st.integers(0, 4),
        "completions": st.integers(0, 5),
        "backoffLimit": st.integers(0, 6),
        "podReplacementPolicy": st.sampled_from(["Failed", "TerminatingOrFailed"]),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed"]),
        "suspend": st.booleans(),
    },
    optional={"activeDeadlineSeconds": st.integers(1, 2000)},
)
BY_INDEX = st.fixed_dictionaries({"backoffLimitPerIndex": st.integers(0, 2)}, optional={"maxFailedIndexes": st.just(1)})
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "start",
                "start",
                "succeed",
                "succeed",
                "fail",
                "delete",
                "wait",
                "suspend",
                "resume",
                "scale",
                "restart",
                "crash",
            ]
        ),
        st.integers(0, 20),
    ),
    max_size=40,
)


def a_play(spec: dict[str, Any], by_index: dict[str, Any]) -> Play:
    if spec["completionMode"] == "Indexed":
        spec = {**spec, **by_index}
        spec["parallelism"] = min(spec["parallelism"], spec["completions"])
        if "maxFailedIndexes" in spec:
            spec["maxFailedIndexes"] = min(1, spec["completions"])
    return Play(job(**spec))


def do(play: Play, deed: str, number: int) -> None:
    pods = sorted(play.unfinished() if deed in ("succeed", "fail", "start") else play.pods)
    if deed == "wait":
        play.wait(number * 5)
    elif deed in ("suspend", "resume"):
        play.change(suspend=deed == "suspend")
    elif deed == "scale":
        play.change(parallelism=number % 5)
    elif deed == "crash":
        play.sync(most_steps=number % 3)
        play.forget()
    elif deed == "restart":
        play.forget()
    elif pods:
        name = pods[number % len(pods)]
        if deed == "start" and not facts.is_deleted(play.pods[name]):
            play.start(name)
        elif deed in ("succeed", "fail") and play.pods[name]["spec"].get("nodeName"):
            play.end(name, well=deed == "succeed")
        elif deed == "delete":
            play.delete(name)


def check(play: Play) -> None:
    """What holds whenever nothing is left to do."""
    spec, status = play.job["spec"], play.job["status"]
    active = play.active()
    again = play.plan()
    assert again.is_last
    assert again.status is None
    if is_over(status):
        assert again == NOTHING
        assert not active
        return
    assert len(active) <= (0 if spec["suspend"] else spec["parallelism"])
    assert status.get("active", 0) == len(active)
    assert status.get("succeeded", 0) + len(active) <= max(spec["completions"], status.get("succeeded", 0))
    if spec["completionMode"] == "Indexed":
        working = [facts.index(play.pods[name]) for name in active]
        settled = Indexes.read(status.get("completedIndexes"), 99).joined(Indexes.read(status.get("failedIndexes"), 99))
        assert len(working) == len(set(working))
        assert not [index for index in working if index is None or index in settled]


@settings(max_examples=200, deadline=None)
@given(SPECS, BY_INDEX, DEEDS)
def test_whatever_happens_a_job_keeps_its_promises(
    spec: dict[str, Any], by_index: dict[str, Any], deeds: list[tuple[str, int]]
) -> None:
    play = a_play(spec, by_index)
    before = {"succeeded": 0, "failed": 0}
    made_when_over = None
    for deed, number in deeds:
        do(play, deed, number)
        assert play.sync()
        check(play)
        now = {field: play.job["status"].get(field, 0) for field in before}
        assert all(now[field] >= before[field] for field in before)
        before = now
        if is_over(play.job["status"]):
            made_when_over = play.made if made_when_over is None else made_when_over
            assert play.made == made_when_over


@settings(max_examples=100, deadline=None)
@given(SPECS, BY_INDEX, DEEDS)
def test_every_success_is_counted_once_and_no_work_is_done_twice(
    spec: dict[str, Any], by_index: dict[str, Any], deeds: list[tuple[str, int]]
) -> None:
    """Nobody deletes pods or suspends here, so each pod that succeeds must be in the status, whatever crashes."""
    play = a_play({**spec, "suspend": False}, by_index)
    succeeded = 0
    for deed, number in deeds:
        if deed in ("delete", "suspend", "scale"):
            continue
        before = sum(facts.phase(pod) == "Succeeded" for pod in play.pods.values())
        do(play, deed, number)
        if not is_over(play.job["status"]):
            succeeded += sum(facts.phase(pod) == "Succeeded" for pod in play.pods.values()) - before
        assert play.sync()
        if not is_over(play.job["status"]):
            assert play.job["status"].get("succeeded", 0) == succeeded
    assert play.job["status"].get("succeeded", 0) <= spec["completions"]


@settings(max_examples=100, deadline=None)
@given(SPECS, BY_INDEX, DEEDS)
def test_left_alone_every_job_comes_to_its_end(
    spec: dict[str, Any], by_index: dict[str, Any], deeds: list[tuple[str, int]]
) -> None:
    play = a_play(spec, by_index)
    for deed, number in deeds:
        do(play, deed, number)
        play.sync()
    play.change(suspend=False, parallelism=2)
    for _ in range(3 * spec["completions"] + 20):
        play.sync()
        play.wait(600)
        for name in play.unfinished():
            play.start(name)
            play.end(name, well=True)
    play.sync()

    assert is_over(play.job["status"])
