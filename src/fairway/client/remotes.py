"""Other servers, by the contexts of a kubeconfig: jobs are made there, changed, deleted and followed.

The contract is in `fairway.controllers.managed.remoting`; whether and when a job goes elsewhere is not decided here.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from fairway.client.following import Following, check_served, in_thread
from fairway.client.rest import KubeconfigError, Rest, Unreachable, open_rest, paths
from fairway.client.rest.kubeconfig import Kubeconfig, load
from fairway.client.sighting import ORIGIN_NAME, ORIGIN_NAMESPACE, ORIGIN_UID, Sighting
from fairway.errors import AlreadyExists, ApiError, FairwayError, NotFound
from fairway.kinds.kind import Manifest
from fairway.runtime.clock import Clock

_log = logging.getLogger(__name__)
T = TypeVar("T")

Handler = Callable[[str, str], None]

_SILENT_SECONDS: Final = 20.0
_QUEUE_SECONDS: Final = 1.0
"""So long a request waits for others to the same server. Whoever asks has other jobs to look after as well."""

_PAUSE_SECONDS: Final = 2.0
"""So long a server that did not answer is not asked again."""


class KubeconfigRemotes:
    """The servers behind the contexts of a kubeconfig. For one event loop; what waits for them is in threads."""

    def __init__(
        self,
        kubeconfig: Path | str,
        archives: Path,
        clock: Clock,
        *,
        allowed: Collection[str] | None = None,
        own: Path | None = None,
    ) -> None:
        """`allowed` are the contexts that may be used, `None` for all; `own` is the kubeconfig of this server itself,
        which is not another one by whatever name it goes."""
        self._kubeconfig = kubeconfig
        self._archives = archives
        self._clock = clock
        self._allowed = allowed
        self._own = own
        self._loaded: Kubeconfig | None = None
        self._own_url = ""
        self._stamp: object = None
        self._handlers: list[Handler] = []
        self._followed: dict[str, Following] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._locks: dict[str, asyncio.Lock] = {}
        self._links: dict[str, _Link] = {}
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
        following = self._following(context)
        return Sighting(following.known, following.get(name))

    async def submit(self, context: str, manifest: Manifest, *, namespace: str, secret: Manifest | None) -> Manifest:
        """Make a job there with whatever it needs, or find it made."""
        job = await self._do(context, lambda rest: _submitted(rest, manifest, self._archives / namespace, secret))
        self._following(context).note(job)
        return job

    async def change(self, context: str, name: str, spec: Manifest) -> Manifest | None:
        """Merge into the spec of a job there; `None` if it is gone."""
        try:
            job: Manifest = await self._do(
                context, lambda rest: rest.patch(paths.job(rest.namespace, name), {"spec": spec})
            )
        except NotFound:
            return None
        self._following(context).note(job)
        return job

    async def delete(self, context: str, name: str) -> None:
        """Delete a job there, and the Secret that was made for it; nothing if it is gone."""
        await self._do(context, lambda rest: _deleted(rest, name))

    def on_change(self, handler: Handler) -> None:
        """Tell this handler of every job here whose copy changed, and with empty names when a server told of all."""
        self._handlers.append(handler)

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for following in self._followed.values():
                    tasks.create_task(following.run())
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            for context, link in list(self._links.items()):
                link.rest.abort()
                if not self._locks[context].locked():  # else whoever asks closes it
                    link.rest.close()
                    del self._links[context]

    def _following(self, context: str) -> Following:
        following = self._followed.get(context)
        if following is None:
            following = Following(context, lambda: self._opened(context), self._clock)
            following.on_change(self._tell)
            self._followed[context] = following
            if self._tasks is not None:
                self._tasks.create_task(following.run())
        return following

    def _tell(self, job: Manifest | None) -> None:
        annotations = ((job or {}).get("metadata") or {}).get("annotations") or {}
        namespace, name = annotations.get(ORIGIN_NAMESPACE, ""), annotations.get(ORIGIN_NAME, "")
        if job is None or (namespace and name):
            for handler in self._handlers:
                handler(namespace, name)

    async def _do(self, context: str, work: Callable[[Rest], T]) -> T:
        """One request after the other for each context, on a connection that is kept."""
        async with self._linked(context) as rest:
            return await in_thread(rest, work)

    @asynccontextmanager
    async def _linked(self, context: str) -> AsyncIterator[Rest]:
        lock = self._locks.setdefault(context, asyncio.Lock())
        try:
            async with asyncio.timeout(_QUEUE_SECONDS):
                await lock.acquire()
        except TimeoutError:
            raise Unreachable(f"context {context!r}: others are waiting for its server already") from None
        try:
            yield await self._link(context)
        except ApiError:
            raise  # it was answered, so there is nothing wrong with the connection
        except BaseException as error:
            self._close(context)
            if isinstance(error, Unreachable) and context not in self._silent:
                self._silent[context] = (self._clock.monotonic() + _PAUSE_SECONDS, str(error))
            raise
        finally:
            lock.release()

    async def _link(self, context: str) -> Rest:
        until, said = self._silent.get(context, (0.0, ""))
        if self._clock.monotonic() < until:
            raise Unreachable(said)
        self._silent.pop(context, None)
        link, stamp = self._links.get(context), self._changed()
        if link is None or link.stamp != stamp:
            self._close(context)
            rest = self._opened(context)
            try:
                await in_thread(rest, check_served)
            except BaseException:
                rest.close()
                raise
            link = self._links[context] = _Link(rest, stamp)
        return link.rest

    def _close(self, context: str) -> None:
        link = self._links.pop(context, None)
        if link is not None:
            link.rest.close()

    def _opened(self, context: str) -> Rest:
        if not self.knows(context):
            raise KubeconfigError(f"{self._kubeconfig}: there is no context {context!r} that may be used")
        rest = open_rest(self._kubeconfig, context)
        rest.silent_seconds = _SILENT_SECONDS
        return rest

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


class _Link(NamedTuple):
    rest: Rest
    stamp: object
    """Of the kubeconfig that it was made with."""


def _stat(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# What follows is done in threads.


def _submitted(rest: Rest, manifest: Manifest, archives: Path, secret: Manifest | None) -> Manifest:
    job = _made(rest, manifest)
    if job is None:
        _send_archives(rest, manifest, archives)
        operations: list[dict[str, Any]] = [{"verb": "create", "manifest": manifest}]
        copy = None if secret is None else _copy(manifest, secret)
        if copy is not None and not _has_secret(rest, copy):
            operations.insert(0, {"verb": "create", "manifest": copy})
        try:
            *_, job = rest.transact(rest.namespace, operations)
        except AlreadyExists:
            job = _made(rest, manifest)
            if job is None:
                raise
    if secret is not None:
        _let_own(rest, job)
    return job


def _made(rest: Rest, manifest: Manifest) -> Manifest | None:
    """The job, if it was made before; `AlreadyExists` if it is somebody else's."""
    name = manifest["metadata"]["name"]
    try:
        job: Manifest = rest.get(paths.job(rest.namespace, name))
    except NotFound as error:
        if (error.details or {}).get("kind") == "namespaces":
            raise
        return None
    if _origin(job) != _origin(manifest):
        raise AlreadyExists(
            f"context {rest.context!r}: there is another job {name!r} in namespace {rest.namespace!r} already"
        )
    return job


def _send_archives(rest: Rest, manifest: Manifest, archives: Path) -> None:
    tasks = manifest["spec"].get("tasks") or ()
    for digest in sorted({one["archive"] for task in tasks for one in task.get("files") or ()}):
        where = paths.archive(rest.namespace, digest)
        if rest.exists(where):
            continue
        try:
            with (archives / f"{digest}.tar.gz").open("rb") as file:
                rest.upload(where, file, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            raise NotFound(f"the files of the job (archive {digest}) are no longer on this server") from None


def _copy(manifest: Manifest, secret: Manifest) -> Manifest:
    """A Secret as it goes there, under the name by which the job asks for it."""
    name = manifest["spec"].get("secretName") or secret["metadata"]["name"]
    metadata = {"name": name, "labels": {ORIGIN_UID: _origin(manifest)}}
    copied: Manifest = {field: secret[field] for field in ("type", "data") if field in secret}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **copied}


def _has_secret(rest: Rest, copy: Manifest) -> bool:
    """Whether it was made before, for another task of the same job; `AlreadyExists` if it is somebody else's."""
    name = copy["metadata"]["name"]
    try:
        found = rest.get(paths.resource("v1", "secrets", rest.namespace, name))
    except NotFound:
        return False
    if _origin(found) != _origin(copy):
        raise AlreadyExists(
            f"context {rest.context!r}: there is another Secret {name!r} in namespace {rest.namespace!r} already"
        )
    return True


def _let_own(rest: Rest, job: Manifest) -> None:
    """Have the Secret go when the job does, and with the last one if it is for several."""
    where = paths.resource("v1", "secrets", rest.namespace, job["spec"].get("secretName") or "")
    secret = rest.get(where)
    owners = secret["metadata"].get("ownerReferences") or []
    if any(owner["uid"] == job["metadata"]["uid"] for owner in owners):
        return
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
    owner |= {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    rest.patch(
        where,
        {"metadata": {"ownerReferences": [*owners, owner], "resourceVersion": secret["metadata"]["resourceVersion"]}},
    )


def _deleted(rest: Rest, name: str) -> None:
    where = paths.job(rest.namespace, name)
    try:
        job = rest.get(where)
        rest.delete(where, {"preconditions": {"uid": job["metadata"]["uid"]}})
    except NotFound:
        return
    secret_name = job["spec"].get("secretName")
    if not secret_name:
        return
    where = paths.resource("v1", "secrets", rest.namespace, secret_name)
    with contextlib.suppress(NotFound):
        secret = rest.get(where)
        # With an owner it goes by itself; without one, whoever made it was cut off before saying whose it is.
        if _origin(secret) == _origin(job) and not secret["metadata"].get("ownerReferences"):
            rest.delete(where)


def _origin(manifest: Manifest) -> str:
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    return str(labels.get(ORIGIN_UID, ""))
