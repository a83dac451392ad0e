"""What belongs to whom, by the uid of the owner, so that nobody has to look through everything."""

from fairway.apis.machinery.kind import Manifest
from fairway.client.informer import Informer
from fairway.integrations.workloads import controller_of


class Controlled:
    """The objects of a kind by the uid of their controller; shared, so not to be changed."""

    def __init__(self, cache: Informer) -> None:
        self._by_uid: dict[str, dict[tuple[str, str], Manifest]] = {}
        cache.on_change(self._note)

    def of(self, uid: str) -> list[Manifest]:
        """What this owner controls, the oldest first."""
        found = self._by_uid.get(uid)
        if found is None:
            return []
        return sorted(found.values(), key=_age) if len(found) > 1 else list(found.values())

    def _note(self, old: Manifest | None, new: Manifest | None) -> None:
        before, after = _controller_uid(old), _controller_uid(new)
        if old is not None and before is not None and before != after:
            held = self._by_uid[before]
            del held[_key(old)]
            if not held:
                del self._by_uid[before]
        if new is not None and after is not None:
            self._by_uid.setdefault(after, {})[_key(new)] = new


def _controller_uid(manifest: Manifest | None) -> str | None:
    reference = None if manifest is None else controller_of(manifest)
    return None if reference is None else reference["uid"]


def _key(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _age(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata["creationTimestamp"], metadata["name"]
