"""The API for controllers: implemented on the store in this process, and over HTTP.

Objects are manifests in the stored version of their kind, shared by all readers: not to be changed. Refusals are the
`ApiError`s that the server would send. A controller cannot tell which implementation it has.
"""

from asyncio import Future
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import NotFound


class WatchEvent(NamedTuple):
    """One change."""

    type: str
    """`ADDED`, `MODIFIED` or `DELETED`."""

    manifest: Manifest
    """The object after the change; its last state where it was deleted."""


class Listed(NamedTuple):
    """Objects as of one moment."""

    items: list[Manifest]
    resource_version: str
    """Where a watch continues."""


class Scope(NamedTuple):
    """Selects objects of a kind."""

    namespace: str = ""
    """Empty means all."""

    labels: str = ""
    fields: str = ""


EVERYTHING = Scope()


class NotServed(NotFound):
    """The API server has no such resource at all, for example because its CustomResourceDefinition is missing."""


class UnservedVersion(NotFound):
    """The API server has the resource, but not in the version that is needed."""


def is_newer(version: str, than: str) -> bool:
    """Whether a resource version is later than another one of the same resource.

    Kubernetes orders them as whole numbers. Those of a server that writes them otherwise cannot be compared: then the
    one that arrived last counts as the later one.
    """
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


def is_gone(manifest: Manifest) -> bool:
    """Whether the answer to a write is the last state of an object: marked for deletion, and nothing to wait for."""
    metadata = manifest["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


class Client(Protocol):
    """The API."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """One object; `NotFound` if there is none."""

    async def list(self, kind: Kind, scope: Scope = EVERYTHING) -> Listed:
        """All objects that match `scope`."""

    def watch(self, kind: Kind, since: str, scope: Scope = EVERYTHING) -> AsyncIterator[tuple[WatchEvent, ...]]:
        """The changes after a resource version, together where they came together; `Expired` if they are no longer
        known: list again, and watch from there.
        """

    async def create(self, kind: Kind, manifest: Manifest, *, trusted: bool = False) -> Manifest:
        """A new object, as it was stored; a `trusted` one is right by construction and need not be looked at twice."""

    async def update(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        """Replace an object, or its status; `Conflict` if it has changed since it was read."""

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, *, patch_type: str = "merge", subresource: str = ""
    ) -> Manifest:
        """Change an object, or its status; `patch_type` is `merge`, `json` or `strategic`."""

    async def apply(self, kind: Kind, manifest: Manifest, *, force: bool = False, subresource: str = "") -> Manifest:
        """Server-side apply under this client's name."""

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
    ) -> Manifest | None:
        """Delete an object, or mark it for deletion: then as it is now, `None` once it is gone. `NotFound` if it is not
        there, `Conflict` if it is another one or, where a version is given, has changed.
        """

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Manifest:
        """Give this very pod to a node; the pod as it is then. `Conflict` if it has one."""


class Staged(NamedTuple):
    """A write that is decided, and counts for the writes after it."""

    durable: Future[None] | None
    """Done when the write is durable, or failed with its error; `None` where nothing is to be stored."""

    manifest: Callable[[], Manifest]
    """The object after the write; to be asked for when that is durable."""


@runtime_checkable
class StagingClient(Protocol):
    """What a client may do besides: decide a write in the call that asks for it, so that no task is needed."""

    def stage_patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, *, patch_type: str = "merge", subresource: str = ""
    ) -> Staged:
        """The same as `Client.patch`; a refusal is raised at once."""


@runtime_checkable
class LogClient(Protocol):
    """What a client of a server with kubelets may do besides."""

    def log(self, namespace: str, pod: str, **query: str | int | bool) -> AsyncIterator[bytes]:
        """What a container of a pod wrote; the query parameters are those of `pods/log`."""
