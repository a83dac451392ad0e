"""Other servers and clusters, by the contexts of a kubeconfig: jobs are created there, changed, deleted and followed.

A server of ours takes the files of a job as archives, and the job with its Secret in one transaction. A Kubernetes
cluster has neither: `fairway.client.clusterlaunch` stores the files there, and the job comes last. Either way a job is
found by its name and origin before it is created, so it never exists twice.

The contract is in `fairway.controllers.managedjob.remoting`; whether and when a job goes elsewhere is not decided here.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from fairway.apis.fairway.records import MANAGED_JOB
from fairway.apis.machinery.kind import Manifest
from fairway.client.clusterlaunch import ClusterLaunch
from fairway.client.http import HttpClient, Transport, open_transport
from fairway.client.informer import Informer
from fairway.client.protocol import Scope
from fairway.client.rest import AnswerLost, Garbled, KubeconfigError, Rest, Unreachable, open_rest, paths
from fairway.client.rest.kubeconfig import Kubeconfig, load
from fairway.client.rest.wire import PATCHES
from fairway.client.sighting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID, Sighting
from fairway.client.uploading import ArchiveFile
from fairway.errors import AlreadyExists, BadRequest, FairwayError, NotFound
from fairway.managedjobs.clustervolume import VolumeUnusable, plan_for, with_claims
from fairway.runtime.clock import Clock

_log = logging.getLogger(__name__)

Handler = Callable[[str, str], None]

_SILENT_SECONDS: Final = 20.0
_UNIQUE: Final = 16
_PAUSE_SECONDS: Final = 2.0
"""A server that did not answer is not asked again for so long: the controller has other jobs to look after."""


class KubeconfigRemotes:
    """The servers behind the contexts of a kubeconfig. For one event loop."""

    def __init__(
        self,
        kubeconfig: Path | str,
        archives: Path,
        clock: Clock,
        *,
        allowed: Collection[str] | None = None,
        own: Path | None = None,
    ) -> None:
        """`allowed` are the contexts that may be used, `None` for all; `own` is the
        kubeconfig of this server itself, which is never a remote, under any name."""
        self._kubeconfig = kubeconfig
        self._archives = archives
        self._clock = clock
        self._allowed = allowed
        self._own = own
        self._loaded: Kubeconfig | None = None
        self._own_url = ""
        self._stamp: object = None
        self._handlers: list[Handler] = []
        self._remotes: dict[str, _Remote] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._silent: dict[str, tuple[float, str]] = {}
        """Contexts whose server did not answer: until when it is not asked, and what is said meanwhile."""

    def knows(self, context: str) -> bool:
        """Whether there is such a context, and it may be used."""
        if not context or (self._allowed is not None and context not in self._allowed):
            return False
        try:
            known = self._current()
            if known is None or context not in known.names:
                return False
            return known.context(context).endpoint.url != self._own_url
        except FairwayError as error:
            _log.warning("context %s: %s", context, error)
            return False

    def sighting(self, context: str, name: str) -> Sighting:
        """A job there, from memory; the context is followed from then on."""
        try:
            remote = self._remote(context)
        except FairwayError:
            return Sighting(known=False)
        return Sighting(remote.informer.synced.is_set(), remote.informer.get(remote.transport.namespace, name))

    async def submit(self, context: str, manifest: Manifest, *, namespace: str, secret: Manifest | None) -> Manifest:
        """Create a job there with what it needs, or find it created."""
        remote = await self._reachable(context)
        archives = self._archives / namespace
        with self._noticing(context):
            if remote.is_cluster:
                job = await asyncio.to_thread(self._submit_to_cluster, context, manifest, archives, secret)
            else:
                job = await _submit(remote.transport, manifest, archives, secret)
        job["metadata"].pop("managedFields", None)  # as in what the informer gets
        remote.informer.note(job)
        return job

    def _submit_to_cluster(self, context: str, manifest: Manifest, archives: Path, secret: Manifest | None) -> Manifest:
        with open_rest(self._kubeconfig, context) as rest:
            rest.silent_seconds = _SILENT_SECONDS
            return submit_to_cluster(rest, manifest, archives, secret)

    async def change(self, context: str, name: str, spec: Manifest) -> Manifest | None:
        """Merge into the spec of a job there; `None` if it is gone."""
        remote = await self._reachable(context)
        try:
            with self._noticing(context):
                job = await remote.client.patch(MANAGED_JOB, remote.transport.namespace, name, {"spec": spec})
        except NotFound:
            return None
        remote.informer.note(job)
        return job

    async def delete(self, context: str, name: str) -> None:
        """Delete a job there, and the Secret that was made for it; nothing if it is gone."""
        remote = await self._reachable(context)
        with self._noticing(context):
            await _delete(remote.transport, name)

    def on_change(self, handler: Handler) -> None:
        """Tell this handler of every job here whose copy changed, and with empty names when a server told of all."""
        self._handlers.append(handler)

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for remote in self._remotes.values():
                    remote.task = tasks.create_task(remote.informer.run())
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            await self.close()

    async def close(self) -> None:
        """Close all connections."""
        for context in list(self._remotes):
            self._close(context)

    def _remote(self, context: str) -> "_Remote":
        """The server of a context as the kubeconfig has it now."""
        remote, stamp = self._remotes.get(context), self._changed()
        if remote is not None and remote.stamp == stamp:
            return remote
        known = self._current() if self.knows(context) else None
        if known is None:
            raise KubeconfigError(f"{self._kubeconfig}: there is no context {context!r} that may be used")
        if remote is not None and remote.transport.namespace == known.context(context).namespace:
            remote.transport.refresh()
            remote.stamp, remote.served = stamp, False
            return remote
        self._close(context)
        transport = open_transport(self._kubeconfig, context, self._clock, silent_seconds=_SILENT_SECONDS)
        remote = self._remotes[context] = _Remote(transport, self._clock, stamp)
        remote.informer.on_change(lambda old, new: self._emit(new or old))
        remote.informer.on_list(lambda: self._emit(None))
        if self._tasks is not None:
            remote.task = self._tasks.create_task(remote.informer.run())
        return remote

    async def _reachable(self, context: str) -> "_Remote":
        """The server of a context, once it is known to serve managed jobs."""
        until, said = self._silent.get(context, (0.0, ""))
        if self._clock.monotonic() < until:
            raise Unreachable(said)
        self._silent.pop(context, None)
        remote = self._remote(context)
        if not remote.served:
            with self._noticing(context):
                remote.is_cluster = not await _is_ours(remote.transport)
            remote.served = True
        return remote

    @contextlib.contextmanager
    def _noticing(self, context: str) -> Iterator[None]:
        """Remember a server that does not answer."""
        try:
            yield
        except Unreachable as error:
            self._silent.setdefault(context, (self._clock.monotonic() + _PAUSE_SECONDS, str(error)))
            raise

    def _emit(self, job: Manifest | None) -> None:
        annotations = ((job or {}).get("metadata") or {}).get("annotations") or {}
        namespace, name = annotations.get(ORIGIN_NAMESPACE, ""), annotations.get(ORIGIN_NAME, "")
        if job is None or (namespace and name):
            for handler in self._handlers:
                handler(namespace, name)

    def _close(self, context: str) -> None:
        remote = self._remotes.pop(context, None)
        if remote is not None:
            if remote.task is not None:
                remote.task.cancel()
            remote.transport.close()

    def _current(self) -> Kubeconfig | None:
        """What the files say now; `None` if there are none."""
        stamp = self._changed()
        if self._loaded is None or stamp != self._stamp:
            self._own_url = load(self._own).context().endpoint.url if self._own and stamp[0] else ""
            self._loaded = load(self._kubeconfig) if any(stamp[1:]) else None
            self._stamp = stamp
        return self._loaded

    def _changed(self) -> tuple[object, ...]:
        """Something that is another when a file is."""
        files = [Path(part).expanduser() for part in str(self._kubeconfig).split(os.pathsep) if part]
        return tuple(None if path is None else _stat(path) for path in (self._own, *files))


class _Remote:
    """One server: its connections, its managed jobs as last seen, and the task that follows them."""

    def __init__(self, transport: Transport, clock: Clock, stamp: object) -> None:
        self.transport = transport
        self.client = HttpClient(transport, clock, "fairway")
        scope = Scope(namespace=transport.namespace, labels=ORIGIN_UID)
        self.informer = Informer(self.client, MANAGED_JOB, clock, (scope,))
        self.stamp = stamp
        """Of the kubeconfig that it was opened with."""

        self.task: asyncio.Task[None] | None = None
        self.served = False
        self.is_cluster = False
        """Whether it is a Kubernetes cluster, once it is known to be served."""


def _stat(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def _is_ours(transport: Transport) -> bool:
    """Whether this is a server of ours; `NotFound` for one that serves no managed jobs."""
    try:
        served = await transport.json("GET", paths.FAIRWAY)
        names = {one.get("name") for one in (served.get("resources") if isinstance(served, dict) else None) or ()}
        if "managedjobs" in names:
            return "managedjobs/log" in names  # a CustomResourceDefinition has no such part
    except NotFound:
        pass
    raise NotFound(
        f"context {transport.context!r}: {transport.server} serves no managedjobs of fairway.dev/v1alpha1; install "
        f"Fairway there with `fairway cluster install --context {transport.context}`, or choose another context for "
        "infra"
    )


def submit_to_cluster(rest: Rest, manifest: Manifest, archives: Path, secret: Manifest | None) -> Manifest:
    """Create a job on a Kubernetes cluster with what it needs, or find it created. Blocks.

    All names are made from the origin of the job, so that a submit that was cut off is completed by the next one.
    """
    name = manifest["metadata"]["name"]
    unique = hashlib.sha256(f"{_origin(manifest)}/{name}".encode()).hexdigest()[:_UNIQUE]
    with ClusterLaunch(rest, rest.namespace, unique, again=True) as launch:
        job = _found(rest, manifest)
        if job is None:
            sized = _store_archives(launch, manifest, archives, rest.context)
            if secret is not None:
                launch.add_secret(_copy(manifest, secret))
            try:
                job = rest.create(paths.jobs(rest.namespace), sized)
            except (AlreadyExists, AnswerLost):
                job = _found(rest, manifest)
                if job is None:
                    raise
        if not job["spec"].get("id"):
            rest.delete(paths.job(rest.namespace, name), {"preconditions": {"uid": job["metadata"]["uid"]}})
            raise NotFound(
                f"context {rest.context!r}: {rest.server} gives managed jobs no ids: Fairway's webhook is missing; "
                f"`fairway cluster install --context {rest.context}` installs it"
            )
        launch.own([job])
    found: Manifest = job
    return found


def _found(rest: Rest, manifest: Manifest) -> Manifest | None:
    """As `_find`, for a client that blocks."""
    try:
        job: Manifest = rest.get(paths.job(rest.namespace, manifest["metadata"]["name"]))
    except NotFound:
        return None
    return _checked_origin(job, manifest, rest.context, rest.namespace)


def _store_archives(launch: ClusterLaunch, manifest: Manifest, archives: Path, context: str) -> Manifest:
    """Store the files of all tasks; returns the job with their sizes and claims, by which its pods find them."""
    sizes, claims = {}, {}
    for task in manifest["spec"].get("tasks") or ():
        for one in task.get("files") or ():
            digest = one["archive"]
            with _archive(archives, digest) as file:
                sizes[digest] = os.fstat(file.fileno()).st_size
                stored = ArchiveFile(one["path"], digest, sizes[digest], file)
                try:
                    claims[digest] = launch.add_archive(stored, plan_for([manifest], digest))
                except VolumeUnusable as error:  # the next try would not succeed either
                    raise BadRequest(f"context {context!r}: {error}") from error
    return with_claims(_sized(manifest, sizes), claims)


def _sized(manifest: Manifest, sizes: dict[str, int]) -> Manifest:
    tasks = [
        {**task, "files": [{**one, "size": sizes[one["archive"]]} for one in task["files"]]}
        if task.get("files")
        else task
        for task in manifest["spec"].get("tasks") or ()
    ]
    return {**manifest, "spec": {**manifest["spec"], "tasks": tasks}}


def _archive(archives: Path, digest: str) -> BinaryIO:
    try:
        return (archives / f"{digest}.tar.gz").open("rb")
    except FileNotFoundError:
        raise NotFound(
            f"the files of the job (archive {digest}) are not on this server, so it cannot be sent on; a cluster keeps "
            "them in Secrets or a volume, which its controller does not read: launch such jobs where they are to run"
        ) from None


async def _submit(transport: Transport, manifest: Manifest, archives: Path, secret: Manifest | None) -> Manifest:
    job = await _find(transport, manifest)
    if job is None:
        await _send_archives(transport, manifest, archives)
        operations: list[dict[str, Any]] = [{"verb": "create", "manifest": manifest}]
        copy = None if secret is None else _copy(manifest, secret)
        if copy is not None and not await _has_secret(transport, copy):
            operations.insert(0, {"verb": "create", "manifest": copy})
        try:
            job = await _transact(transport, operations)
        except AlreadyExists:
            job = await _find(transport, manifest)
            if job is None:
                raise
    if secret is not None:
        await _own_secret(transport, job)
    return job


async def _transact(transport: Transport, operations: list[dict[str, Any]]) -> Manifest:
    """All writes in one commit, or none; the result of the last."""
    transaction = {"apiVersion": "fairway.dev/v1alpha1", "kind": "Transaction", "spec": {"operations": operations}}
    answer = await transport.json("POST", paths.transactions(transport.namespace), body=transaction)
    results = (answer.get("status") or {}).get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list) or not results:
        raise Garbled(f"{transport.server} answered a transaction without its results")
    job: Manifest = results[-1]
    return job


async def _find(transport: Transport, manifest: Manifest) -> Manifest | None:
    """The job, if it was created before; `AlreadyExists` if it has another origin."""
    name = manifest["metadata"]["name"]
    try:
        job: Manifest = await transport.json("GET", paths.job(transport.namespace, name))
    except NotFound as error:
        if (error.details or {}).get("kind") == "namespaces":
            raise
        return None
    return _checked_origin(job, manifest, transport.context, transport.namespace)


def _checked_origin(job: Manifest, manifest: Manifest, context: str, namespace: str) -> Manifest:
    if _origin(job) != _origin(manifest):
        name = manifest["metadata"]["name"]
        raise AlreadyExists(f"context {context!r}: there is another job {name!r} in namespace {namespace!r} already")
    return job


async def _send_archives(transport: Transport, manifest: Manifest, archives: Path) -> None:
    tasks = manifest["spec"].get("tasks") or ()
    for digest in sorted({one["archive"] for task in tasks for one in task.get("files") or ()}):
        where = paths.archive(transport.namespace, digest)
        if await transport.exists(where):
            continue
        with _archive(archives, digest) as file:
            await transport.upload(where, file, os.fstat(file.fileno()).st_size)


def _copy(manifest: Manifest, secret: Manifest) -> Manifest:
    """A Secret as it goes there, under the name by which the job asks for it."""
    name = manifest["spec"].get("secretName") or secret["metadata"]["name"]
    metadata = {"name": name, "labels": {ORIGIN_UID: _origin(manifest)}}
    copied: Manifest = {field: secret[field] for field in ("type", "data") if field in secret}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **copied}


async def _has_secret(transport: Transport, copy: Manifest) -> bool:
    """Whether it was created before, for another task of the same job; `AlreadyExists` if it has another origin."""
    name = copy["metadata"]["name"]
    try:
        found = await transport.json("GET", _secret(transport, name))
    except NotFound:
        return False
    if _origin(found) != _origin(copy):
        raise AlreadyExists(
            f"context {transport.context!r}: there is another Secret {name!r} in namespace {transport.namespace!r} "
            "already"
        )
    return True


async def _own_secret(transport: Transport, job: Manifest) -> None:
    """Make the job an owner of its Secret, so that the Secret goes with the last job that uses it."""
    where = _secret(transport, job["spec"].get("secretName") or "")
    secret = await transport.json("GET", where)
    owners = secret["metadata"].get("ownerReferences") or []
    if any(owner["uid"] == job["metadata"]["uid"] for owner in owners):
        return
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
    owner |= {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    metadata = {"ownerReferences": [*owners, owner], "resourceVersion": secret["metadata"]["resourceVersion"]}
    await transport.json("PATCH", where, body={"metadata": metadata}, content=PATCHES["merge"])


async def _delete(transport: Transport, name: str) -> None:
    where = paths.job(transport.namespace, name)
    try:
        job = await transport.json("GET", where)
        await transport.json("DELETE", where, body={"preconditions": {"uid": job["metadata"]["uid"]}})
    except NotFound:
        return
    secret_name = job["spec"].get("secretName")
    if not secret_name:
        return
    where = _secret(transport, secret_name)
    with contextlib.suppress(NotFound):
        secret = await transport.json("GET", where)
        # With an owner it goes by itself; without one, the submit was cut off before it could set one.
        if _origin(secret) == _origin(job) and not secret["metadata"].get("ownerReferences"):
            await transport.json("DELETE", where)


def _secret(transport: Transport, name: str) -> str:
    return paths.resource("v1", "secrets", transport.namespace, name)


def _origin(manifest: Manifest) -> str:
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    return str(labels.get(ORIGIN_UID, ""))
