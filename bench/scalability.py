"""``python -m bench.scalability``: the scenario of the Kueue project's scalability test, played over HTTP.

Cohorts of ClusterQueues lend each other quota; each queue gets small workloads of low priority often, and large ones of
high priority seldom. The client plays the job controllers: it creates Workloads on schedule, lets each run for its time
once it is admitted, finishes it, and lets go of its quota when it is evicted. Server and client have a core each.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import mean
from typing import Any, Final, NamedTuple

import msgspec
import uvloop

from bench.api.servers import Server, fairway, scratch
from bench.api.wire import JSON, MERGE, Session, Target
from bench.connections import Answer, Pool, Stream
from bench.table import Line, main, middle_and_all

GOAL_SECONDS: Final = 83.0
_ROUNDS: Final = 3
COHORTS: Final = 5
QUEUES: Final = 6
_CONNECTIONS: Final = 24
_A_MOMENT: Final = 0.005
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_WORKLOADS: Final = f"{_KUEUE}/namespaces/default/workloads"


class Class(NamedTuple):
    """Workloads that are alike."""

    name: str
    how_many: int
    every_seconds: float
    cpus: int
    run_seconds: float
    priority: int


CLASSES: Final = (
    Class("small", 350, 0.1, 1, 0.2, 50),
    Class("medium", 100, 0.5, 5, 0.5, 100),
    Class("large", 50, 1.2, 20, 1.0, 200),
)


class _Condition(msgspec.Struct, gc=False):
    """What the player looks at of a condition; it sends the rest back as it came."""

    type: str
    status: str


class _Status(msgspec.Struct, gc=False):
    conditions: msgspec.Raw = msgspec.Raw(b"[]")


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815 - as it is written


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Object


_decode = msgspec.json.Decoder(_Event).decode
_read_conditions = msgspec.json.Decoder(list[_Condition]).decode
_read_all = msgspec.json.Decoder(list[dict[str, Any]]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Running:
    """One workload as its job controller sees it."""

    name: str
    kind: Class
    created: float = 0.0
    first_admitted: float = 0.0
    admitted: bool = False
    releasing: bool = False
    finished: bool = False
    evictions: int = 0
    timer: asyncio.TimerHandle | None = None
    newest: _Object = field(default_factory=_Object)

    def is_true(self) -> set[str]:
        """The types of the conditions that are true."""
        return {one.type for one in _read_conditions(self.newest.status.conditions) if one.status == "True"}


class Outcome(NamedTuple):
    """What a play came to."""

    seconds: float
    waits: dict[str, tuple[float, float]]
    """Mean and longest seconds from creation to the first admission, by class."""

    evictions: int
    conflicts: int
    usage: float
    """How much of the quota was in use on the average, between 0 and 1."""

    server_cpu_seconds: float
    client_cpu_seconds: float
    memory_mb: float


def template(queue: str, kind: Class) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": str(kind.cpus)}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {"queueName": queue, "priority": kind.priority, "podSets": [pods]}


class Player:
    """All job controllers of the scenario in one."""

    def __init__(self, pool: Pool, queues: list[str], scale: float) -> None:
        self._pool = pool
        self._queues = queues
        self._workloads: dict[str, Running] = {}
        self._scale = scale
        self._left = 0
        self.conflicts = 0
        self.done = asyncio.Event()
        self._second = (0, "")
        self.trouble: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def workloads(self) -> list[Running]:
        return list(self._workloads.values())

    def begin(self) -> None:
        """Set every arrival on its time."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for queue in self._queues:
            for kind in CLASSES:
                body = _encode(template(queue, kind))
                for number in range(max(1, round(kind.how_many * self._scale))):
                    workload = Running(f"{queue}-{kind.name}-{number}", kind)
                    self._workloads[workload.name] = workload
                    self._left += 1
                    loop.call_at(begun + number * kind.every_seconds, self._create, workload, body)

    def heard(self, line: bytes) -> None:
        """One event of the watch."""
        event = _decode(line)
        if event.type in {"BOOKMARK", "DELETED"}:
            return
        workload = self._workloads.get(event.object.metadata.name)
        if workload is None:
            return
        workload.newest = event.object
        if workload.finished:
            return
        true = workload.is_true()
        if "Evicted" in true and "QuotaReserved" in true:
            if not workload.releasing:
                self._let_go(workload)
        elif "Admitted" in true and not workload.admitted:
            workload.admitted = True
            workload.first_admitted = workload.first_admitted or time.monotonic()
            loop = asyncio.get_running_loop()
            workload.timer = loop.call_later(workload.kind.run_seconds, self._finish, workload)
        elif "QuotaReserved" not in true:
            workload.releasing = False

    def _create(self, workload: Running, spec: bytes) -> None:
        workload.created = time.monotonic()
        head = (
            f'{{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{{"name":"{workload.name}"}},"spec":'
        )
        self._pool.send("POST", _WORKLOADS, head.encode() + spec + b"}", JSON, partial(self._is_well, workload))

    def _finish(self, workload: Running) -> None:
        workload.timer = None
        conditions = workload.is_true()
        if "Evicted" in conditions:  # in the last moment
            if "QuotaReserved" in conditions and not workload.releasing:
                self._let_go(workload)
            return
        finished = self._condition("Finished", "True", "Succeeded", "Job finished successfully")
        self._patch(workload, [finished], partial(self._finished, workload), partial(self._finish, workload))

    def _finished(self, workload: Running) -> None:
        workload.finished = True
        self._left -= 1
        if not self._left:
            self.done.set()

    def _let_go(self, workload: Running) -> None:
        workload.releasing = True
        workload.admitted = False
        workload.evictions += 1
        if workload.timer is not None:
            workload.timer.cancel()
            workload.timer = None
        self._release(workload)

    def _release(self, workload: Running) -> None:
        conditions = [
            self._condition("Admitted", "False", "NoReservation", "The workload has no reservation"),
            self._condition("Requeued", "True", "Preempted", "Evicted"),
            self._condition("QuotaReserved", "False", "Pending", "Evicted"),
        ]
        self._patch(workload, conditions, lambda: None, partial(self._release, workload), admission=None)

    def _condition(self, kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
        now = int(time.time())
        if now != self._second[0]:
            self._second = (now, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": self._second[1],
            "observedGeneration": 0,
        }

    def _patch(
        self,
        workload: Running,
        conditions: list[dict[str, Any]],
        done: Callable[[], None],
        again: Callable[[], None],
        **fields: object,
    ) -> None:
        """Write conditions; not if the object has changed since it was last heard of.

        `again` is called a moment later in that case, when the watch has told what changed.
        """
        newest = workload.newest
        written = {one["type"] for one in conditions}
        kept = [one for one in _read_all(newest.status.conditions) if one["type"] not in written]
        body = {
            "metadata": {"resourceVersion": newest.metadata.resourceVersion},
            "status": {"conditions": kept + conditions, **fields},
        }

        def heard(answer: Answer | Exception) -> None:
            if isinstance(answer, Answer) and answer.status == 409:
                self.conflicts += 1
                asyncio.get_running_loop().call_later(_A_MOMENT, again)
            elif self._is_well(workload, answer):
                done()

        self._pool.send("PATCH", f"{_WORKLOADS}/{workload.name}/status", _encode(body), MERGE, heard)

    def _is_well(self, workload: Running, answer: Answer | Exception) -> bool:
        """Whether a request was answered with success; if not, that ends the play."""
        if isinstance(answer, Answer) and 200 <= answer.status < 300:
            return True
        if isinstance(answer, Answer):
            answer = RuntimeError(f"{workload.name}: {answer.status} {answer.body[:300]!r}")
        if not self.trouble.done():
            self.trouble.set_exception(answer)
        return False


async def _play(target: Target, queues: list[str], scale: float, limit_seconds: float) -> tuple[float, Player]:
    pool = Pool(target, _CONNECTIONS)
    await pool.open()
    player = Player(pool, queues, scale)
    stream = Stream(target, f"{_WORKLOADS}?watch=true&resourceVersion=0", player.heard)
    await stream.open()
    begun = time.monotonic()
    player.begin()
    done = asyncio.ensure_future(player.done.wait())
    ends: list[asyncio.Future[Any]] = [done, stream.failed, player.trouble]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=limit_seconds)
    seconds = time.monotonic() - begun
    stream.close()
    pool.close()
    for trouble in (stream.failed, player.trouble):
        if trouble.done():
            trouble.result()
    if not player.done.is_set():
        left = [one.name for one in player.workloads if not one.finished]
        raise TimeoutError(f"{len(left)} workloads have not finished after {seconds:.0f} s, among them {left[:5]}")
    done.cancel()
    return seconds, player


def make_queues(target: Target, cohorts: int, queues: int) -> list[str]:
    """The flavor, the ClusterQueues and their LocalQueues."""
    names = []
    with Session(target) as session:
        _post(session, "resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": "scale"}})
        for cohort in range(cohorts):
            for queue in range(queues):
                name = f"c{cohort}-q{queue}"
                names.append(name)
                quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
                group = {"coveredResources": ["cpu"], "flavors": [{"name": "scale", "resources": [quota]}]}
                spec = {
                    "cohortName": f"cohort-{cohort}",
                    "namespaceSelector": {},
                    "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [group],
                }
                _post(session, "clusterqueues", {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
                local = {"kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": name}}
                _post(session, "namespaces/default/localqueues", local)
    return names


def _post(session: Session, path: str, manifest: dict[str, Any]) -> None:
    manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", **manifest}
    session.ask("POST", f"{_KUEUE}/{path}", _encode(manifest))


def measure(server: Server, cohorts: int, queues: int, scale: float) -> Outcome:
    """Play the scenario on a server that runs."""
    names = make_queues(server.target, cohorts, queues)
    server_before, client_before = server.cpu_seconds, _own_cpu_seconds()
    seconds, player = uvloop.run(_play(server.target, names, scale, 600.0))
    waits = {}
    for kind in CLASSES:
        each = [one.first_admitted - one.created for one in player.workloads if one.kind is kind]
        waits[kind.name] = (mean(each), max(each))
    work = sum(one.kind.cpus * one.kind.run_seconds for one in player.workloads)
    return Outcome(
        seconds,
        waits,
        sum(one.evictions for one in player.workloads),
        player.conflicts,
        work / (seconds * 20 * cohorts * queues),
        server.cpu_seconds - server_before,
        _own_cpu_seconds() - client_before,
        server.memory_mb,
    )


def _own_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def lines(scale: int) -> list[Line]:
    """The lines of the table; at a tenth of the size the queues get a tenth of the workloads."""
    size, rounds = (1.0, _ROUNDS) if scale == 1 else (0.1, 1)
    played = sorted((_played(size) for _ in range(rounds)), key=lambda one: one.seconds)
    found = played[len(played) // 2]
    count = round(sum(kind.how_many for kind in CLASSES) * size) * COHORTS * QUEUES
    waits = ", ".join(f"{name} {average:.2f} s (at most {most:.1f})" for name, (average, most) in found.waits.items())
    return [
        Line(
            f"{count} workloads in {COHORTS} x {QUEUES} queues, over HTTP",
            f"{middle_and_all([one.seconds for one in played], 1)}; {found.server_cpu_seconds:.1f} s CPU",
            f"{GOAL_SECONDS:.0f} s",
            found.seconds <= GOAL_SECONDS,
            found.memory_mb,
        ),
        Line("  from creation to admission", waits, "", None, 0),
        Line(
            "  quota in use, evictions",
            f"{found.usage:.0%}, {found.evictions}; client {found.client_cpu_seconds:.0f} s CPU",
            "",
            None,
            0,
        ),
    ]


def _played(size: float) -> Outcome:
    """One round, on a server of its own that stays on one core, with the client on another."""
    with (
        scratch() as directory,
        _pinned(),
        fairway(directory / "state", "--insecure", "--cpus", "100000", jobs=True) as server,
    ):
        server.stay_on(min(os.sched_getaffinity(0)))
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        return measure(server, COHORTS, QUEUES, size)


class _pinned:  # noqa: N801 - used like a function
    """Gives this process its cores back afterwards."""

    def __enter__(self) -> None:
        self._before = os.sched_getaffinity(0)

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self._before)


if __name__ == "__main__":
    sys.exit(main("bench.scalability", __doc__, lines))
