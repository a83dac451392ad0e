"""What a leader on a cluster keeps there: the certificate of its endpoint, the authorities that trust it, and the label
of its pod, by which Services find it.

Part of the composition root, beside `standalone`.
"""

import asyncio
import base64
import binascii
import logging
import os
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.keys import Key
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.http.client import HttpClient
from fairway.client.protocol import Scope
from fairway.deploy.names import ADMISSION_LABEL, LEADER_LABEL, SERVICE, TLS_SECRET
from fairway.errors import AlreadyExists, Conflict, FairwayError, Forbidden, NotFound, Unauthorized
from fairway.oncluster import TRUSTING
from fairway.runtime.worker import Worker
from fairway.server.aggregated import FrontProxy
from fairway.settings import SYSTEM_NAMESPACE

_log = logging.getLogger(__name__)
_VALID: Final = timedelta(days=365)
RENEW_BEFORE: Final = timedelta(days=60)
_LOOK_AGAIN_SECONDS: Final = 12 * 3600.0
_AUTHENTICATION: Final = "extension-apiserver-authentication"
_FRONT_PROXY_SECONDS: Final = 60.0
_LABEL_SECONDS: Final = 1.0
_ENDS: Final = "fairway.dev/valid-until"


class ServingCertificate(NamedTuple):
    """All in PEM but the token."""

    certificate: bytes
    key: bytes
    authorities: bytes
    """That of the certificate, and that of the one before."""

    token: bytes
    """The bearer token of `/metrics`."""


class LeaderCertificate:
    """A certificate in a Secret, the same for every leader; made and renewed by the one that leads."""

    def __init__(self, cluster: Cluster, client: HttpClient, use: Callable[[ServingCertificate], None]) -> None:
        """`use` makes the endpoint of this process serve a certificate."""
        self._client = client
        self._kind = cluster.kind("secrets")
        self._clock = cluster.clock
        self._namespace = cluster.namespace
        self._use = use
        self.bundle = ""
        """The authorities, as `caBundle` has them."""

        self._trust: Worker[tuple[str, Key]] = Worker("trust", cluster.clock, self._reconcile, parallel=1)
        self._caches = {resource: cluster.cache(resource) for resource in TRUSTING}
        self._writer = cluster.writer("fairway-leader")
        for resource, cache in self._caches.items():
            cache.on_change(partial(self._changed, resource))

    async def ensure(self) -> None:
        """Serve what the Secret holds; make or renew it where that is due."""
        while True:
            stored = await self._stored()
            if stored is not None and self._left(stored) > RENEW_BEFORE:
                break
            if await self._renew(stored):
                continue
            _log.info("another process wrote the Secret %s; reading it again", TLS_SECRET)
        found = _read(stored)
        self.bundle = base64.b64encode(found.authorities).decode()
        self._use(found)
        for resource, cache in self._caches.items():
            for manifest in cache.items():
                self._changed(resource, None, manifest)

    async def run(self) -> None:
        """Renew in time until cancelled, and keep what trusts it up to date."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._trust.run())
            group.create_task(self._renew_in_time())

    async def _renew_in_time(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_AGAIN_SECONDS)
            await self.ensure()

    async def _stored(self) -> Manifest | None:
        try:
            return await self._client.get(self._kind, self._namespace, TLS_SECRET)
        except NotFound:
            return None

    def _left(self, secret: Manifest) -> timedelta:
        """For how long it is valid; nothing if it cannot be used."""
        try:
            _read(secret)
            ends = datetime.fromisoformat((secret["metadata"].get("annotations") or {})[_ENDS])
        except (KeyError, ValueError):
            return timedelta(0)
        return ends - self._clock.now()

    async def _renew(self, stored: Manifest | None) -> bool:
        """Whether it was written: not if another process was faster."""
        from fairway.server.signing import signed  # noqa: PLC0415 - large, and needed once a year

        now = self._clock.now()
        host = f"{SERVICE}.{self._namespace}.svc"
        made = await asyncio.to_thread(signed, [host, f"{host}.cluster.local"], now - timedelta(hours=1), now + _VALID)
        try:
            before = b"" if stored is None else _first_certificate(_read(stored).authorities)
            token = secrets.token_urlsafe(32).encode() if stored is None else _read(stored).token
        except (KeyError, ValueError):
            before, token = b"", secrets.token_urlsafe(32).encode()
        content = {"tls.crt": made.certificate, "tls.key": made.key, "ca.crt": made.authority + before}
        content["metrics-token"] = token
        data = {name: base64.b64encode(value).decode() for name, value in content.items()}
        metadata: dict[str, Any] = {"annotations": {_ENDS: (now + _VALID).isoformat()}}
        _log.info("making a certificate for %s, valid until %s", host, (now + _VALID).date())
        try:
            if stored is None:
                metadata |= {"name": TLS_SECRET, "namespace": self._namespace}
                secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}
                await self._client.create(self._kind, {**secret, "data": data})
            else:
                metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
                patch = {"metadata": metadata, "data": data}
                await self._client.patch(self._kind, self._namespace, TLS_SECRET, patch)
        except (AlreadyExists, Conflict):
            return False
        return True

    # What trusts it

    def _changed(self, resource: str, _old: Manifest | None, manifest: Manifest | None) -> None:
        if manifest is not None and self.bundle and untrusting(manifest, self.bundle):
            self._trust.add((resource, ("", manifest["metadata"]["name"])))

    async def _reconcile(self, place: tuple[str, Key]) -> None:
        resource, key = place
        manifest = self._caches[resource].get(*key)
        paths = [] if manifest is None else untrusting(manifest, self.bundle)
        if manifest is None or not paths:
            return
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": manifest["metadata"]["resourceVersion"]}
        patch = [version, *({"op": "add", "path": path, "value": self.bundle} for path in paths)]
        await self._writer.patch(resource, manifest, patch, patch_type="json")
        _log.info("%s %s trusts the certificate of this process", resource.partition(".")[0], key[1])


def untrusting(manifest: Manifest, bundle: str) -> list[str]:
    """The JSON pointers of the `caBundle`s of our Service that are others."""
    if manifest["kind"] == "APIService":
        places = [("/spec", manifest["spec"])]
    elif manifest["kind"] == "CustomResourceDefinition":
        webhook = (manifest["spec"].get("conversion") or {}).get("webhook") or {}
        places = [("/spec/conversion/webhook/clientConfig", webhook.get("clientConfig") or {})]
    else:
        hooks = manifest.get("webhooks") or ()
        places = [(f"/webhooks/{at}/clientConfig", one["clientConfig"]) for at, one in enumerate(hooks)]
    return [
        f"{path}/caBundle"
        for path, part in places
        if (part.get("service") or {}).get("name") == SERVICE and part.get("caBundle") != bundle
    ]


def _read(secret: Manifest) -> ServingCertificate:
    """`KeyError` or `ValueError` if the Secret is not complete."""
    data = secret.get("data") or {}
    try:
        parts = [base64.b64decode(data[name]) for name in ("tls.crt", "tls.key", "ca.crt", "metrics-token")]
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    return ServingCertificate(*parts)


def _first_certificate(bundle: bytes) -> bytes:
    end = b"-----END CERTIFICATE-----\n"
    return bundle[: bundle.index(end) + len(end)]


class FrontProxySource:
    """Keeps up with the ConfigMap that says how kube-apiserver identifies itself to an aggregated API."""

    def __init__(
        self, cluster: Cluster, client: HttpClient, use: Callable[[FrontProxy | None], Awaitable[None]]
    ) -> None:
        """`use` gets what it says, `None` if there is no front proxy to trust."""
        self._client = client
        self._kind = cluster.kind("configmaps")
        self._clock = cluster.clock
        self._use = use

    async def ensure(self) -> None:
        """Use what the ConfigMap says now."""
        found = None
        try:
            config_map = await self._client.get(self._kind, SYSTEM_NAMESPACE, _AUTHENTICATION)
            found = FrontProxy.read(config_map)
        except (NotFound, Forbidden, ValueError) as error:
            _log.warning("no aggregated API: ConfigMap %s/%s: %s", SYSTEM_NAMESPACE, _AUTHENTICATION, error)
        await self._use(found)

    async def run(self) -> None:
        """Look again until cancelled."""
        while True:
            await self._clock.sleep(_FRONT_PROXY_SECONDS)
            try:
                await self.ensure()
            except FairwayError as error:
                _log.warning("cannot read the ConfigMap %s/%s: %s", SYSTEM_NAMESPACE, _AUTHENTICATION, error)


class LeaderLabel:
    """The labels of the pod that leads; outside of a pod, nothing."""

    def __init__(self, cluster: Cluster, client: HttpClient, way: str) -> None:
        """`way` is the way of admission."""
        self._client = client
        self._way = way
        self._kind = cluster.kind("pods")
        self._clock = cluster.clock
        self._name = os.environ.get("POD_NAME", "")
        self._namespace = os.environ.get("POD_NAMESPACE", "") or cluster.namespace

    async def take(self) -> None:
        """Set it here, and remove it from pods that led before; again and again while a webhook for pods is down."""
        while self._name:
            try:
                await self._move()
            except (Forbidden, Unauthorized):
                raise
            except FairwayError as error:
                _log.warning("cannot label the pod %s, trying again: %s", self._name, error)
                await self._clock.sleep(_LABEL_SECONDS)
            else:
                return

    async def _move(self) -> None:
        listed = await self._client.list(self._kind, Scope(self._namespace, labels=f"{LEADER_LABEL}=true"))
        for pod in listed.items:
            if pod["metadata"]["name"] != self._name:
                await self._set(pod["metadata"]["name"], leads=False)
        await self._set(self._name, leads=True)

    async def leave(self) -> None:
        if self._name:
            await self._set(self._name, leads=False)

    async def _set(self, name: str, *, leads: bool) -> None:
        labels = {LEADER_LABEL: "true" if leads else None, ADMISSION_LABEL: self._way if leads else None}
        patch = {"metadata": {"labels": labels}}
        try:
            await self._client.patch(self._kind, self._namespace, name, patch)
        except NotFound:
            _log.info("the pod %s is gone", name)
