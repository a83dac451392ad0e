"""Several writes that belong together: a transaction on a server of ours, one request each on a cluster.

A cluster has no transactions. There, writes of jobs are in flight beside each other, and what was created is deleted
again if a later write fails or Ctrl-C interrupts. A change cannot be taken back: the error says how many were made.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairway.cli.meter import Meter
from fairway.cli.session import Session, print_note
from fairway.client.rest import AnswerLost, paths
from fairway.errors import FairwayError, NotFound
from fairway.managedjobs.clusterfiles import ANCHOR_LABEL

if TYPE_CHECKING:
    from fairway.cli.resources import APIResources
    from fairway.client.rest import Rest

Manifest = dict[str, Any]
Operation = dict[str, Any]

LAUNCH_INDEX: Final = "fairway.dev/launch-index"
"""Annotation of the jobs of a launch on a cluster: with the label, it finds one whose create was not answered."""

_IN_FLIGHT: Final = 8
_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.25
_SECONDS_TO_GO: Final = 60.0
_PLURALS: Final = {("fairway.dev/v1alpha1", "ManagedJob"): "managedjobs"}
"""Without asking the server what it serves."""


class NoWebhook(FairwayError):
    """The cluster stores managed jobs, and nothing gives them their ids."""


def write(
    session: Session, operations: Sequence[Operation], doing: str = "Changing jobs", *, namespace: str = ""
) -> list[Any]:
    """All of them, or on a server of ours none; the results in their order, `None` for what is gone.

    On a cluster operations on jobs are in flight beside each other, others in their order. `namespace` is that of a
    transaction, by default that of the session.
    """
    if not session.is_cluster:
        return session.rest.transact(namespace or session.namespace, operations, _on_retry)
    jobs_only = all(_kind(one) in _PLURALS for one in operations)
    return _ClusterWrites(session, operations, doing).run(_IN_FLIGHT if jobs_only else 1)


def create_jobs(
    session: Session, manifests: Sequence[Manifest], unique: str, then: Callable[[list[Manifest]], None]
) -> list[Manifest]:
    """The jobs of a launch on a cluster; the first alone, to find out whether Fairway is there to number them.

    `unique` is the label of the launch. `then` is called with all jobs; they are deleted again if it fails.
    """
    operations = [{"verb": "create", "manifest": _marked(one, unique, index)} for index, one in enumerate(manifests)]
    writes = _ClusterWrites(session, operations, f"Submitting {len(manifests)} jobs")
    return writes.run(_IN_FLIGHT, first=_check_numbered(session), then=then)


def _check_numbered(session: Session) -> Callable[[Manifest], None]:
    def check(job: Manifest) -> None:
        if not job["spec"].get("id"):
            raise NoWebhook(
                f"{session.place} gives managed jobs no ids: the webhook of Fairway is missing or its controller does "
                f"not run; nothing was submitted. An administrator mends it with `fairway cluster install --context "
                f"{session.rest.context}`"
            )

    return check


def _marked(manifest: Manifest, unique: str, index: int) -> Manifest:
    metadata = manifest["metadata"]
    marks = {
        "labels": {**(metadata.get("labels") or {}), ANCHOR_LABEL: unique},
        "annotations": {**(metadata.get("annotations") or {}), LAUNCH_INDEX: str(index)},
    }
    return {**manifest, "metadata": {**metadata, **marks}}


def _on_retry() -> None:
    print_note("The response of the server was lost; retrying ...")


def _kind(operation: Operation) -> tuple[str, str]:
    named = operation.get("manifest") or operation
    return named["apiVersion"], named["kind"]


class _Answered(NamedTuple):
    number: int
    value: Any


class _Workers:
    """Threads that take numbers of operations until none are left, each on a connection of its own."""

    def __init__(self, numbers: range, rests: "Sequence[Rest]", one: "Callable[[Rest, int], Any]") -> None:
        self.working = len(rests)
        self._rests = rests
        self._one = one
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._arriving: queue.SimpleQueue[_Answered | BaseException | None] = queue.SimpleQueue()
        self._over = threading.Event()
        for number in numbers:
            self._waiting.put(number)
        for rest in rests:
            threading.Thread(target=self._work, args=(rest,), daemon=True).start()

    def next(self) -> _Answered | BaseException | None:
        """A result; at the end of a thread, its error or `None`."""
        arrived = self._arriving.get()
        if not isinstance(arrived, _Answered):
            self.working -= 1
        return arrived

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more operations; `at_once` also breaks off those under way."""
        self._over.set()
        if at_once:
            for rest in self._rests:
                rest.abort()

    def _work(self, rest: "Rest") -> None:
        ended: BaseException | None = None
        with rest:
            try:
                while not self._over.is_set():
                    number = self._waiting.get_nowait()
                    self._arriving.put(_Answered(number, self._one(rest, number)))
            except queue.Empty:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again where it is read
                ended = error
        self._arriving.put(ended)


class _ClusterWrites:
    """Requests to a cluster, some of them beside each other."""

    def __init__(self, session: Session, operations: Sequence[Operation], doing: str) -> None:
        self._session = session
        self._operations = operations
        self._doing = doing
        self._results: dict[int, Any] = {}
        self._served: APIResources | None = None

    def run(
        self,
        in_flight: int,
        first: Callable[[Manifest], None] = lambda _result: None,
        then: Callable[[list[Any]], None] = lambda _results: None,
    ) -> list[Any]:
        """The results in the order of the operations; `first` checks the first one before the others are sent."""
        try:
            if self._operations:
                self._results[0] = self._one(self._session.rest, 0)
                first(self._results[0])
            left = range(1, len(self._operations))
            with Meter(self._doing, len(self._operations), bytes_=False) as meter:
                if in_flight == 1 or len(left) < 2:
                    for index in left:
                        self._results[index] = self._one(self._session.rest, index)
                        meter.show(0, len(self._results))
                else:
                    self._beside_each_other(left, min(in_flight, len(left)), meter)
            results = [self._results[index] for index in range(len(self._operations))]
            then(results)
        except (FairwayError, KeyboardInterrupt) as error:
            said = self._undo()
            if isinstance(error, KeyboardInterrupt):
                print_note(f"\nInterrupted. {said or 'Nothing was created.'}")
                raise
            if said and not isinstance(error, NoWebhook):
                error.add_note(said)
            raise
        return results

    def _beside_each_other(self, left: range, threads: int, meter: Meter) -> None:
        rests = [self._session.rest.clone() for _ in range(threads)]
        workers = _Workers(left, rests, self._one)
        failed: BaseException | None = None
        while workers.working:
            try:
                arrived = workers.next()
                if isinstance(arrived, _Answered):
                    self._results[arrived.number] = arrived.value
                    meter.show(0, len(self._results))
                elif arrived is not None:
                    failed = failed or arrived
                    workers.stop()
            except KeyboardInterrupt as stop:  # requests under way are waited for, until the second interrupt
                workers.stop(at_once=failed is not None)
                failed = stop
        if failed is not None:
            raise failed

    def _one(self, rest: "Rest", index: int) -> Any:
        operation = self._operations[index]
        verb = operation["verb"]
        if verb == "create":
            return self._create(rest, operation["manifest"], operation.get("namespace", ""))
        path = self._path(operation, operation.get("namespace", ""), operation["name"])
        held = {"uid": operation.get("uid"), "resourceVersion": operation.get("resourceVersion")}
        held = {name: value for name, value in held.items() if value}
        if verb == "patch":
            change = {**operation["patch"], "metadata": {**(operation["patch"].get("metadata") or {}), **held}}
            return rest.patch(path, change)
        return _deleted(rest, path, held, operation.get("propagationPolicy", ""))

    def _create(self, rest: "Rest", manifest: Manifest, namespace: str) -> Manifest:
        path = self._path(manifest, manifest["metadata"].get("namespace") or namespace)
        for tries_left in reversed(range(_TRIES)):
            try:
                made: Manifest = rest.create(path, manifest)
            except AnswerLost:
                if not tries_left:
                    raise
                time.sleep(_PAUSE_SECONDS)
                found = _find(rest, path, manifest)
                if found is not None:
                    return found
            else:
                return made
        raise AssertionError("the last try returns or raises")

    def _path(self, named: Manifest, namespace: str, name: str = "") -> str:
        api_version, kind = named["apiVersion"], named["kind"]
        plural = _PLURALS.get((api_version, kind))
        if plural is not None:
            return paths.resource(api_version, plural, namespace or self._session.namespace, name)
        if self._served is None:
            from fairway.cli.resources import discover  # noqa: PLC0415 - not for jobs

            self._served = discover(self._session.rest)
        return self._served.of(api_version, kind).path(namespace or self._session.namespace, name)

    def _undo(self) -> str:
        """Delete what was created; a sentence about what was done and cannot be undone, and what is left."""
        made = self._created()
        changed = sum(self._operations[index]["verb"] != "create" for index in self._results)
        said = [f"{changed} of {len(self._operations)} changes were made before this."] if changed else []
        left = []
        with Meter("Deleting what was created", len(made), bytes_=False) as meter:
            for number, one in enumerate(made, 1):
                metadata = one["metadata"]
                try:
                    path = self._path(one, metadata.get("namespace", ""), metadata["name"])
                    _deleted(self._session.rest, path, {"uid": metadata["uid"]}, "Background")
                except (FairwayError, KeyboardInterrupt):
                    left.append(one)
                meter.show(0, number)
        gone = len(made) - len(left)
        if gone:
            said.append(f"{_count(gone, made)} that had been created {'is' if gone == 1 else 'are'} deleted again.")
        if left:
            names = ", ".join(f"{one['kind']} {one['metadata']['name']}" for one in left[:10])
            said.append(f"{_count(len(left), left)} could not be deleted: {names}{' ...' if len(left) > 10 else ''}.")
        return " ".join(said)

    def _created(self) -> list[Manifest]:
        """What was created, the last first; of a launch also what was created by a request without an answer."""
        made = [
            self._results[index]
            for index in sorted(self._results, reverse=True)
            if self._operations[index]["verb"] == "create"
        ]
        first = self._operations[0].get("manifest") or {}
        launch = ((first.get("metadata") or {}).get("labels") or {}).get(ANCHOR_LABEL)
        if launch:
            known = {one["metadata"]["uid"] for one in made}
            path = paths.jobs(self._session.namespace)
            try:
                found = self._session.rest.get(path, labelSelector=f"{ANCHOR_LABEL}={launch}")
            except FairwayError:
                return made
            kind = {"apiVersion": first["apiVersion"], "kind": first["kind"]}
            made += [{**one, **kind} for one in found["items"] if one["metadata"]["uid"] not in known]
        return made


def _count(number: int, objects: Sequence[Manifest]) -> str:
    what = "job" if all(one["kind"] == "ManagedJob" for one in objects) else "object"
    return f"{number} {what}{'' if number == 1 else 's'}"


def _find(rest: "Rest", path: str, manifest: Manifest) -> Manifest | None:
    """The object of a create that was not answered; `None` if it was not carried out."""
    metadata = manifest["metadata"]
    if metadata.get("name"):
        try:
            found: Manifest = rest.get(f"{path}/{metadata['name']}")
        except NotFound:
            return None
        return found
    index, launch = metadata["annotations"][LAUNCH_INDEX], metadata["labels"][ANCHOR_LABEL]
    items = rest.get(path, labelSelector=f"{ANCHOR_LABEL}={launch}")["items"]
    return next((one for one in items if (one["metadata"].get("annotations") or {}).get(LAUNCH_INDEX) == index), None)


def _deleted(rest: "Rest", path: str, preconditions: Manifest, propagation: str) -> Any:
    """The object as it goes; `None` if it is gone."""
    options: Manifest = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if preconditions:
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    try:
        answer = rest.delete(path, options)
    except NotFound:
        return None
    return None if answer.get("kind") == "Status" else answer


def remove_job(session: Session, old: Manifest) -> None:
    """Delete a job on a cluster, whose name another is to have, and wait until it is gone."""
    path = paths.job(old["metadata"]["namespace"], old["metadata"]["name"])
    _deleted(session.rest, path, {"uid": old["metadata"]["uid"]}, "Background")
    until = time.monotonic() + _SECONDS_TO_GO
    while time.monotonic() < until and session.rest.exists(path):
        time.sleep(_PAUSE_SECONDS)
