"""Which jobs people mean: ids, names, ranges of ids (`3-7`) and patterns of names (`train-*`)."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from fairway.client.rest import paths
from fairway.errors import FairwayError, Forbidden, NotFound

if TYPE_CHECKING:
    from fairway.cli.session import Session

Manifest = dict[str, Any]

_RANGE: Final = re.compile(r"(\d+)-(\d+)")
_PATTERN: Final = re.compile(r"[*?\[]")

ENDED: Final = frozenset(
    {
        "SUCCEEDED",
        "CANCELLED",
        "FAILED",
        "FAILED_SETUP",
        "FAILED_PRECHECKS",
        "FAILED_NO_RESOURCE",
        "FAILED_CONTROLLER",
    }
)
"""The phases that nothing follows but a retry."""


class NoSuchJobError(FairwayError):
    """Words that no job answers to; all of them are named."""


def id_of(job: Manifest) -> int:
    return int(job["spec"].get("id", 0))


def name_of(job: Manifest) -> str:
    """What people called it; else what the server did."""
    return str(job["spec"].get("name") or job["metadata"]["name"])


def phase_of(job: Manifest) -> str:
    return str((job.get("status") or {}).get("phase") or "PENDING")


def has_ended(job: Manifest) -> bool:
    return phase_of(job) in ENDED


def title(job: Manifest) -> str:
    """A job in a sentence: `3 (train)`."""
    return f"{id_of(job)} ({name_of(job)})"


def all_jobs(session: "Session") -> list[Manifest]:
    """What the server shows of the namespace, or of all of them, in the order of their ids."""
    return sorted(session.rest.get(paths.jobs(session.scope))["items"], key=id_of)


def resolve_jobs(session: "Session", words: Sequence[str]) -> list[Manifest]:
    """The jobs that match ids, names, ranges and patterns, each once, in the order of the arguments.

    A name is that of the object, or the display name, which several jobs may have. All arguments without a match are
    named in one error.
    """
    if len(words) == 1 and not _is_number(words[0]) and not _PATTERN.search(words[0]):
        exact = _exact(session, words[0])
        if exact is not None:
            return [exact]
    found: dict[tuple[str, str], Manifest] = {}
    unknown = []
    known = all_jobs(session)
    elsewhere = _Elsewhere(session)
    for word in words:
        meant = [*_meant(word, known)] or ([*_meant(word, elsewhere.jobs())] if _is_number(word) else [])
        if not meant:
            unknown.append(word)
        found.update(((job["metadata"]["namespace"], job["metadata"]["name"]), job) for job in meant)
    if unknown:
        where = "" if session.all_namespaces else f" in namespace {session.namespace}"
        raise NoSuchJobError(f"there is no job {_listed(unknown)}{where}; `fairway jobs queue -a` lists all jobs")
    return list(found.values())


def newest(jobs: Iterable[Manifest]) -> Manifest | None:
    return max(jobs, key=id_of, default=None)


class _Elsewhere:
    """The jobs of all namespaces: an id means the same job everywhere, so it need not be said where it is."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._jobs: list[Manifest] | None = None

    def jobs(self) -> list[Manifest]:
        if self._jobs is None:
            try:
                self._jobs = self._session.rest.get(paths.jobs(None))["items"]
            except Forbidden:
                self._jobs = []
        return self._jobs


def _exact(session: "Session", name: str) -> Manifest | None:
    """The object of that name, without asking for all the others."""
    if session.all_namespaces:
        return None
    try:
        found: Manifest = session.rest.get(paths.job(session.namespace, name))
    except NotFound:
        return None
    return found


def _is_number(word: str) -> bool:
    return word.isdecimal() or _RANGE.fullmatch(word) is not None


def _meant(word: str, known: Sequence[Manifest]) -> Iterator[Manifest]:
    named = [job for job in known if job["metadata"]["name"] == word]
    if named:
        yield from named
    elif word.isdecimal():
        yield from (job for job in known if id_of(job) == int(word))
    elif (ends := _RANGE.fullmatch(word)) is not None:
        yield from (job for job in known if int(ends[1]) <= id_of(job) <= int(ends[2]))
    else:
        yield from filter(_called(word), known)


def _called(word: str) -> Callable[[Manifest], bool]:
    if not _PATTERN.search(word):
        return lambda job: name_of(job) == word
    return lambda job: fnmatchcase(job["metadata"]["name"], word) or fnmatchcase(name_of(job), word)


def _listed(words: Sequence[str]) -> str:
    quoted = [repr(word) for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
