"""The protocol of controllers (`fairway.client.protocol.Client`) over HTTP, on any Kubernetes API server."""

import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.http.transport import Transport
from fairway.client.protocol import EVERYTHING, Listed, NotServed, Scope, UnservedVersion, WatchEvent, is_gone
from fairway.client.rest import paths
from fairway.client.rest.errors import Unreachable
from fairway.client.rest.wire import JSON, PATCHES, Query
from fairway.errors import AlreadyExists, ApiError, BadRequest, Expired, NotFound
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock

_log = logging.getLogger(__name__)
_PAGE: Final = 500
_WATCH_SECONDS: Final = 300
"""A watch request lasts so long or up to twice that, so that not all are renewed at once; the next continues from the
last bookmark.
"""

_BACKOFF: Final = Backoff(first=0.25, cap=5.0)
_MOST_CREATES: Final = 20
"""Times that a create is sent again before its error is raised: about a minute and a half."""

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_LONGEST_NAME: Final = 63
_MOST_FAILURES: Final = 5
"""Watches that are refused in a row without an event before the caller gets the error."""


class HttpClient:
    """Keeps the contract of `protocol.Client`. Manifests that it returns are the caller's own."""

    def __init__(self, transport: Transport, clock: Clock, manager: str) -> None:
        """`manager` is the field manager of all writes."""
        self.transport = transport
        self._clock = clock
        self._manager = manager

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return _manifest(await self.transport.json("GET", _path(kind, namespace, name)))

    async def list(self, kind: Kind, scope: Scope = EVERYTHING) -> Listed:
        """In pages of one resource version; from the start if it expires between two pages."""
        for _ in range(3):
            try:
                return await self._pages(kind, scope)
            except Expired:
                continue
        return await self._pages(kind, scope, page=0)

    async def watch(
        self, kind: Kind, since: str, scope: Scope = EVERYTHING
    ) -> AsyncGenerator[tuple[WatchEvent, ...], None]:
        """Resumes after the server ends a watch or the connection breaks; `Expired` if it cannot."""
        failures = 0
        while True:
            began = self._clock.monotonic()
            query = {
                **_selection(scope),
                "resourceVersion": since,
                "allowWatchBookmarks": True,
                "timeoutSeconds": _WATCH_SECONDS + secrets.randbelow(_WATCH_SECONDS),
            }
            try:
                async with aclosing(self.transport.watch(_path(kind, scope.namespace), query)) as batches:
                    async for batch in batches:
                        failures = 0
                        since = str(batch[-1]["object"]["metadata"]["resourceVersion"])
                        changes = [
                            WatchEvent(event["type"], _complete(kind, event["object"]))
                            for event in batch
                            if event["type"] != "BOOKMARK"
                        ]
                        if changes:
                            yield tuple(changes)
            except Expired:
                raise
            except (Unreachable, ApiError) as error:
                failures += 1
                if failures == 1:
                    _log.info("watching %s: %s; resuming", kind.resource, error)
                if failures > _MOST_FAILURES and isinstance(error, ApiError):
                    raise  # a server that is away would not answer a list either
                await self._clock.sleep(_BACKOFF.delay(failures - 1))
            else:
                if self._clock.monotonic() - began < 1.0:
                    await self._clock.sleep(_BACKOFF.first)  # a server that ends watches at once is not asked in a loop

    async def create(self, kind: Kind, manifest: Manifest, *, trusted: bool = False) -> Manifest:  # noqa: ARG002
        """The name after `generateName` is chosen here, so that a create whose answer is lost is sent again and never
        makes two objects: a controller that cannot see the first yet would start a pod twice.
        """
        metadata = manifest.get("metadata") or {}
        namespace, prefix = metadata.get("namespace", ""), metadata.get("generateName")
        path = _path(kind, namespace)
        if not prefix or metadata.get("name"):
            return _manifest(await self.transport.json("POST", path, self._write(), manifest))
        named, failures = _named(manifest, prefix), 0
        while True:
            try:
                return _manifest(await self.transport.json("POST", path, self._write(), named))
            except AlreadyExists:
                if failures:
                    return await self.get(kind, namespace, named["metadata"]["name"])
                named = _named(manifest, prefix)
            except Unreachable:
                if failures >= _MOST_CREATES:
                    raise
                await self._clock.sleep(_BACKOFF.delay(failures))
                failures += 1

    async def update(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        path = _path(kind, *key_of(manifest), subresource)
        return _manifest(await self.transport.json("PUT", path, self._write(), manifest))

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, *, patch_type: str = "merge", subresource: str = ""
    ) -> Manifest:
        content = PATCHES.get(patch_type)
        if content is None or patch_type == "apply":
            raise BadRequest(f"there is no patch type {patch_type!r}; it is one of merge, json, strategic")
        path = _path(kind, namespace, name, subresource)
        return _manifest(await self.transport.json("PATCH", path, self._write(), patch, content))

    async def apply(self, kind: Kind, manifest: Manifest, *, force: bool = False, subresource: str = "") -> Manifest:
        query = {**self._write(), "force": force}
        path = _path(kind, *key_of(manifest), subresource)
        return _manifest(await self.transport.json("PATCH", path, query, manifest, PATCHES["apply"]))

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
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if wanted := {field: value for field, value in preconditions.items() if value}:
            options["preconditions"] = wanted
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        answer = _manifest(await self.transport.json("DELETE", _path(kind, namespace, name), {}, options, JSON))
        left = answer.get("kind") == kind.kind and "deletionTimestamp" in answer["metadata"]
        return answer if left and not is_gone(answer) else None

    async def log(self, namespace: str, pod: str, **query: str | int | bool) -> AsyncGenerator[bytes, None]:
        """What a container of a pod wrote, as it comes."""
        path = paths.resource("v1", "pods", namespace, pod, "log")
        async with aclosing(self.transport.stream(path, query)) as pieces:
            async for piece in pieces:
                yield piece

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Manifest:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        pod = paths.resource("v1", "pods", namespace, name)
        await self.transport.json("POST", f"{pod}/binding", self._write(), binding)
        return _manifest(await self.transport.json("GET", pod))

    async def _pages(self, kind: Kind, scope: Scope, page: int = _PAGE) -> Listed:
        items: list[Manifest] = []
        token: str | None = None
        while True:
            query = {**_selection(scope), "limit": page or None, "continue": token}
            try:
                answer = _manifest(await self.transport.json("GET", _path(kind, scope.namespace), query))
            except NotFound as error:
                raise await self._not_served(kind) from error
            items += [_complete(kind, item) for item in answer.get("items") or ()]
            token = answer["metadata"].get("continue") or None
            if token is None:
                return Listed(items, answer["metadata"]["resourceVersion"])

    async def _not_served(self, kind: Kind) -> ApiError:
        """Why a collection is not found, from the versions that the server has of its group."""
        wanted = kind.api_version(kind.stored)
        try:
            group = await self.transport.json("GET", f"/apis/{kind.group}" if kind.group else "/api")
            versions = [one if isinstance(one, str) else one["version"] for one in group["versions"]]
        except NotFound:
            return NotServed(f"the API server has no group {kind.group}, which {kind.plural} belong to")
        if kind.stored not in versions:
            return UnservedVersion(
                f"the API server has {kind.group} in {', '.join(versions)}, and {wanted} is needed: upgrade the "
                f"CustomResourceDefinition of {kind.plural}"
            )
        return NotServed(f"the API server has no {kind.plural} in {wanted}")

    def _write(self) -> dict[str, Query]:
        return {"fieldManager": self._manager}


def _named(manifest: Manifest, prefix: str) -> Manifest:
    """With a name as the API server would generate it."""
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(_SUFFIX))
    name = f"{prefix[: _LONGEST_NAME - _SUFFIX]}{suffix}"
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def _path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    within = namespace if kind.namespaced and namespace else None
    return paths.resource(kind.api_version(kind.stored), kind.plural, within, name, subresource)


def _selection(scope: Scope) -> dict[str, Query]:
    return {"labelSelector": scope.labels or None, "fieldSelector": scope.fields or None}


def _complete(kind: Kind, item: Manifest) -> Manifest:
    """Items of a list do not say what they are on every server. Nothing here reads who owns which field, and that is
    a third of an object's memory.
    """
    item["metadata"].pop("managedFields", None)
    item.setdefault("apiVersion", kind.api_version(kind.stored))
    item.setdefault("kind", kind.kind)
    return item


def _manifest(answer: Any) -> Manifest:
    if not isinstance(answer, dict) or not isinstance(answer.get("metadata"), dict):
        raise NotFound("the server sent a response that is not an API object")
    answer["metadata"].pop("managedFields", None)
    return answer
