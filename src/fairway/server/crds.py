"""The CustomResourceDefinitions that Fairway installs on a cluster, for each way of admission."""

from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.extensions.generating import generated
from fairway.apis.fairway import records as fairway
from fairway.apis.kueue import records as kueue
from fairway.apis.kueue.conversion import CONVERTED
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.metadata import GROUP as KUEUE
from fairway.server.openapi.descriptions import description

CONVERSION_PATH: Final = "/convert"
WEBHOOK_SERVICE: Final = "fairway-webhook"


def installed_kinds(admission: str) -> tuple[Kind, ...]:
    """Those that Fairway installs itself: Kueue's kinds only where our engine admits."""
    return (*fairway.KINDS, *(kueue.KINDS if admission == "fairway" else ()))


def definitions(admission: str, client: Mapping[str, Any]) -> list[Manifest]:
    """`client` is the `clientConfig` of our webhooks, without a path: of a Service (`service_client`) or a URL."""
    conversion = with_path(client, CONVERSION_PATH)
    return [
        generated(kind, conversion if kind.group == KUEUE and kind.kind in CONVERTED else None, description)
        for kind in installed_kinds(admission)
    ]


def service_client(namespace: str) -> Manifest:
    """The `clientConfig` of webhooks behind our Service; the controller that leads fills in the `caBundle`."""
    return {"service": {"namespace": namespace, "name": WEBHOOK_SERVICE, "port": 443}}


def with_path(client: Mapping[str, Any], path: str) -> Manifest:
    """The `clientConfig` of one path."""
    if "url" in client:
        return {**client, "url": client["url"].rstrip("/") + path}
    return {**client, "service": {**client["service"], "path": path}}
