"""The sentences that explain the state of a job: one line for tables, all of it for `jobs why`.

They follow from the job's status and from the `waitingjobs` entry of its Workload.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from fairway.apis.machinery.amounts import of_quantity
from fairway.cli.jobs.records import (
    CANCELLING,
    RECOVERING,
    RUNNING,
    STARTING,
    Ahead,
    HolderRow,
    JobRow,
    JobWithAttempts,
    Obstacle,
    OwnerRow,
    PendingRow,
    ShortageRow,
    WaitingInDetail,
    requested,
)
from fairway.cli.tables import duration, plain
from fairway.managedjobs.status import Attempt

_MOST_NAMES: Final = 8
"""Jobs ahead and holders to list by name; the others are counted."""

_FINISHED: Final = {
    "SUCCEEDED": "succeeded",
    "CANCELLED": "was cancelled",
    "FAILED": "failed",
    "FAILED_SETUP": "failed in its setup",
    "FAILED_PRECHECKS": "failed its checks before it was queued",
    "FAILED_NO_RESOURCE": "failed, because no node or quota is large enough for it,",
    "FAILED_CONTROLLER": "failed because of an internal error",
}
_PREEMPTION: Final = re.compile(
    r"Preempted to accommodate a workload \(UID: [^,)]*, JobUID: (?P<job>[^)]*)\) due to (?P<reason>[^;]+)"
    r"(; preemptor path: [^;]*; preemptee path: [^;\s]*)?"
)
"""Kueue's sentence, which has only uids."""

_HELD: Final = "Held"
_WAITS_FOR_NODE: Final = "waits for a node: "
_WITHOUT_LOGS: Final = frozenset({"FAILED_PRECHECKS", "FAILED_NO_RESOURCE"})
_CAUSES: Final = {
    "start": "",
    "preempted": "restarted after a preemption",
    "evicted": "restarted after an eviction",
    "lost": "restarted after its pods were lost",
    "error": "restarted after an error",
    "held": "restarted when released",
    "retry": "restarted by `jobs retry`",
}


class Section(NamedTuple):
    """Lines below a heading, which may be empty."""

    heading: str
    lines: tuple[str, ...]


def in_short(job: JobRow, waiting: PendingRow | None) -> str:
    """Why a job waits, or what happened to it, in one line; empty if nothing is wrong."""
    if not job.is_live:
        return "" if job.phase == "SUCCEEDED" else said(job.status.message or job.status.reason)
    if job.spec.cancel or job.phase == CANCELLING:
        return said(job.status.message) or "its processes are being stopped"
    if job.waits and job.spec.hold:
        return f"held; `fairway jobs release {job.spec.id}` resumes it"
    if job.status.reason == _HELD:
        return ""  # it was released, and is on its way back into its queue
    if waiting is not None:
        return plain(waiting.message if waiting.can_ever_run else f"can never run: {waiting.message}")
    return said(job.status.message)


def said(message: str, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """A message as one line, with the name of the preemptor if it is known by its uid."""
    found = _PREEMPTION.search(message)
    if found is None:
        return plain(message)
    whom = names.get(found["job"], "another job")
    return plain(message.replace(found[0], f"made room for {whom} ({found['reason']})"))


def preemptors(job: JobWithAttempts) -> set[str]:
    """The uids of the jobs that preempted it."""
    messages = (job.status.message, *(attempt.message for attempt in job.status.attempts))
    return {found["job"] for found in map(_PREEMPTION.search, messages) if found is not None}


def priority(job: JobRow) -> str:
    """`50`, or `60 (50+10)` where preemptions have raised it."""
    now = job.priority
    if now is None:
        return "-"
    raised = job.raised_by
    return f"{now} ({now - raised}+{raised})" if raised else str(now)


def story(
    job: JobWithAttempts,
    waiting: WaitingInDetail | None,
    now: datetime,
    names: Mapping[str, str] = MappingProxyType({}),
    *,
    files: bool = True,
) -> list[Section]:
    """The full explanation of one job; `names` are the names of other jobs by uid, `files` says that files are kept."""
    parts = [Section("", tuple(_opening(job, waiting, now, names)))]
    if waiting is not None and job.is_live and not job.spec.hold:
        parts += _in_the_way(waiting)
    if not job.is_live:
        parts.append(Section("Next steps", tuple(_after_the_end(job, files=files))))
    if job.status.attempts:
        parts.append(Section("Attempts", tuple(_attempt(job, one, now, names) for one in job.status.attempts)))
    return [part for part in parts if part.lines]


def _opening(
    job: JobWithAttempts, waiting: WaitingInDetail | None, now: datetime, names: Mapping[str, str]
) -> Iterator[str]:
    yield f"Job {job.spec.id} ({plain(job.name)}){_of_whom(job)} {_stands(job, waiting, now)}"
    if job.waits or job.phase == STARTING:
        yield f"It asks for {requested(job)}{_its_priority(job)}."
    if not job.is_live:
        if job.status.message:
            yield _sentence(said(job.status.message, names))
        return
    if job.waits and job.spec.hold:
        pass  # that it is held is all there is to say
    elif waiting is not None:
        yield from _reason_to_wait(waiting)
        yield from _moving_on(job)
    elif job.status.message:
        yield _sentence(said(job.status.message, names))
    yield from _counts(job)


def _of_whom(job: JobRow) -> str:
    return f" of {plain(job.spec.user)}" if job.spec.user else ""


def _stands(job: JobWithAttempts, waiting: WaitingInDetail | None, now: datetime) -> str:
    """The rest of the first sentence."""
    status = job.status
    where = f" on {status.infra}" if status.infra else ""
    if not job.is_live:
        when = f" {duration((now - status.ended_at).total_seconds())} ago" if status.ended_at else ""
        ran = job.ran_for(now)
        return f"{_FINISHED.get(job.phase, f'ended as {job.phase}')}{when}" + (
            f", after running for {duration(ran)}." if ran else "."
        )
    if job.spec.cancel or job.phase == CANCELLING:
        return f"was cancelled; its processes{where} are being stopped."
    if job.phase == RUNNING:
        since = f" for {duration((now - status.running_since).total_seconds())}" if status.running_since else ""
        return f"has been running{where}{since}{_nth(job)}.{_its_priority(job, ' It has')}"
    if job.phase == STARTING:
        if status.message.startswith(_WAITS_FOR_NODE):
            return f"has its quota, but no node{where} has room for it now{_nth(job)}."
        return f"has its quota, and its processes{where} are starting{_nth(job)}."
    if job.spec.hold:
        return f"is held; `fairway jobs release {job.spec.id}` queues it again."
    if waiting is None:
        return _between(job, now)
    again = "to run again " if job.phase == RECOVERING else ""
    place = f", {_position(waiting)}" if waiting.position else ""
    queued = job.status.queued_at
    waited = (now - queued).total_seconds() if queued is not None else job.waited_for(now)
    return f"has waited for {duration(waited)} {again}in {_queue(waiting)}{place}."


def _between(job: JobWithAttempts, now: datetime) -> str:
    """It waits, but not in a queue of this server."""
    if job.status.infra:
        return f"waits on {job.status.infra}."
    latest = job.status.attempts[-1] if job.status.attempts else None
    if job.phase == RECOVERING and latest is not None and latest.ended_at is None:
        if latest.stopping:
            return f"is recovering: the processes of attempt {latest.attempt} are being stopped."
        return f"is recovering: attempt {latest.attempt} is starting."
    if job.phase == RECOVERING:
        return "is recovering: its next attempt is about to start."
    return f"was submitted {duration(job.waited_for(now))} ago and is about to be queued."


def _nth(job: JobRow) -> str:
    return f" (attempt {job.status.attempt})" if job.status.attempt > 1 else ""


def _its_priority(job: JobRow, begin: str = ", with") -> str:
    now = job.priority
    if now is None:
        return ""
    raised = job.raised_by
    end = "" if begin.startswith(",") else "."
    if not raised:
        return f"{begin} priority {now}{end}"
    most = ", the maximum" if raised == job.spec.aging.cap else ""
    return (
        f"{begin} priority {now}: {now - raised}, plus {raised} for {_times(job.status.preemptions, 'preemption')}"
        f"{most}{end}"
    )


def _queue(waiting: WaitingInDetail) -> str:
    team = f", team {waiting.team} of organization {waiting.organization}" if waiting.organization else ""
    where = f" (ClusterQueue {waiting.cluster_queue}{team})" if waiting.cluster_queue else ""
    return f"queue {waiting.local_queue or '?'}{where}"


def _position(waiting: PendingRow) -> str:
    if waiting.position == 1:
        return "next in line"
    return f"position {waiting.position}"


def _reason_to_wait(waiting: WaitingInDetail) -> Iterator[str]:
    if not waiting.can_ever_run:
        yield "It can never run with the current nodes and quotas."
    if waiting.message:
        yield _sentence(waiting.message)
    expected = waiting.expected_start
    if expected is not None and expected.at is not None and waiting.can_ever_run:
        yield f"Expected start: {expected.message}{_BASED_ON.get(expected.basis, '')}."
        if expected.usual_error_seconds is not None:
            yield f"Half of the last starts came within {duration(expected.usual_error_seconds)} of what was expected."


def starts(job: JobRow, waiting: PendingRow | None, now: datetime) -> str | None:
    """How long it will probably wait yet; nothing where that is not known."""
    expected = waiting.expected_start if waiting is not None and job.waits else None
    if expected is None or expected.at is None:
        return None
    return f"~{duration(max(0.0, (expected.at - now).total_seconds()))}"


_BASED_ON: Final = {
    "declared": "; from the max_duration of the jobs before it",
    "name": "; from what jobs of these names took before",
    "user": "; from what jobs of these users took before",
    "queue": "; from what jobs of this queue took before",
    "all": "; from what any jobs took before",
}


def _moving_on(job: JobRow) -> Iterator[str]:
    """Where the job goes when its provision timeout has passed."""
    resources = job.ask.resources
    offers = (resources.get("ordered") or resources.get("any_of")) if isinstance(resources, dict) else None
    timeout = 86400 if job.spec.provision_timeout_seconds is None else job.spec.provision_timeout_seconds
    if isinstance(offers, list) and job.status.candidate + 1 < len(offers) and timeout >= 0:
        following = offers[job.status.candidate + 1]
        infra = following.get("infra") or following.get("cloud") if isinstance(following, dict) else ""
        where = f", {infra}" if infra else ""
        yield f"After {duration(timeout)} in this queue it tries the next entry of its resources{where}."


def _counts(job: JobRow) -> Iterator[str]:
    status = job.status
    counted = [
        _times(number, what)
        for number, what in ((status.preemptions, "preemption"), (status.restarts_on_errors, "error"))
        if number
    ]
    if status.recoveries or counted:
        because = f", after {' and '.join(counted)}" if counted else ""
        yield f"It was restarted {'once' if status.recoveries == 1 else f'{status.recoveries} times'}{because}."


def _in_the_way(waiting: WaitingInDetail) -> Iterator[Section]:
    yield Section("What is missing", tuple(_lines_of_shortages(waiting.shortages)))
    short = {(one.flavor, one.resource) for one in waiting.shortages}
    others = [
        one
        for one in waiting.obstacles
        if (one.flavor, one.resource) not in short and one.message not in waiting.message
    ]
    yield Section("Other obstacles", tuple(_obstacles(others)))
    yield Section("Jobs ahead in the queue", tuple(_named([_ahead(one) for one in waiting.ahead])))
    yield Section("What would admit it", tuple(f"- {_hint(hint)}" for hint in waiting.hints))


def _lines_of_shortages(shortages: Sequence[ShortageRow]) -> Iterator[str]:
    several = len({one.pod_set for one in shortages}) > 1
    for one in shortages:
        of = f" of {of_quantity(one.resource, one.requested)[1]}" if one.requested else ""
        whose = f" for {one.pod_set}" if several else ""
        yield f"{of_quantity(one.resource, one.missing)[1]} {one.resource}{of} in flavor {one.flavor}{whose}"
        held = [f"  {_holder(holder, one.resource)}" for holder in one.holders]
        yield from _named(held, indent="  ")


def _holder(holder: HolderRow, resource: str) -> str:
    leaving = ", is being evicted" if holder.evicting else ""
    queue = f", ClusterQueue {holder.cluster_queue}" if holder.cluster_queue else ""
    amount = of_quantity(resource, holder.amount)[1]
    return (
        f"{holder.shown or _called(holder.owner, holder.workload)} holds {amount} {resource}"
        f" (priority {holder.priority}{queue}{leaving})"
    )


def _ahead(ahead: Ahead) -> str:
    return f"{ahead.shown or _called(ahead.owner, ahead.workload)} (priority {ahead.priority})"


def _called(owner: OwnerRow | None, workload: str | None) -> str:
    """A job by its name; what else there is, by its kind and name."""
    if owner is None or not owner.name:
        return f"workload {workload}" if workload else "another workload"
    return f"{'job' if owner.kind == 'ManagedJob' else owner.kind} {owner.name}"


def _hint(text: str) -> str:
    """A hint as a sentence; some have no subject."""
    return _sentence(f"it {text}" if text.startswith("would ") else text)


def _named(lines: Sequence[str], indent: str = "") -> Iterator[str]:
    yield from lines[:_MOST_NAMES]
    if len(lines) > _MOST_NAMES:
        yield f"{indent}and {len(lines) - _MOST_NAMES} more"


def _obstacles(obstacles: Sequence[Obstacle]) -> Iterator[str]:
    seen = dict.fromkeys(_sentence(one.message) for one in obstacles if one.message)
    yield from seen


def _after_the_end(job: JobRow, *, files: bool) -> Iterator[str]:
    number = job.spec.id
    if files and job.status.attempt and job.phase not in _WITHOUT_LOGS:
        yield f"- `fairway jobs files {number}` lists its files."
    if job.phase == "SUCCEEDED":
        return
    if job.status.attempt and job.phase not in _WITHOUT_LOGS:
        yield f"- `fairway jobs logs {number}` prints its log."
    yield f"- `fairway jobs retry {number}` runs it again."


def _attempt(job: JobRow, attempt: Attempt, now: datetime, names: Mapping[str, str]) -> str:
    task = f"task {attempt.task + 1}, " if len(job.spec.tasks) > 1 else ""
    parts = [f"{task}{attempt.attempt}:"]
    cause = _CAUSES.get(attempt.cause, attempt.cause)
    if cause:
        parts.append(f"{cause};")
    if attempt.infra:
        parts.append(f"on {attempt.infra};")
    if attempt.started_at is None:
        parts.append("not started yet")
    else:
        parts.append(f"started {duration((now - attempt.started_at).total_seconds())} ago")
        if attempt.ended_at is not None:
            parts[-1] += f", ran {_length(attempt.started_at, attempt.ended_at)}"
        elif job.phase != "STARTING":
            parts[-1] += f", has run {_length(attempt.started_at, now)}"
    if attempt.priority is not None:
        parts[-1] += f", priority {attempt.priority}"
    ending = _ending(attempt, names)
    return " ".join(parts) + (f"; {ending}" if ending else "")


def _length(begin: datetime, end: datetime) -> str:
    return f"for {duration((end - begin).total_seconds())}"


def _ending(attempt: Attempt, names: Mapping[str, str]) -> str:
    outcome = _in_words(attempt.outcome or attempt.stopping)
    code = f" (exit code {attempt.exit_code})" if attempt.exit_code is not None else ""
    message = said(attempt.message, names)
    if outcome and message.startswith(outcome):
        return message + code
    return ": ".join(part for part in (f"{outcome}{code}", message) if part)


def _in_words(camel: str) -> str:
    """`PodLost` as `pod lost`."""
    return "".join(f" {one.lower()}" if one.isupper() and index else one for index, one in enumerate(camel)).lower()


def _times(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _sentence(text: str) -> str:
    """The text as a sentence: a capital letter where there was a plain word, and a full stop."""
    text = plain(text).strip()
    if text[:1].islower() and text.split(maxsplit=1)[0].isalpha():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."
