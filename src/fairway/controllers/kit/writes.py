"""Writes that several controllers make; each may have been made before."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Writer
from fairway.controllers.kit.status import StatusChange


async def commit(writer: Writer, resource: str, change: StatusChange) -> Manifest:
    """Write what changes of a status, if anything does, locked on the state that it was made from."""
    patch = change.patch
    if patch is None:
        return change.manifest
    return await writer.patch(resource, change.manifest, patch, subresource="status", locked=True)


async def add_finalizer(writer: Writer, resource: str, manifest: Manifest, finalizer: str) -> Manifest:
    kept = manifest["metadata"].get("finalizers") or []
    if finalizer in kept:
        return manifest
    return await writer.patch(resource, manifest, {"metadata": {"finalizers": [*kept, finalizer]}}, locked=True)


async def remove_finalizer(writer: Writer, resource: str, manifest: Manifest, finalizer: str) -> Manifest:
    kept = manifest["metadata"].get("finalizers") or []
    if finalizer not in kept:
        return manifest
    left = [one for one in kept if one != finalizer] or None
    return await writer.patch(resource, manifest, {"metadata": {"finalizers": left}}, locked=True)


async def all_done(steps: Iterable[Awaitable[Any]]) -> None:
    """Wait for all steps, then raise the first failure: nothing runs after the caller has returned."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
