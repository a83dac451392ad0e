"""Leader election by a Lease (`coordination.k8s.io/v1`), as client-go does it: one process works, others stand by.

A candidate counts the time since it last saw the Lease change on its own clock, so clocks need not agree. The leader
renews every `RETRY_SECONDS`; if it has not managed to for `RENEW_SECONDS`, it has lost the Lease, which others may take
after `LEASE_SECONDS`: the difference is the time it has to stop. `check_leading` stops its writes by then, also in a
process that was suspended and has not noticed yet. After a SIGKILL another leads within 9 seconds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.timestamps import micro_stamp
from fairway.client.protocol import Client
from fairway.errors import AlreadyExists, Conflict, FairwayError, NotFound
from fairway.runtime.clock import Clock
from fairway.settings import SYSTEM_NAMESPACE

LEASE_SECONDS: Final = 7
RENEW_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class LostLeaseError(FairwayError):
    """This process leads no more."""


class LeaderElection:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        lease: Kind,
        clock: Clock,
        name: str,
        identity: str,
        *,
        namespace: str = SYSTEM_NAMESPACE,
        ended: str = "",
    ) -> None:
        """`identity` is unique to this process. Holders whose identity begins with `ended` are known to have ended, so
        their Lease is taken at once.
        """
        self._client = client
        self._kind = lease
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self.identity = identity
        self._ended = ended
        self._seen: tuple[str, float] = ("", 0.0)
        """The last resource version of another holder's Lease, and when it was first seen."""

        self._held: Manifest | None = None
        """The Lease as this process wrote it last; a renewal is one request unless another client writes it."""

        self._renewed: float | None = None
        """When the last successful renewal was sent; `None` while this process does not lead."""

    @asynccontextmanager
    async def leading(self, check: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator["asyncio.Task[None]"]:
        """Wait until this process leads, and lead: the task that is given ends with `LostLeaseError` if the Lease is
        lost, or with what `check` raises, which is asked before every renewal. The Lease is released at the end.
        """
        while not await self._try(check):
            await self._clock.sleep(RETRY_SECONDS)
        _log.info("%s leads (lease %s/%s)", self.identity, self._namespace, self._name)
        renewing = asyncio.create_task(self._renew(check), name="lease")
        try:
            yield renewing
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            self._renewed = None
            with suppress(FairwayError, TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._release()

    def check_leading(self) -> None:
        """Raise `LostLeaseError` if another process may lead by now: the fence of this leader's writes."""
        if self._renewed is None or self._clock.monotonic() - self._renewed > RENEW_SECONDS:
            raise LostLeaseError(f"the lease {self._name} was not renewed in time; writes are stopped")

    async def _renew(self, check: Callable[[], Awaitable[None]] | None) -> None:
        while True:
            await self._clock.sleep(RETRY_SECONDS)
            left = RENEW_SECONDS - (self._clock.monotonic() - (self._renewed or 0.0))
            if left < 0:
                raise LostLeaseError(f"the lease {self._name} could not be renewed for {RENEW_SECONDS:.0f} seconds")
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.1, left)):
                    if not await self._try(check) and self._seen[0]:
                        raise LostLeaseError(f"another process has taken the lease {self._name}")

    async def _try(self, check: Callable[[], Awaitable[None]] | None) -> bool:
        """Take or renew the Lease; whether it is ours now. Errors of the API count as no."""
        began = self._clock.monotonic()
        try:
            if check is not None:
                await check()
            if not await self._take():
                return False
        except (Conflict, AlreadyExists):
            return False  # another candidate was faster
        except LostLeaseError:
            raise
        except FairwayError as error:
            _log.warning("lease %s: %s; trying again", self._name, error)
            return False
        self._renewed = began
        self._seen = ("", 0.0)
        return True

    async def _take(self) -> bool:
        if self._held is not None:
            lease, self._held = self._held, None
            with suppress(Conflict, NotFound):
                await self._write(lease)
                return True
        try:
            lease = await self._client.get(self._kind, self._namespace, self._name)
        except NotFound:
            metadata = {"name": self._name, "namespace": self._namespace}
            manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            self._held = await self._client.create(self._kind, {**manifest, "spec": self._spec({})})
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        ended = bool(self._ended) and holder.startswith(self._ended)
        if holder not in {"", self.identity} and not ended and not self._has_expired(lease):
            return False
        await self._write(lease)
        return True

    async def _write(self, lease: Manifest) -> None:
        spec = self._spec(lease.get("spec") or {})
        self._held = await self._client.update(self._kind, {**lease, "spec": spec})

    def _has_expired(self, lease: Manifest) -> bool:
        version, now = lease["metadata"]["resourceVersion"], self._clock.monotonic()
        if self._seen[0] != version:
            self._seen = (version, now)
        seconds = (lease.get("spec") or {}).get("leaseDurationSeconds") or LEASE_SECONDS
        return bool(now - self._seen[1] > seconds)

    async def _release(self) -> None:
        """Let the next candidate in at once."""
        self._held = None
        lease = await self._client.get(self._kind, self._namespace, self._name)
        if (lease.get("spec") or {}).get("holderIdentity") == self.identity:
            await self._client.update(self._kind, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = micro_stamp(self._clock.now())
        taken = before.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": before["acquireTime"] if taken and "acquireTime" in before else now,
            "renewTime": now,
            "leaseTransitions": (before.get("leaseTransitions") or 0) + (not taken and bool(before)),
        }
