"""The API as a controller meets it: one cache a kind, shared by all, and writes that the caches show at once.

    cluster = Cluster(lambda manager: LocalClient(objects, manager), registry, clock)
    pods = cluster.cache("pods")
    writer = cluster.writer("job-controller")
    await writer.patch("pods", pod, {"status": {...}}, subresource="status")

Controllers and the runner take a `Cluster` and nothing else of the outside world. What they decide belongs to them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import Registry
from fairway.client.informer import Informer
from fairway.client.protocol import EVERYTHING, Client, Listed, LogClient, Scope, StagingClient, WatchEvent, is_gone
from fairway.errors import NotFound
from fairway.runtime.clock import Clock
from fairway.settings import SYSTEM_NAMESPACE

Ended: TypeAlias = Callable[[Callable[[], Manifest]], None]
"""Called with how a write ended: a function that gives the object after it, or raises what it was refused with."""


class Lister(Protocol):
    """Read-only access to the objects of a cluster, from caches that are kept current."""

    def cache(self, resource: str) -> Informer:
        """All objects of a kind; to be asked for before the caches are started."""


class Cluster:
    """The caches of all requested kinds, and writers."""

    def __init__(
        self,
        clients: Callable[[str], Client],
        registry: Registry,
        clock: Clock,
        scopes: Mapping[str, Sequence[Scope]] = MappingProxyType({}),
        *,
        namespace: str = SYSTEM_NAMESPACE,
    ) -> None:
        """`clients` makes a client that owns what it writes under a name. `scopes` limits the caches of some resources
        to the objects that a controller needs: all scopes of a resource together, in different namespaces. A resource
        with no scope at all is not read: its cache stays empty.
        """
        self.namespace = namespace
        """Where Fairway keeps objects of its own."""

        self._scopes = scopes
        self._clients = clients
        self.registry = registry
        self._reader = clients("fairway")
        self._caches: dict[str, Informer] = {}
        self._kinds: dict[str, Kind] = {}
        self.clock = clock

    def kind(self, resource: str) -> Kind:
        """The kind of a resource such as `pods` or `jobs.batch`."""
        kind = self._kinds.get(resource)  # asked for every write, and to look it up takes a while
        if kind is None:
            kind = self._kinds[resource] = self.registry.named(resource)
        return kind

    def kinds(self) -> tuple[Kind, ...]:
        """Every kind that is served."""
        return self.registry.kinds

    def cache(self, resource: str) -> Informer:
        """All objects of a kind that are in its scopes; to be asked for before `run`."""
        kind = self.kind(resource)
        found = self._caches.get(kind.resource)
        if found is None:
            scopes = self._scopes.get(kind.resource, (EVERYTHING,))
            found = self._caches[kind.resource] = Informer(self._reader, kind, self.clock, scopes)
        return found

    async def get(self, resource: str, namespace: str, name: str) -> Manifest:
        """One object as the server has it now, not as a cache has it; `NotFound` if there is none."""
        return await self._reader.get(self.kind(resource), namespace, name)

    async def list(self, resource: str, scope: Scope) -> Listed:
        """Objects as the server has them now; for what is too rare for a cache."""
        return await self._reader.list(self.kind(resource), scope)

    def watch(self, resource: str, since: str) -> AsyncIterator[tuple[WatchEvent, ...]]:
        """The changes of a resource after a version, for who must not miss any; `Expired` if they are not known."""
        return self._reader.watch(self.kind(resource), since)

    def log(self, namespace: str, pod: str, **query: str | int | bool) -> AsyncIterator[bytes]:
        """What a container of a pod wrote, by the parameters of `pods/log`; only of servers that have a kubelet."""
        if not isinstance(self._reader, LogClient):
            raise NotFound("logs of pods are files of this server; there is no pods/log to read them from")
        return self._reader.log(namespace, pod, **query)

    def writer(self, manager: str) -> "Writer":
        """A writer with this field manager."""
        return Writer(self, self._clients(manager))

    @property
    def followed(self) -> set[str]:
        """The resources that are listed and watched."""
        return {resource for resource in self._caches if self._scopes.get(resource, (EVERYTHING,))}

    async def run(self) -> None:
        """Keep the caches current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for cache in self._caches.values():
                group.create_task(cache.run())

    async def synced(self) -> None:
        """Wait until every cache holds what was there at the start."""
        for cache in self._caches.values():
            await cache.synced.wait()

    def note(self, kind: Kind, manifest: Manifest) -> None:
        """Show in the cache what came of a write."""
        cache = self._caches.get(kind.resource)
        if cache is not None:
            if is_gone(manifest):
                cache.note_gone(manifest)
            else:
                cache.note(manifest)

    def note_gone(self, kind: Kind, manifest: Manifest) -> None:
        cache = self._caches.get(kind.resource)
        if cache is not None:
            cache.note_gone(manifest)


class Writer:
    """Writes under one name. Refusals are the `ApiError`s of the API; manifests given to it are its to change."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self._cluster = cluster
        self._client = client
        self._staging = client if isinstance(client, StagingClient) else None

    async def create(self, resource: str, manifest: Manifest, *, trusted: bool = False) -> Manifest:
        """A new object; a `trusted` one is right by construction."""
        kind = self._cluster.kind(resource)
        manifest.setdefault("apiVersion", kind.api_version(kind.stored))
        manifest.setdefault("kind", kind.kind)
        created = await self._client.create(kind, manifest, trusted=trusted)
        self._cluster.note(kind, created)
        return created

    async def patch(
        self,
        resource: str,
        of: Manifest,
        patch: Any,
        *,
        subresource: str = "",
        patch_type: str = "merge",
        locked: bool = False,
    ) -> Manifest:
        """Change an object; with `locked` only if it still is in the state of `of`, else `Conflict` (merge only)."""
        kind = self._cluster.kind(resource)
        metadata = of["metadata"]
        if locked:
            patch = _locked(patch, metadata)
        written = await self._client.patch(
            kind,
            metadata.get("namespace", ""),
            metadata["name"],
            patch,
            patch_type=patch_type,
            subresource=subresource,
        )
        self._cluster.note(kind, written)
        return written

    def begin_patch(
        self, resource: str, of: Manifest, patch: Any, ended: Ended, *, subresource: str = ""
    ) -> asyncio.Future[Any]:
        """Start a `patch` with a precondition; the callback gets its result, never before this returns.

        Who has many to begin saves a task for each, where the client can do without. Who cancels what is given back
        hears no more of it, unless it had ended already.
        """
        if self._staging is None:
            task = asyncio.create_task(self.patch(resource, of, patch, subresource=subresource, locked=True))
            return _notify_when_done(task, ended, task.result)
        kind, metadata = self._cluster.kind(resource), of["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        try:
            staged = self._staging.stage_patch(kind, namespace, name, _locked(patch, metadata), subresource=subresource)
        except Exception as error:  # noqa: BLE001 - reported like a later failure
            return _refused(error, ended)
        done = staged.durable or _done()

        def written() -> Manifest:
            done.result()
            manifest = staged.manifest()
            self._cluster.note(kind, manifest)
            return manifest

        return _notify_when_done(done, ended, written)

    async def delete(
        self,
        resource: str,
        of: Manifest,
        *,
        locked: bool = False,
        propagation: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete this very object, or mark it for deletion; nothing if it is gone already. A `locked` deletion is
        refused with `Conflict` if the object has changed since.
        """
        kind = self._cluster.kind(resource)
        metadata = of["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        try:
            left = await self._client.delete(
                kind,
                namespace,
                name,
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"] if locked else "",
                propagation=propagation,
                grace_seconds=grace_seconds,
            )
        except NotFound:
            left = None
        if left is None:
            self._cluster.note_gone(kind, of)
        else:
            self._cluster.note(kind, left)

    async def bind(self, pod: Manifest, node: str) -> Manifest:
        """Give a pod to a node."""
        metadata = pod["metadata"]
        bound = await self._client.bind(metadata["namespace"], metadata["name"], metadata["uid"], node)
        self._cluster.note(self._cluster.kind("pods"), bound)
        return bound


def _locked(patch: Manifest, metadata: Manifest) -> Manifest:
    """The patch, for this very state alone."""
    return {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": metadata["resourceVersion"]}}


def _notify_when_done(write: asyncio.Future[Any], ended: Ended, result: Callable[[], Manifest]) -> asyncio.Future[Any]:
    """The write; `ended` is called when it is done."""
    write.add_done_callback(lambda write: None if write.cancelled() else ended(result))
    return write


def _refused(error: Exception, ended: Ended) -> asyncio.Future[Any]:
    refused = _done(error)
    return _notify_when_done(refused, ended, refused.result)


def _done(error: Exception | None = None) -> asyncio.Future[Any]:
    done = asyncio.get_running_loop().create_future()
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
    return done
