"""Leader election by a Lease (`coordination.k8s.io/v1`), as client-go does it: one process works, others stand by.

A candidate counts the time since it last saw the Lease change on its own clock, so clocks need not agree. The leader
renews every `RETRY_SECONDS`; if it has not managed to for `RENEW_SECONDS`, it has lost the Lease, which others may take
after `LEASE_SECONDS`: the difference is the time it has to stop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.protocol import Client
from fairway.errors import AlreadyExists, Conflict, FairwayError, NotFound
from fairway.runtime.clock import Clock

NAMESPACE: Final = "kube-system"
LEASE_SECONDS: Final = 15
RENEW_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0

_log = logging.getLogger(__name__)


class LostLeaseError(FairwayError):
    """This process leads no more."""


class LeaderElection:
    """One candidate for one Lease."""

    def __init__(self, client: Client, lease: Kind, clock: Clock, name: str, identity: str, *, ended: str = "") -> None:
        """`identity` is unique to this process. Holders whose identity begins with `ended` are known to have ended, so
        their Lease is taken at once.
        """
        self._client = client
        self._kind = lease
        self._clock = clock
        self._name = name
        self.identity = identity
        self._ended = ended
        self._seen: tuple[str, float] = ("", 0.0)
        """The last resource version of another holder's Lease, and when it was first seen."""

    @asynccontextmanager
    async def leading(self, check: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator["asyncio.Task[None]"]:
        """Wait until this process leads, and lead: the task that is given ends with `LostLeaseError` if the Lease is
        lost, or with what `check` raises, which is asked before every renewal. The Lease is released at the end.
        """
        while not await self._try(check):
            await self._clock.sleep(RETRY_SECONDS)
        _log.info("%s leads (lease %s/%s)", self.identity, NAMESPACE, self._name)
        renewing = asyncio.create_task(self._renew(check), name="lease")
        try:
            yield renewing
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with suppress(FairwayError, TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._release()

    async def _renew(self, check: Callable[[], Awaitable[None]] | None) -> None:
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(RETRY_SECONDS)
            began = self._clock.monotonic()
            if began - renewed > RENEW_SECONDS:
                raise LostLeaseError(f"the lease {self._name} could not be renewed for {RENEW_SECONDS:.0f} seconds")
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.1, RENEW_SECONDS - (began - renewed))):
                    if await self._try(check):
                        renewed = began
                    elif self._seen[0]:
                        raise LostLeaseError(f"another process has taken the lease {self._name}")

    async def _try(self, check: Callable[[], Awaitable[None]] | None) -> bool:
        """Take or renew the Lease; whether it is ours now. Errors of the API count as no."""
        try:
            if check is not None:
                await check()
            return await self._take()
        except (Conflict, AlreadyExists):
            return False  # another candidate was faster
        except LostLeaseError:
            raise
        except FairwayError as error:
            self._seen = ("", 0.0)
            _log.warning("lease %s: %s; trying again", self._name, error)
            return False

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(self._kind, NAMESPACE, self._name)
        except NotFound:
            metadata = {"name": self._name, "namespace": NAMESPACE}
            manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            await self._client.create(self._kind, {**manifest, "spec": self._spec({})})
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        ended = bool(self._ended) and holder.startswith(self._ended)
        if holder not in {"", self.identity} and not ended and not self._has_expired(lease):
            return False
        await self._client.update(self._kind, {**lease, "spec": self._spec(spec)})
        self._seen = ("", 0.0)
        return True

    def _has_expired(self, lease: Manifest) -> bool:
        version, now = lease["metadata"]["resourceVersion"], self._clock.monotonic()
        if self._seen[0] != version:
            self._seen = (version, now)
        seconds = (lease.get("spec") or {}).get("leaseDurationSeconds") or LEASE_SECONDS
        return bool(now - self._seen[1] > seconds)

    async def _release(self) -> None:
        """Let the next candidate in at once."""
        lease = await self._client.get(self._kind, NAMESPACE, self._name)
        if (lease.get("spec") or {}).get("holderIdentity") == self.identity:
            await self._client.update(self._kind, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = _micro(self._clock.now())
        taken = before.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": before["acquireTime"] if taken and "acquireTime" in before else now,
            "renewTime": now,
            "leaseTransitions": (before.get("leaseTransitions") or 0) + (not taken and bool(before)),
        }


def _micro(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
