"""Replay recorded decisions of Kueue and compare: ``python -m fairway.testing.conformance FILE…``

Each line of a file (``.jsonl`` or ``.jsonl.gz``) is a world: queues, and a trace of steps with what a real Kueue had
decided when things had come to rest (``expect``). The replay feeds the same steps to an engine, acts as the job
controller (evicted workloads release their quota), and compares the state, flavors, counts, evictions and preemption
reason of every workload after every step. A step may have what was recorded before things had come to rest
(``passing``): the replay must pass through it.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairway.admission import events, wording
from fairway.admission.config import KUEUE_BATCH_SECONDS, Config
from fairway.admission.engine import Engine
from fairway.admission.instructions import Evict, Instruction
from fairway.admission.records import Record, Stage
from fairway.apis.kueue.configuration import FairSharingPolicy
from fairway.apis.kueue.manifests import load, load_as
from fairway.apis.kueue.objects import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from fairway.errors import FairwayError, ValidationError

START = 1_700_000_000.0
STEP_SECONDS = 10.0
MOST_ROUNDS = 100
RELEASE_SECONDS = 1.0
"""How long an evicted job takes to stop. The recordings' player seems to have looked about once a second: with this
value every world agrees, and in one (plain, seed 90) it decides what a freed place is used for."""

Json = dict[str, Any]


class UnreadableRecordingError(FairwayError):
    """A file that is not a recording, or a step that no replay knows."""


class Disagreement(NamedTuple):
    file: str
    seed: int
    step: int
    workload: str
    field: str
    want: object
    got: object

    def __str__(self) -> str:
        return (
            f"{self.file}: seed {self.seed}, step {self.step}, {self.workload} {self.field}:"
            f" wanted {self.want}, decided {self.got}"
        )


def _ignore() -> None:
    """Observe nothing."""


class Replay:
    """One world, played step by step in virtual time."""

    def __init__(
        self,
        world: Json,
        requeue_batch_seconds: float = KUEUE_BATCH_SECONDS,
        release_seconds: float = RELEASE_SECONDS,
    ) -> None:
        self.world = world
        self._release_seconds = release_seconds
        self.namespace: str = world["namespace"]
        self.prefix = f"{self.namespace}-"
        self.now = START
        fair = FairSharingPolicy() if world.get("fairSharing") else None
        self.engine = Engine(Config(fair_sharing=fair, requeue_batch_seconds=requeue_batch_seconds))
        self._objects: dict[str, Json] = {}
        self._observe: Callable[[], None] = _ignore
        self._untried = ""
        """A workload that was just created, and that the engine does not know yet."""
        self._reclaimed: dict[str, dict[str, int]] = {}
        self._send(
            events.NamespaceChanged(
                at=self.now, name=self.namespace, labels={"kubernetes.io/metadata.name": self.namespace}
            )
        )
        for manifest in world["objects"]:
            self._apply(manifest)
        self._rest()

    def step(self, action: Mapping[str, Any], observe: Callable[[], None] = _ignore) -> None:
        """Carry out one step and let the world come to rest; ``observe`` is called whenever something was decided."""
        self._observe = observe
        ((verb, subject),) = action.items()
        carry_out = getattr(self, f"_do_{_snake(verb)}", None)
        if carry_out is None:
            known = sorted(name.removeprefix("_do_") for name in dir(self) if name.startswith("_do_"))
            raise UnreadableRecordingError(f"step {verb!r} is not one of {', '.join(known)}")
        carry_out(subject)
        self._rest()

    # What a step can be

    def _do_create(self, manifest: Json) -> None:
        metadata = {**manifest["metadata"], "creationTimestamp": _rfc3339(self.now)}
        metadata.setdefault("uid", f"uid-{int(self.now)}")
        self._objects[metadata["name"]] = {**manifest, "metadata": metadata}
        self._untried = metadata["name"]
        self._observe()
        self._untried = ""
        self._send(events.WorkloadAdded(at=self.now, workload=load_as(Workload, self._objects[metadata["name"]])))

    def _do_finish(self, name: str) -> None:
        self._send(events.WorkloadFinished(at=self.now, key=self._key(name)))

    def _do_delete(self, name: str) -> None:
        self._send(events.WorkloadDeleted(at=self.now, key=self._key(name)))

    def _do_deactivate(self, name: str) -> None:
        self._send(events.ActiveChanged(at=self.now, key=self._key(name), active=False))

    def _do_activate(self, name: str) -> None:
        self._send(events.ActiveChanged(at=self.now, key=self._key(name), active=True))

    def _do_set_priority(self, change: Json) -> None:
        self._send(events.PriorityChanged(at=self.now, key=self._key(change["name"]), priority=change["priority"]))

    def _do_reclaim(self, change: Json) -> None:
        counts = self._reclaimed.setdefault(change["name"], {})
        counts[change["podSet"]] = change["count"]
        self._send(events.PodsReclaimed(at=self.now, key=self._key(change["name"]), counts=dict(counts)))

    def _do_set_quota(self, change: Json) -> None:
        self._change_queue(change["clusterQueue"], resourceGroups=change["resourceGroups"])

    def _do_set_cohort(self, change: Json) -> None:
        self._apply(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Cohort",
                "metadata": {"name": change["name"]},
                "spec": change["spec"],
            }
        )

    def _do_hold(self, queue: str) -> None:
        self._change_queue(queue, stopPolicy="Hold")

    def _do_drain(self, queue: str) -> None:
        self._change_queue(queue, stopPolicy="HoldAndDrain")

    def _do_resume(self, queue: str) -> None:
        self._change_queue(queue, stopPolicy="None")

    def _do_hold_local_queue(self, queue: str) -> None:
        self._change_queue(queue, kind="LocalQueue", stopPolicy="Hold")

    def _do_drain_local_queue(self, queue: str) -> None:
        self._change_queue(queue, kind="LocalQueue", stopPolicy="HoldAndDrain")

    def _do_resume_local_queue(self, queue: str) -> None:
        self._change_queue(queue, kind="LocalQueue", stopPolicy="None")

    def _change_queue(self, name: str, kind: str = "ClusterQueue", **spec: object) -> None:
        manifest = self._objects[f"{kind}/{name}"]
        self._apply({**manifest, "spec": {**manifest["spec"], **spec}})

    def _apply(self, manifest: Json) -> None:
        loaded = load(manifest)
        self._objects[f"{loaded.KIND}/{loaded.metadata.name}"] = manifest
        match loaded:
            case ResourceFlavor() as flavor:
                self._send(events.FlavorChanged(at=self.now, flavor=flavor))
            case Cohort() as cohort:
                self._send(events.CohortChanged(at=self.now, cohort=cohort))
            case ClusterQueue() as queue:
                self._send(events.QueueChanged(at=self.now, queue=queue))
            case LocalQueue() as local_queue:
                self._send(events.LocalQueueChanged(at=self.now, queue=local_queue))
            case other:
                raise ValueError(f"a world cannot hold a {type(other).__name__}")

    def _key(self, name: str) -> str:
        return f"{self.namespace}/{name}"

    # Time

    def _send(self, event: events.Event) -> None:
        self._obey(self.engine.handle(event))

    def _obey(self, instructions: list[Instruction]) -> None:
        """Play the job controller: evicted workloads release their quota a moment later.

        Workloads may preempt each other for ever (Kueue's do, too); such a world is left unfinished and so disagrees.
        """
        for _ in range(MOST_ROUNDS):
            self._observe()
            if not any(isinstance(each, Evict) for each in instructions):
                return
            self.now += self._release_seconds
            evicted = [each.key for each in instructions if isinstance(each, Evict)]
            instructions = self.engine.handle(*(events.QuotaReleased(at=self.now, key=key) for key in evicted))

    def _rest(self) -> None:
        """Let time pass until the next step, stopping wherever the engine asks to be woken."""
        end = self.now - (self.now - START) % STEP_SECONDS + STEP_SECONDS
        while (due := self.engine.next_wakeup) is not None and due <= end:
            self.now = max(self.now, due)
            self._send(events.TimePassed(at=self.now))
        self.now = end

    # Looking

    def outcome(self) -> dict[str, Json]:
        """The state of every workload, in the recordings' words."""
        found: dict[str, Json] = {self._untried: {"state": "pending"}} if self._untried else {}
        for record in self.engine.records():
            if record.namespace == self.namespace:
                found[record.name] = self._describe(record)
        return found

    def _describe(self, record: Record) -> Json:
        described: Json = {"state": record.stage.name.lower()}
        if record.stage in (Stage.RESERVED, Stage.ADMITTED):
            described["assignments"] = {
                pod_set.name: {
                    "count": pod_set.count,
                    "flavors": {
                        resource: flavor.removeprefix(self.prefix) for resource, flavor in pod_set.flavors.items()
                    },
                }
                for pod_set in record.admission
            }
        if record.evictions:
            described["evictions"] = dict(record.evictions)
        if record.preemption_reason and record.evicted is not None:
            described["preempted"] = str(record.preemption_reason)
        return described

    def message(self, name: str) -> str:
        why = self.engine.why(self._key(name))
        return wording.waiting(why.explanation).replace(self.prefix, "") if why is not None else ""


COMPARED = ("state", "assignments", "evictions", "preempted")


def compare(world: Json, file: str = "") -> Iterator[Disagreement]:
    """Play one world and give every difference of the first step that has one; later ones follow from it."""
    replay = Replay(world)
    for number, step in enumerate(world["trace"]):
        differences = list(_play(replay, step))
        if differences:
            yield from (Disagreement(file, world["seed"], number, *difference) for difference in differences)
            return


Difference = tuple[str, str, object, object]
"""A workload, what of it differs, what was recorded, and what was decided."""


def _play(replay: Replay, step: Json) -> Iterator[Difference]:
    passed: list[dict[str, Json]] = []
    passing = step.get("passing")
    replay.step(step["do"], _ignore if passing is None else lambda: passed.append(replay.outcome()))
    if passing is not None and all(any(_differences(passing, moment)) for moment in passed):
        yield "the world", "passing", passing, passed
    yield from _differences(step["expect"], replay.outcome())


def _differences(expected: dict[str, Json], got: dict[str, Json]) -> Iterator[Difference]:
    for name, want in expected.items():
        for field in COMPARED:
            found = got.get(name, {}).get(field)
            if want.get(field) != found:
                yield name, field, want.get(field), found
    for name in got.keys() - expected.keys():
        yield name, "existence", None, got[name]


def read_worlds(path: Path) -> Iterator[Json]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as lines:
            for line in lines:
                if line.strip():
                    yield msgspec.json.decode(line)
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise UnreadableRecordingError(f"{path} cannot be read as recorded worlds: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fairway.testing.conformance",
        description="Replay recorded decisions of Kueue and compare what Fairway decides after every step.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="recordings, .jsonl or .jsonl.gz")
    parser.add_argument("--seed", type=int, help="replay only the world with this seed")
    chosen = parser.parse_args(arguments)
    try:
        return _replay_all(chosen.files, chosen.seed)
    except (UnreadableRecordingError, ValidationError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _replay_all(files: list[Path], seed: int | None) -> int:
    agreed = total = 0
    for path in files:
        for world in read_worlds(path):
            if seed is not None and world["seed"] != seed:
                continue
            total += 1
            differences = list(compare(world, path.name))
            agreed += not differences
            for difference in differences:
                print(difference)
    print(f"agree {agreed} of {total} worlds")
    return 0 if agreed == total else 1


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _snake(camel: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)


if __name__ == "__main__":
    sys.exit(main())
