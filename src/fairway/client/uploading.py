"""Writes an archive into a PersistentVolumeClaim of a cluster, through a pod that exists only for it.

The rights that this needs are the user's own: create claims and pods, read them and their events, and `pods/exec`.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.client.rest import AnswerLost, Rest, Unreachable, paths
from fairway.errors import AlreadyExists, ApiError, Conflict, FairwayError, Forbidden, NotFound
from fairway.managedjobs import clustervolume
from fairway.managedjobs.clusterfiles import reference
from fairway.managedjobs.clusterscripts import store_command
from fairway.managedjobs.clustervolume import COMPLETE, UploadPlan, VolumeUnusable

_PAUSE_SECONDS: Final = 1.0
_TRIES: Final = 3
_CHECK_SECONDS: Final = 600.0
"""How long the pod may take to write and check what it has received."""


class NotYetReady(FairwayError):
    """The uploader pod did not run in time; it is still there for another try, if there is to be one."""


class ArchiveFile(NamedTuple):
    """An archive on this machine."""

    source: str
    """The directory that was packed, for messages."""

    digest: str
    size: int
    file: BinaryIO


class Uploading:
    """One archive on its way into a volume."""

    def __init__(self, rest: Rest, namespace: str, launch: str, anchor: Manifest, plan: UploadPlan) -> None:
        self._rest = rest
        self._namespace = namespace
        self._launch = launch
        self._anchor = anchor
        self._plan = plan

    def store(
        self,
        archive: ArchiveFile,
        progress: Callable[[int], None],
        notice: Callable[[str], None],
        *,
        seconds: float,
        keep_pod: bool,
    ) -> str:
        """The claim that holds the archive; it is owned by the anchor.

        `seconds` is how long the pod may take to run. With `keep_pod`, a pod that does not run then stays for the next
        try.
        """
        until = time.monotonic() + seconds
        claim = self._claim(archive, until)
        name: str = claim["metadata"]["name"]
        if clustervolume.is_complete(claim):
            return name
        pod = clustervolume.uploader(self._launch, archive.digest, name, self._plan, self._anchor)
        with self._running(pod, claim, until, notice, keep_pod=keep_pod):
            self._send(pod, claim, archive, progress, notice)
        complete = {"metadata": {"uid": claim["metadata"]["uid"], "annotations": {COMPLETE: "true"}}}
        self._rest.patch(self._path("persistentvolumeclaims", name), complete)
        return name

    # The claim

    def _claim(self, archive: ArchiveFile, until: float) -> Manifest:
        """A complete claim, or one to be filled; owned in either case."""
        *others, own = clustervolume.claim_names(archive.digest, self._launch, self._plan)
        for name in others:
            found = self._owned(name)
            if found is not None and clustervolume.is_complete(found):
                return found
        wanted = clustervolume.claim(own, archive.digest, archive.size, self._plan, self._anchor)
        path = self._path("persistentvolumeclaims", own)
        while True:
            found = self._owned(own)
            if found is None:
                with contextlib.suppress(AlreadyExists):
                    found = self._create("persistentvolumeclaims", wanted)
            elif clustervolume.is_outdated(found, self._plan):
                self._delete(path, found)
                found = None
            if found is not None and "deletionTimestamp" not in found["metadata"]:
                clustervolume.check_class(found)
                return found
            if time.monotonic() > until:
                raise NotYetReady(f"the old claim {own} is being deleted, and pods that use it keep it")
            time.sleep(_PAUSE_SECONDS)

    def _owned(self, name: str) -> Manifest | None:
        """A claim that exists, with the anchor among its owners."""
        path = self._path("persistentvolumeclaims", name)
        try:
            found: Manifest = self._rest.get(path)
            if "deletionTimestamp" in found["metadata"]:
                return found
            owners = {"metadata": {"uid": found["metadata"]["uid"], "ownerReferences": [reference(self._anchor)]}}
            found = self._rest.patch(path, owners, patch_type="strategic")
        except (NotFound, Conflict):  # gone, or replaced by another in between
            return None
        return found

    # The pod

    @contextlib.contextmanager
    def _running(
        self, pod: Manifest, claim: Manifest, until: float, notice: Callable[[str], None], *, keep_pod: bool
    ) -> Iterator[None]:
        """The pod runs within the block, and is deleted after it."""
        path = self._path("pods", pod["metadata"]["name"])
        try:
            self._start(pod, until)
            self._wait(path, claim, until, notice)
            yield
        except NotYetReady:
            if not keep_pod:
                self._delete(path)
            raise
        except BaseException:
            self._delete(path)
            raise
        self._delete(path)

    def _start(self, pod: Manifest, until: float) -> None:
        """Create the pod, or find that of an earlier try; one that has ended is replaced."""
        path = self._path("pods", pod["metadata"]["name"])
        while True:
            try:
                self._create("pods", pod)
            except AlreadyExists:
                pass
            else:
                return
            with contextlib.suppress(NotFound):
                found = self._rest.get(path)
                ended = (found.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
                if not ended and "deletionTimestamp" not in found["metadata"]:
                    return
                self._delete(path)
            if time.monotonic() > until:
                raise NotYetReady(f"the old uploader pod {pod['metadata']['name']} is being deleted")
            time.sleep(_PAUSE_SECONDS)

    def _wait(self, path: str, claim: Manifest, until: float, notice: Callable[[str], None]) -> None:
        said = ""
        while (waiting := self._waiting(path, claim)) is not None:
            if waiting.is_hopeless:
                raise VolumeUnusable(waiting.reason)
            if time.monotonic() > until:
                raise NotYetReady(f"the files cannot be uploaded: {waiting.reason}")
            if waiting.reason != said:
                said = waiting.reason
                notice(f"Waiting: {said}")
            time.sleep(_PAUSE_SECONDS)

    def _waiting(self, path: str, claim: Manifest) -> clustervolume.Waiting | None:
        name = claim["metadata"]["name"]
        try:
            pod = self._rest.get(path)
            if clustervolume.waiting(pod, claim, ()) is None:
                return None
            claim = self._rest.get(self._path("persistentvolumeclaims", name))
        except NotFound:
            return clustervolume.Waiting("the uploader pod or its claim was deleted", is_hopeless=True)
        return clustervolume.waiting(pod, claim, [*self._events(pod), *self._events(claim)])

    def _events(self, about: Manifest) -> list[Any]:
        selector = f"involvedObject.uid={about['metadata']['uid']}"
        try:
            found: list[Any] = self._rest.get(self._path("events"), fieldSelector=selector, limit=100)["items"]
        except Forbidden:  # they explain a delay, no more
            return []
        return found

    def _create(self, plural: str, manifest: Manifest) -> Manifest:
        try:
            made: Manifest = self._rest.create(self._path(plural), manifest)
        except Forbidden as error:
            if "exceeded quota" not in str(error):
                raise
            raise VolumeUnusable(
                f"files of more than 8 MB need a volume, and a pod that writes them into it: {error}. Delete jobs that "
                f"have ended, or have the ResourceQuota of namespace {self._namespace} raised"
            ) from error
        return made

    def _delete(self, path: str, found: Manifest | None = None) -> None:
        options = {"preconditions": {"uid": found["metadata"]["uid"]}} if found else None
        with contextlib.suppress(FairwayError):
            self._rest.delete(path, options)

    # The archive

    def _send(
        self,
        pod: Manifest,
        claim: Manifest,
        archive: ArchiveFile,
        progress: Callable[[int], None],
        notice: Callable[[str], None],
    ) -> None:
        path, name = self._path("pods", pod["metadata"]["name"]), claim["metadata"]["name"]
        command = store_command(archive.size, archive.digest, self._launch)
        start = archive.file.tell()
        for tries_left in reversed(range(_TRIES)):
            archive.file.seek(start)
            try:
                done = self._rest.execute(
                    path, clustervolume.CONTAINER, command, archive.file, archive.size, progress, _CHECK_SECONDS
                )
            except (Unreachable, ApiError) as error:
                self._explain(path, claim)
                if not tries_left or not isinstance(error, AnswerLost):
                    raise
                notice(f"The connection broke while uploading {archive.source}; retrying ...")
                continue
            if not done.exit_code:
                archive.file.seek(start)
                return
            raise VolumeUnusable(f"{archive.source} cannot be stored in the volume of claim {name}: {done.output}")

    def _explain(self, path: str, claim: Manifest) -> None:
        """`VolumeUnusable` if the pod has ended; it says why."""
        with contextlib.suppress(Unreachable, ApiError):
            waiting = self._waiting(path, claim)
            if waiting is not None:
                raise VolumeUnusable(waiting.reason)

    def _path(self, plural: str, name: str = "") -> str:
        return paths.resource("v1", plural, self._namespace, name)
