"""What became of the specs of a suite, and which of them do not apply to Fairway."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/develop/kueue-suites.md"
"""Lists the specs that do not apply; the only place where they are listed."""

_HEADING = "## Specs that do not apply"
_ITEM = re.compile(r"- `([\w/*]+)`: (.+)")


@dataclass(frozen=True)
class Exclusion:
    """Specs that do not apply: the suite, the name of the spec (either may have `*`), and why."""

    suite: str
    name: str
    reason: str

    def covers(self, suite: str, name: str) -> bool:
        literal = self.name.replace("[", "[[]")
        return fnmatchcase(suite, self.suite) and fnmatchcase(name, literal)


@dataclass(frozen=True)
class Spec:
    """One spec of a run: `passed`, `failed`, `skipped` or `not applicable`."""

    name: str
    state: str
    seconds: float
    reason: str = ""
    """Why it failed, or does not apply."""

    place: str = ""


@dataclass(frozen=True)
class SuiteResult:
    """The specs of one suite; `error` if it did not come to its end."""

    suite: str
    specs: tuple[Spec, ...]
    error: str = ""

    def count(self, state: str) -> int:
        return sum(spec.state == state for spec in self.specs)


def exclusions(page: Path = PAGE) -> list[Exclusion]:
    """The specs of the page that do not apply, each with the heading that it is listed under."""
    text = page.read_text(encoding="utf-8")
    found, reason = [], ""
    for line in text[text.index(_HEADING) :].splitlines()[1:]:
        if line.startswith("### "):
            reason = line[4:]
        elif item := _ITEM.fullmatch(line):
            found.append(Exclusion(item[1], item[2], reason))
    return found


def read(suite: str, report: Path, excluded: Iterable[Exclusion]) -> SuiteResult:
    """The result of a run, from Ginkgo's report of it."""
    if not report.is_file():
        return SuiteResult(suite, (), "no report was written")
    mine = [one for one in excluded if fnmatchcase(suite, one.suite)]
    specs, errors = [], []
    for run in json.loads(report.read_text()):
        for one in run.get("SpecReports") or ():
            failure = (one.get("Failure") or {}).get("Message") or ""
            if one["LeafNodeType"] == "It":
                specs.append(_spec(suite, one, failure, mine))
            elif failure:
                errors.append(f"{one['LeafNodeType']}: {failure.strip()}")
        errors += run.get("SpecialSuiteFailureReasons") or () if not specs else ()
    return SuiteResult(suite, tuple(specs), "; ".join(errors)[:500])


def _spec(suite: str, one: dict[str, object], failure: str, excluded: list[Exclusion]) -> Spec:
    name = " > ".join([*(one["ContainerHierarchyTexts"] or ()), str(one["LeafNodeText"])])  # type: ignore[misc]
    seconds = float(one["RunTime"]) / 1e9  # type: ignore[arg-type]
    state = str(one["State"])
    why = next((each.reason for each in excluded if each.covers(suite, name)), None)
    if why is not None:
        return Spec(name, "not applicable", seconds, why)
    if state in {"skipped", "pending"}:
        return Spec(name, "skipped", seconds)
    if state == "passed":
        return Spec(name, "passed", seconds)
    place = (one.get("Failure") or {}).get("Location") or {}  # type: ignore[attr-defined]
    return Spec(
        name, "failed", seconds, failure.strip(), f"{Path(place.get('FileName', '')).name}:{place.get('LineNumber')}"
    )
