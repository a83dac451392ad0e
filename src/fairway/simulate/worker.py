"""The process that plays: `python -m fairway.simulate.worker`, started by `fairway.runner.workers`.

A question comes from the process that started it, as pickled values: what is asked, the scenario without its
Workloads, and these in parts. The answer is JSON.
"""

import pickle
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairway.errors import FairwayError, ValidationError
from fairway.runner.workers import answer_questions
from fairway.simulate.changes import changed, read_changes
from fairway.simulate.estimates import NOTHING_KNOWN
from fairway.simulate.forecast import forecast
from fairway.simulate.player import Player
from fairway.simulate.report import DEFAULT_LIMIT, comparison
from fairway.simulate.scenario import PreparedScenario, Scenario

DEFAULT_HORIZON_SECONDS: Final = 30 * 86400.0


def answer(frames: list[bytes]) -> bytes:
    """The answer to a question in frames."""
    question, scenario, *parts = (pickle.loads(frame) for frame in frames)  # noqa: S301 - from our own parent
    for part in parts:
        scenario.workloads += part
    try:
        found = _ANSWERS[question["kind"]](scenario, question)
    except ValidationError as problem:
        found = {"invalid": [[one.path, str(one.value), one.rule, one.message] for one in problem.errors]}
    except FairwayError as problem:
        found = {"failed": str(problem)}
    return msgspec.json.encode(found)


def _forecast(scenario: Scenario, question: dict[str, Any]) -> Any:
    began = time.process_time()
    return forecast(scenario, enough=lambda _: time.process_time() - began > question["seconds"])


def _compare(scenario: Scenario, question: dict[str, Any]) -> Any:
    return {"status": compared(scenario, question["spec"])}


def compared(scenario: Scenario, spec: dict[str, Any], notes: list[str] | None = None) -> dict[str, Any]:
    """The `status` of a Simulation: the scenario as it is, and with the changes of a spec."""
    began = time.process_time()
    until = scenario.at + float(spec.get("horizonSeconds") or DEFAULT_HORIZON_SECONDS)
    changes = read_changes(spec.get("changes"))
    other = changed(scenario, changes)
    before = after = (scenario, _played(scenario, until))
    if changes:
        after = (other, _played(other, until))
    limit = int(spec.get("limit") or DEFAULT_LIMIT)
    status = comparison(before, after, limit=limit, notes=[*(notes or ()), *_assumptions(scenario)])
    return status | {"computedSeconds": round(time.process_time() - began, 3)}


def _played(scenario: Scenario, until: float) -> Player:
    player = PreparedScenario.of(scenario).player()
    player.run(until)
    return player


def _assumptions(scenario: Scenario) -> list[str]:
    guessed = sum(one.estimate.basis == NOTHING_KNOWN for one in scenario.workloads)
    if not guessed:
        return []
    return [f"{guessed} jobs have no max_duration, and none like them has ended here: an hour each is assumed"]


_ANSWERS: Final[dict[str, Callable[[Scenario, dict[str, Any]], Any]]] = {"forecast": _forecast, "compare": _compare}

if __name__ == "__main__":
    answer_questions(answer)
