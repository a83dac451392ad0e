"""Events: what a controller did, for people to read with `kubectl describe` and `kubectl events`.

Recording is cheap: an event is queued and written a little later, together with others. The same thing recorded
again is counted, not written again. Events must not slow down other work: writing them takes at
most a tenth of the time, so a storm of them is written after it is over. When more come than that, the oldest unwritten
ones are dropped, and a write that fails is not tried again.
"""

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import micro_stamp, stamp
from fairway.client.cluster import Cluster
from fairway.errors import ApiError, FairwayError, NotFound

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_LONGEST_MESSAGE: Final = 1024
_MOST_UNWRITTEN: Final = 10_000
_MOST_REMEMBERED: Final = 4096
_PAUSE_SECONDS: Final = 0.05
_TOGETHER: Final = 32
_REST: Final = 9.0
"""How much longer than writing took one waits before the next."""

_LAST_SECONDS: Final = 0.5
"""How long writing may hold up the end of the process."""

_log = logging.getLogger(__name__)
_Key = tuple[str, str, str, str]


class _Recorded:
    """One event, written or not, and how often it was recorded.

    Of manifests only what is needed is remembered: what an event is about may have changed many times since.
    """

    __slots__ = ("about", "count", "first", "in_series", "last", "message", "written")

    def __init__(self, about: Manifest, message: str, now: datetime, *, in_series: bool) -> None:
        self.about = _reference(about)
        self.message = message
        self.in_series = in_series
        self.first = self.last = now
        self.count = 0
        self.written: Manifest | None = None
        """Namespace and name of the stored event."""

    @property
    def counts(self) -> Manifest:
        found: Manifest = {"count": self.count, "lastTimestamp": stamp(self.last)}
        if self.in_series and self.count > 1:
            # As client-go counts: those after the first.
            found["series"] = {"count": self.count - 1, "lastObservedTime": micro_stamp(self.last)}
        return found


class Recorder:
    """Writes the events of one component; shared by all that speak for it."""

    def __init__(self, cluster: Cluster, component: str) -> None:
        self._cluster = cluster
        self._component = component
        self._writer = cluster.writer(component)
        self._recorded: OrderedDict[_Key, _Recorded] = OrderedDict()
        self._unwritten: OrderedDict[_Key, _Recorded] = OrderedDict()
        self._some = asyncio.Event()

    def normal(self, about: Manifest, reason: str, message: str) -> None:
        self._record(about, NORMAL, reason, message)

    def series(self, about: Manifest, reason: str, message: str, kind: str = NORMAL) -> None:
        """An event that keeps its first message, however often its reason comes again: it counts them."""
        self._record(about, kind, reason, message, in_series=True)

    def warning(self, about: Manifest, reason: str, message: str) -> None:
        self._record(about, WARNING, reason, message)

    async def run(self) -> None:
        """Write what is recorded until cancelled, and then what is left of it, if that does not take long."""
        clock = self._cluster.clock
        try:
            while True:
                await self._some.wait()
                await clock.sleep(_PAUSE_SECONDS)
                while self._unwritten:
                    begun = clock.monotonic()
                    await self._write_some()
                    await clock.sleep((clock.monotonic() - begun) * _REST)
                self._some.clear()
        finally:
            with suppress(TimeoutError, FairwayError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self.flush()

    async def flush(self) -> None:
        """Write all Events recorded so far, at once."""
        while self._unwritten:
            await self._write_some()

    async def _write_some(self) -> None:
        keys = list(islice(self._unwritten, _TOGETHER))
        batch = [(key, self._unwritten.pop(key)) for key in keys]
        await asyncio.gather(*(self._write(key, recorded) for key, recorded in batch))

    def _record(self, about: Manifest, kind: str, reason: str, message: str, *, in_series: bool = False) -> None:
        now = self._cluster.clock.now()
        message = message[:_LONGEST_MESSAGE]
        key = (about["metadata"]["uid"], kind, reason, "" if in_series else message)
        recorded = self._recorded.get(key)
        if recorded is None:
            recorded = self._recorded[key] = _Recorded(about, message, now, in_series=in_series)
            if len(self._recorded) > _MOST_REMEMBERED:
                self._recorded.popitem(last=False)
        else:
            self._recorded.move_to_end(key)
        recorded.count += 1
        recorded.last = now
        self._unwritten[key] = recorded
        if len(self._unwritten) > _MOST_UNWRITTEN:
            self._unwritten.popitem(last=False)
        self._some.set()

    async def _write(self, key: _Key, recorded: _Recorded) -> None:
        try:
            if recorded.written is not None:
                await self._writer.patch("events", recorded.written, recorded.counts)
            else:
                created = await self._writer.create("events", self._manifest(key, recorded), trusted=True)
                metadata = created["metadata"]
                recorded.written = {"metadata": {"namespace": metadata["namespace"], "name": metadata["name"]}}
        except NotFound:
            recorded.written = None  # it expired, or its namespace is gone
        except ApiError as error:
            _log.debug("event %s was not written: %s", key[2], error)

    def _manifest(self, key: _Key, recorded: _Recorded) -> Manifest:
        _, kind, reason, _ = key
        about = recorded.about
        return {
            "metadata": {"generateName": f"{about['name'][:200]}.", "namespace": about.get("namespace") or "default"},
            "involvedObject": dict(about),
            "type": kind,
            "reason": reason,
            "message": recorded.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": stamp(recorded.first),
            **recorded.counts,
        }


def _reference(manifest: Manifest) -> dict[str, str]:
    metadata = manifest["metadata"]
    about = {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
    if metadata.get("namespace"):
        about["namespace"] = metadata["namespace"]
    return about
