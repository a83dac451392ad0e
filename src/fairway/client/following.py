"""The jobs that were handed to one other server, as that one tells of them: a list and a watch in a thread, begun again
whenever they are lost, and what they told kept in memory.

Everything here is called on the event loop; only the reading itself is in threads.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from fairway.client.rest import Rest, paths
from fairway.client.sighting import ORIGIN_UID
from fairway.errors import Expired, FairwayError, NotFound
from fairway.kinds.kind import Manifest
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock

_log = logging.getLogger(__name__)
T = TypeVar("T")

_BACKOFF: Final = Backoff(first=0.25, cap=5.0)
_SHORT_WATCH: Final = 1.0
"""A watch that ends sooner than after so many seconds is not begun again at once."""


class Following:
    """What one other server tells of the jobs that it was handed."""

    def __init__(self, context: str, opened: Callable[[], Rest], clock: Clock) -> None:
        """`opened` is called whenever everything is to be told anew."""
        self._context = context
        self._opened = opened
        self._clock = clock
        self._jobs: dict[str, Manifest] = {}
        self._since = 0
        """Everything up to this revision has been told."""

        self._handlers: list[Callable[[Manifest | None], None]] = []
        self.known = False
        """Whether everything that was there has been told."""

    def get(self, name: str) -> Manifest | None:
        """A job as last heard of."""
        return self._jobs.get(name)

    def on_change(self, handler: Callable[[Manifest | None], None]) -> None:
        """Tell this handler of every job that changed, came or went; and with `None` that everything was told anew."""
        self._handlers.append(handler)

    def note(self, manifest: Manifest) -> None:
        """Take in what a write answered."""
        name, revision = manifest["metadata"]["name"], _revision(manifest)
        if revision <= self._since and name not in self._jobs:
            return  # it has been told of meanwhile, and is gone already
        self._take(name, manifest)

    async def run(self) -> None:
        """Follow until cancelled."""
        failures = 0
        while True:
            try:
                with self._opened() as rest:
                    await in_thread(rest, check_served)
                    await self._list(rest)
                    if failures:
                        _log.info("context %s: %s answers again", self._context, rest.server)
                        failures = 0
                    while True:
                        await self._watch(rest.clone())
            except Expired:
                await self._clock.sleep(_BACKOFF.first)
            except FairwayError as error:
                if not failures:
                    _log.warning("context %s: %s; trying again", self._context, error)
                await self._clock.sleep(_BACKOFF.delay(failures))
                failures += 1

    async def _list(self, rest: Rest) -> None:
        answer = await in_thread(rest, lambda rest: rest.get(paths.jobs(rest.namespace), labelSelector=ORIGIN_UID))
        items: Iterable[Manifest] = answer.get("items") or ()
        self._since = max(self._since, _revision(answer))
        found = {job["metadata"]["name"]: job for job in items}
        gone = [
            name
            for name, job in self._jobs.items()
            if name not in found and _revision(job) <= self._since  # else it was made after the list was
        ]
        for name in gone:
            self._let_go(name)
        for name, job in found.items():
            self._take(name, job)
        self.known = True
        self._tell(None)

    async def _watch(self, rest: Rest) -> None:
        """One watch, from where the last one ended, up to its end."""
        began = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[dict[str, Any] | Exception | None] = asyncio.Queue()

        def tell(item: dict[str, Any] | Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(heard.put_nowait, item)

        def listen() -> None:
            try:
                for event in rest.watch(
                    paths.jobs(rest.namespace),
                    labelSelector=ORIGIN_UID,
                    resourceVersion=self._since,
                    allowWatchBookmarks=True,
                ):
                    tell(event)
            except Exception as error:  # noqa: BLE001 - raised again by whoever listens
                tell(error)
            else:
                tell(None)

        thread = threading.Thread(target=listen, name=f"watch-{self._context}", daemon=True)
        thread.start()
        try:
            while (item := await heard.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                self._hear(item)
        finally:
            rest.abort()
            await asyncio.to_thread(thread.join)
            rest.close()
        if self._clock.monotonic() - began < _SHORT_WATCH:
            await self._clock.sleep(_SHORT_WATCH)

    def _hear(self, event: dict[str, Any]) -> None:
        job = event["object"]
        revision = _revision(job)
        if event.get("type") == "DELETED":
            known = self._jobs.get(job["metadata"]["name"])
            if known is not None and known["metadata"]["uid"] == job["metadata"]["uid"]:
                self._let_go(job["metadata"]["name"])
        elif event.get("type") in {"ADDED", "MODIFIED"}:
            self._take(job["metadata"]["name"], job)
        self._since = max(self._since, revision)

    def _take(self, name: str, job: Manifest) -> None:
        known = self._jobs.get(name)
        if known is None or _revision(known) < _revision(job):
            self._jobs[name] = job
            self._tell(job)

    def _let_go(self, name: str) -> None:
        self._tell(self._jobs.pop(name))

    def _tell(self, job: Manifest | None) -> None:
        for handler in self._handlers:
            handler(job)


def check_served(rest: Rest) -> None:
    """`NotFound` for a server that knows no managed jobs. To be called in a thread."""
    try:
        served = rest.get(paths.FAIRWAY)
        if any(resource.get("name") == "managedjobs" for resource in served.get("resources") or ()):
            return
    except NotFound:
        pass
    raise NotFound(
        f"context {rest.context!r}: {rest.server} is no Fairway server: it serves no managedjobs of "
        "fairway.dev/v1alpha1; take another context for infra"
    )


async def in_thread(rest: Rest, work: Callable[[Rest], T]) -> T:
    """Do what waits for a server in a thread. Whoever is cancelled meanwhile hangs up, and leaves no thread behind."""
    working = asyncio.get_running_loop().run_in_executor(None, work, rest)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        rest.abort()
        await asyncio.wait([working])
        raise


def _revision(manifest: Manifest) -> int:
    """How far a server was when it said this."""
    text = (manifest.get("metadata") or {}).get("resourceVersion", "")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0
