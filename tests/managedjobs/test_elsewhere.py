"""Jobs that another server does the work of, as the state machine sees them."""

from typing import Any

import msgspec
import pytest

from fairway.managedjobs import instructions as told
from fairway.managedjobs.observation import JobObservation, ObservedRemote
from fairway.managedjobs.states import Phase
from fairway.managedjobs.status import ManagedJobStatus, Remote, RemoteCleanup, read, written

from .world import World, a_job, a_task


class Elsewhere(World):
    """A world with one other server, `b`, and a job there or not."""

    def __init__(self, infras: tuple[str, ...] = ("b",), **job: Any) -> None:
        super().__init__(a_job(tasks=(a_task(infras=infras, provision_timeout_seconds=60),), **job))
        self.context_known = True
        self.answers = True
        self.there: ObservedRemote | None = None
        self.changes: list[told.ChangeRemote] = []
        self._hands |= {told.Delegate: self._delegate, told.ChangeRemote: self._change}

    def seen(self) -> JobObservation:
        remote = None
        if self.life.infra:
            found = self.there if self.life.remote is not None else None
            remote = msgspec.structs.replace(
                found or ObservedRemote(), context_known=self.context_known, known=self.answers
            )
        return msgspec.structs.replace(super().seen(), remote=remote)

    def _delegate(self, one: told.Delegate) -> None:
        assert self.life.remote is not None
        assert one.name == self.life.remote.name
        if self.there is None:
            self.there = ObservedRemote(uid="uid-there", status={"phase": "PENDING"}, priority=self.base_priority)

    def _change(self, one: told.ChangeRemote) -> None:
        assert self.there is not None
        self.changes.append(one)
        wanted = {"hold": one.hold, "cancel": one.cancel, "priority": one.priority}
        given = {name: value for name, value in wanted.items() if value is not None}
        self.there = msgspec.structs.replace(self.there, **given)

    def says(self, **status: Any) -> None:
        """The other server tells of the job."""
        assert self.there is not None
        self.there = msgspec.structs.replace(self.there, status={**self.there.status, **status})
        self.settle()


def attempt(number: int, **fields: Any) -> dict[str, Any]:
    return {"task": 0, "attempt": number, "startedAt": "2026-01-01T00:00:10Z", **fields}


def test_a_job_is_handed_over_and_followed_to_its_end() -> None:
    world = Elsewhere()
    world.settle()
    assert (world.life.phase, world.life.reason, world.life.infra) == (Phase.PENDING, "Delegated", "b")
    assert world.life.remote == Remote(name=world.life.remote.name if world.life.remote else "", uid="uid-there")
    assert not world.workloads, "it does not queue here"

    world.says(phase="RUNNING", attempt=1, attempts=[attempt(1)], runningSince="2026-01-01T00:00:11Z")
    assert world.is_in(Phase.RUNNING)
    assert world.life.attempts[0].infra == "b"
    world.says(phase="RECOVERING", recoveries=1, preemptions=1, priority=10, reason="Preempted", runningSince=None)
    assert (world.life.phase, world.life.recoveries, world.life.priority) == (Phase.RECOVERING, 1, 10)
    world.says(phase="SUCCEEDED", ranSeconds=7)
    assert (world.life.phase, world.life.ran_seconds) == (Phase.SUCCEEDED, 7)


def test_what_another_server_says_in_words_that_are_not_known_here_is_said() -> None:
    world = Elsewhere()
    world.settle()
    world.says(phase="HIBERNATING")
    assert world.is_in(Phase.PENDING)
    assert "'HIBERNATING'" in world.life.message

    world.says(phase="RUNNING", attempt=1, attempts=[attempt(1)])
    assert world.is_in(Phase.RUNNING)


def test_what_happened_while_nobody_looked_is_caught_up_with() -> None:
    world = Elsewhere()
    world.settle()
    world.says(phase="FAILED", attempt=1, reason="Failed", message="exit code 3", attempts=[attempt(1, exitCode=3)])

    assert (world.life.phase, world.life.message) == (Phase.FAILED, "exit code 3")


def test_cancel_hold_and_priority_are_passed_on() -> None:
    world = Elsewhere()
    world.settle()
    world.ask(hold=True)
    world.base_priority = 40
    world.settle()
    assert [(one.hold, one.priority) for one in world.changes] == [(True, 40)]
    world.ask(hold=False, cancel=True)
    world.settle()
    assert world.is_in(Phase.CANCELLING)
    assert world.changes[-1].cancel

    world.says(phase="CANCELLED")
    assert world.is_in(Phase.CANCELLED)


def test_a_job_that_waited_too_long_there_comes_back_and_is_withdrawn() -> None:
    world = Elsewhere(("b", ""))
    world.settle()
    name = world.life.remote.name if world.life.remote else ""
    world.wait(60)
    world.settle()

    assert (world.life.candidate, world.life.infra, world.life.remote) == (1, "", None)
    assert world.life.withdrawing == (RemoteCleanup(infra="b", name=name),)
    assert len(world.workloads) == 1


def test_one_that_has_started_there_stays_there() -> None:
    world = Elsewhere(("b", ""))
    world.settle()
    world.says(phase="STARTING", attempt=1, attempts=[attempt(1)])
    world.wait(1000)
    world.settle()

    assert (world.life.candidate, world.life.phase) == (0, Phase.STARTING)


def test_attempts_there_are_counted_on_from_those_here() -> None:
    world = Elsewhere(("", "b")).running()
    world.preempt()
    world.wait(60)
    world.settle()
    assert world.life.infra == "b"

    world.says(phase="RUNNING", attempt=1, attempts=[attempt(1)])
    assert [(one.attempt, one.infra, one.cause) for one in world.life.attempts] == [(1, "", ""), (2, "b", "moved")]
    assert (world.life.attempt, world.life.recoveries) == (2, 1)


@pytest.mark.parametrize(
    ("infras", "want"),
    [
        pytest.param(("b",), Phase.FAILED_NO_RESOURCE, id="nowhere else to go"),
        pytest.param(("b", ""), Phase.PENDING, id="the next candidate"),
    ],
)
def test_a_context_that_nobody_knows_is_passed_over(infras: tuple[str, ...], want: Phase) -> None:
    world = Elsewhere(infras)
    world.context_known = False
    world.settle()

    assert world.is_in(want)
    assert [one.reason for one in world.life.passed] == ["UnknownContext"]


def test_a_server_that_refuses_the_job_is_passed_over() -> None:
    world = Elsewhere(("b", ""))
    world.answers = False
    world.settle(cut_off_after=2)
    world.there, world.refused = None, "user alice may not create managedjobs"
    world.settle()

    assert (world.life.candidate, world.life.passed[0].message) == (1, "user alice may not create managedjobs")


def test_a_server_that_does_not_answer_is_asked_again_and_then_left() -> None:
    world = Elsewhere(("b", ""))
    world.settle(cut_off_after=2)
    world.there, world.answers = None, False
    assert world.plan().do == (told.Delegate(context="b", name=world.life.remote.name if world.life.remote else ""),)

    world.wait(60)
    world.settle()
    assert world.life.candidate == 1
    assert world.life.withdrawing, "it may have got there"


def test_a_running_job_stays_as_it_was_while_its_server_does_not_answer() -> None:
    world = Elsewhere()
    world.settle()
    world.says(phase="RUNNING", attempt=1, attempts=[attempt(1)])
    world.answers, writes = False, world.writes
    world.there = None
    world.settle()

    assert (world.life.phase, world.writes) == (Phase.RUNNING, writes)


def test_a_job_that_is_gone_there_is_lost_and_begun_anew() -> None:
    world = Elsewhere()
    world.settle()
    world.says(phase="RUNNING", attempt=1, attempts=[attempt(1)])
    world.there = None
    world.settle()

    life = world.life
    assert (life.phase, life.recoveries, life.attempts[0].outcome) == (Phase.RECOVERING, 1, "Lost")
    world.says(phase="RUNNING", attempt=1, attempts=[attempt(1)])
    assert (world.life.attempt, world.life.attempts[-1].cause) == (2, "lost")


def test_a_status_says_all_that_is_remembered() -> None:
    life = ManagedJobStatus(
        remote=Remote(name="a", uid="b", attempt=2), withdrawing=(RemoteCleanup(infra="c", name="d"),)
    )
    assert read({"status": written(life)}) == life
