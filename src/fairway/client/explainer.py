"""The decider in another process: asked over HTTPS, at the address and with the token that it keeps in a Secret.

If it does not answer, the stored objects are used, so no request waits for a dead process.
"""

import base64
import binascii
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from fairway.admission.port import PendingWorkload, WaitingExplainer, WaitingPage
from fairway.apis.machinery.kind import Manifest
from fairway.client.http.transport import Transport
from fairway.client.rest.access import Access
from fairway.client.rest.kubeconfig import Endpoint, KubeContext
from fairway.errors import FairwayError
from fairway.runtime.clock import Clock
from fairway.settings import SYSTEM_NAMESPACE

SECRET: Final = "fairway-decider"  # noqa: S105 - the name of a Secret
NAMESPACE: Final = SYSTEM_NAMESPACE
_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 2.0
"""A process that did not answer is not asked again for so long."""

_log = logging.getLogger(__name__)


class _Pending(NamedTuple):
    namespace: str
    name: str
    local_queue_name: str
    priority: int


def secret_of(url: str, token: str, authority: bytes) -> Manifest:
    """The Secret by which a process that decides is found."""
    data = {"url": url.encode(), "token": token.encode(), "ca.crt": authority}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


class RemoteExplainer:
    """Keeps the contract of `WaitingExplainer`."""

    def __init__(
        self,
        secret: Callable[[], Manifest | None],
        namespaces: Callable[[], Iterable[str]],
        fallback: WaitingExplainer,
        clock: Clock,
    ) -> None:
        """`secret` gives the Secret as it is now, `namespaces` the names of all namespaces."""
        self._secret = secret
        self._namespaces = namespaces
        self._fallback = fallback
        self._clock = clock
        self._transport: tuple[dict[str, str], Transport] | None = None
        self._silent_until = 0.0

    async def pending(self, cluster_queue: str) -> Sequence[PendingWorkload] | None:
        asked, found = await self._ask("pending", clusterQueue=cluster_queue)
        if not asked:
            return await self._fallback.pending(cluster_queue)
        return None if found is None else [_Pending(*one) for one in found]

    async def page(self, namespace: str = "", first: int = 0, limit: int | None = None) -> WaitingPage:
        asked, found = await self._ask("page", namespace=namespace, first=first, limit=limit)
        return WaitingPage(*found) if asked else await self._fallback.page(namespace, first, limit)

    async def one(
        self, namespace: str, name: str, may_read: Callable[[str], bool], *, may_change: bool, any_priority: bool
    ) -> Manifest | None:
        readable = [one for one in self._namespaces() if may_read(one)]
        asked, found = await self._ask(
            "one", namespace=namespace, name=name, readable=readable, mayChange=may_change, anyPriority=any_priority
        )
        if not asked:
            return await self._fallback.one(namespace, name, may_read, may_change=may_change, any_priority=any_priority)
        item: Manifest | None = found
        return item

    def close(self) -> None:
        if self._transport is not None:
            self._transport[1].close()

    async def _ask(self, question: str, **body: Any) -> tuple[bool, Any]:
        """Whether there was an answer, and which."""
        secret = self._secret()
        if secret is None or self._clock.monotonic() < self._silent_until:
            return False, None
        try:
            answer = await self._to(secret).json("POST", f"/explainer/{question}", body=body)
            return True, answer["answer"]
        except (FairwayError, KeyError, TypeError, ValueError) as error:
            _log.info("the decider does not answer (%s); answering from the stored objects", error)
            self._silent_until = self._clock.monotonic() + _PAUSE_SECONDS
            return False, None

    def _to(self, secret: Manifest) -> Transport:
        data: dict[str, str] = secret.get("data") or {}
        if self._transport is None or self._transport[0] != data:
            self.close()
            self._transport = data, _transport(data, self._clock)
        return self._transport[1]


def _transport(data: dict[str, str], clock: Clock) -> Transport:
    try:
        url, token, authority = (base64.b64decode(data[name]).decode() for name in ("url", "token", "ca.crt"))
    except (KeyError, binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"the Secret {NAMESPACE}/{SECRET} is incomplete: {error}") from None
    at = urlsplit(url)
    if at.scheme != "https" or not at.hostname or not at.port:
        raise ValueError(f"the Secret {NAMESPACE}/{SECRET} names no https address: {url!r}")
    endpoint = Endpoint(url, https=True, host=at.hostname, port=at.port, authority=authority)
    context = KubeContext("decider", NAMESPACE, endpoint, {"token": token}, "decider", f"Secret {NAMESPACE}/{SECRET}")
    return Transport(Access(context), clock, silent_seconds=_SECONDS)
