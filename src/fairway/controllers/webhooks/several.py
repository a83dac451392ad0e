"""Several gatekeepers as one: each is asked about everything, in order."""

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.gatekeeping import Author, Gatekeeper
from fairway.errors import FieldError


class Gatekeepers:
    """Keeps the contract of the store's `Gatekeeper`."""

    def __init__(self, *gatekeepers: Gatekeeper) -> None:
        self._gatekeepers = gatekeepers

    def name_for(self, kind: Kind, manifest: Manifest) -> str:
        """The first name that one of them has."""
        for one in self._gatekeepers:
            name = one.name_for(kind, manifest)
            if name:
                return name
        return ""

    def on_create(self, kind: Kind, manifest: Manifest, author: Author) -> list[FieldError]:
        return [error for one in self._gatekeepers for error in one.on_create(kind, manifest, author)]

    def on_apply(self, kind: Kind, old: Manifest, applied: Manifest) -> None:
        for one in self._gatekeepers:
            one.on_apply(kind, old, applied)

    def on_update(self, kind: Kind, old: Manifest, new: Manifest, author: Author) -> list[FieldError]:
        return [error for one in self._gatekeepers for error in one.on_update(kind, old, new, author)]
