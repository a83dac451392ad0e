"""A hand that puts things in place behind the back of the client under test, in one plain request each."""

from dataclasses import dataclass
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.testing.servers import Server

from .manifests import path


@dataclass(frozen=True)
class Hand:
    """Acts as the administrator in one namespace."""

    server: Server
    namespace: str

    def make(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            self._done("POST", path(manifest, self.namespace), manifest)

    def change(self, manifest: Manifest, patch: Manifest, part: str = "") -> None:
        """Merge into the object that the manifest names, or into its part (`status`)."""
        where = self._object(manifest) + (f"/{part}" if part else "")
        self._done("PATCH", where, patch, "application/merge-patch+json")

    def remove(self, manifest: Manifest) -> None:
        self._done("DELETE", f"{self._object(manifest)}?gracePeriodSeconds=0")

    def look(self, manifest: Manifest) -> Any:
        """The object as it is stored, or `None` if it is not there."""
        answer = self.server.call("GET", self._object(manifest))
        return answer.body if answer.code == 200 else None

    def _object(self, manifest: Manifest) -> str:
        return f"{path(manifest, self.namespace)}/{manifest['metadata']['name']}"

    def _done(self, method: str, where: str, body: Any = None, content_type: str = "application/json") -> None:
        answer = self.server.call(method, where, body, content_type=content_type)
        assert answer.code < 300, answer.body
