"""Creates Secrets and files of a launch on a cluster, and makes the jobs their owners.

    with ClusterLaunch(rest, namespace, unique) as launch:
        claim = launch.add_archive(archive, plan)
        launch.add_secret(secret)
        jobs = [rest.create(...) for ...]
        launch.own(jobs)

What was created is deleted again if the block ends with an exception. A process that is killed in between leaves an
anchor without an owner, which the controller deletes after an hour, and what it owns goes with it.
"""

import base64
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from fairway.apis.machinery.kind import Manifest
from fairway.client.rest import Rest, paths
from fairway.client.uploading import ArchiveFile, Uploading
from fairway.errors import AlreadyExists, Conflict, FairwayError, NotFound
from fairway.managedjobs import clusterfiles
from fairway.managedjobs.clusterfiles import CHUNK_BYTES, CHUNK_KEY, MOST_BYTES, chunk_names, reference
from fairway.managedjobs.clustervolume import UploadPlan

_TRIES: Final = 5
_SECONDS_TO_RUN: Final = 600.0
"""How long the pod that uploads large files may take to start: a node may have to be added for it."""

_SECONDS_OF_A_TRY: Final = 15.0
"""The same where there is a next try; a thread of the server waits meanwhile."""


class ClusterLaunch:
    """The objects of one launch besides its jobs. Nothing is created for a launch without secrets and files."""

    def __init__(self, rest: Rest, namespace: str, unique: str, *, again: bool = False) -> None:
        """`unique` becomes part of names: letters and digits, random.

        With `again` it is the same for every try: what an earlier one created is used, and a failed one removes
        nothing, because the job may exist.
        """
        self._again = again
        self._rest = rest
        self._namespace = namespace
        self._unique = unique
        self._anchors: list[Manifest] = []
        self._owned: list[str] = []
        """Paths of what the anchors own."""

    def add_archive(
        self,
        archive: ArchiveFile,
        plan: UploadPlan,
        progress: Callable[[int], None] = lambda _sent: None,
        notice: Callable[[str], None] = lambda _text: None,
    ) -> str:
        """Store an archive, unless an equal one is: as Secrets, or a large one in a volume, whose claim is returned."""
        if archive.size > MOST_BYTES:
            return self._upload(archive, plan, progress, notice)
        _, digest, size, file = archive
        start = file.tell()
        for index, name in enumerate(chunk_names(digest, size)):
            file.seek(start + index * CHUNK_BYTES)
            content = file.read(min(CHUNK_BYTES, size - index * CHUNK_BYTES))
            self._ensure_chunk(digest, index, name, content)
            progress(min(size, (index + 1) * CHUNK_BYTES))
        file.seek(start)
        return ""

    def _upload(
        self, archive: ArchiveFile, plan: UploadPlan, progress: Callable[[int], None], notice: Callable[[str], None]
    ) -> str:
        uploading = Uploading(self._rest, self._namespace, self._unique, self._anchor(), plan)
        seconds = _SECONDS_OF_A_TRY if self._again else _SECONDS_TO_RUN
        claim = uploading.store(archive, progress, notice, seconds=seconds, keep_pod=self._again)
        self._owned.append(self._path("persistentvolumeclaims", claim))
        return claim

    def add_secret(self, manifest: Manifest) -> None:
        """Create the Secret of the launch."""
        owners = [reference(self._anchor())]
        try:
            self._rest.create(
                self._path("secrets"), {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": owners}}
            )
        except AlreadyExists:
            if not self._again:
                raise
            self._use_secret(manifest, owners)
        self._owned.append(self._path("secrets", manifest["metadata"]["name"]))

    def _use_secret(self, manifest: Manifest, owners: list[Manifest]) -> None:
        """Own a Secret that an earlier try or another task of the same job created."""
        path = self._path("secrets", manifest["metadata"]["name"])
        found = self._rest.get(path)
        if (found["metadata"].get("labels") or {}) != (manifest["metadata"].get("labels") or {}):
            raise AlreadyExists(
                f"context {self._rest.context!r}: there is another Secret {manifest['metadata']['name']!r} in "
                f"namespace {self._namespace!r} already"
            )
        self._rest.patch(path, {"metadata": {"ownerReferences": owners}}, patch_type="strategic")

    def own(self, jobs: list[Manifest]) -> None:
        """Make these jobs the owners of all that was created."""
        if not self._anchors and self._again:
            self._find_anchor()
        if not self._anchors:
            return
        first, *more = clusterfiles.batches(jobs)
        owners = {"metadata": {"ownerReferences": [reference(job) for job in first]}}
        self._rest.patch(self._path("configmaps", self._anchors[0]["metadata"]["name"]), owners, patch_type="strategic")
        for index, batch in enumerate(more, 1):
            anchor = clusterfiles.anchor(self._unique, index, batch)
            self._anchors.append(self._rest.create(self._path("configmaps"), anchor))
        if more:
            others = {"metadata": {"ownerReferences": [reference(one) for one in self._anchors[1:]]}}
            for path in self._owned:
                self._rest.patch(path, others, patch_type="strategic")

    def remove(self) -> None:
        """Delete the anchors; the garbage collector deletes what no other launch uses."""
        for anchor in self._anchors:
            with contextlib.suppress(FairwayError):
                self._rest.delete(self._path("configmaps", anchor["metadata"]["name"]))
        self._anchors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and not self._again:
            self.remove()

    def _ensure_chunk(self, digest: str, index: int, name: str, content: bytes) -> None:
        """Own an existing Secret, or create it; the garbage collector may delete it in between."""
        anchor = self._anchor()
        patch = {"metadata": {"ownerReferences": [reference(anchor)]}}
        wanted = clusterfiles.chunk(digest, index, content, [anchor])
        for tries_left in reversed(range(_TRIES)):
            try:
                found = self._rest.patch(self._path("secrets", name), patch, patch_type="strategic")
            except NotFound:
                try:
                    found = self._rest.create(self._path("secrets"), wanted)
                except (AlreadyExists, Conflict):
                    if tries_left:
                        continue
                    raise
            self._check_same(name, found, content)
            self._owned.append(self._path("secrets", name))
            return

    def _check_same(self, name: str, found: Any, content: bytes) -> None:
        if base64.b64decode((found.get("data") or {}).get(CHUNK_KEY, "")) != content:
            raise Conflict(
                f"Secret {name!r} in namespace {self._namespace!r} does not hold the files that its name says; delete "
                "it, then launch again"
            )

    def _anchor(self) -> Manifest:
        if not self._anchors and self._again:
            self._find_anchor()
        if not self._anchors:
            self._anchors.append(self._rest.create(self._path("configmaps"), clusterfiles.anchor(self._unique)))
        return self._anchors[0]

    def _find_anchor(self) -> None:
        name = clusterfiles.anchor(self._unique)["metadata"]["name"]
        with contextlib.suppress(NotFound):
            found = self._rest.get(self._path("configmaps", name))
            self._anchors.append({**found, "apiVersion": "v1", "kind": "ConfigMap"})

    def _path(self, plural: str, name: str = "") -> str:
        return paths.resource("v1", plural, self._namespace, name)
