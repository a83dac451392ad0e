"""Who may have a say when an object is written, besides the rules of its kind.

Rules judge an object by itself. A gatekeeper knows more, such as which queues there are, and may complete or refuse an
object by that: what webhooks do on a cluster. It is asked in the middle of a write, so it answers at once and reads no
disk. The store knows none by itself; whoever puts the parts together gives it one.
"""

from typing import Final, NamedTuple, Protocol

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import FieldError


class Author(NamedTuple):
    """Whoever makes an object."""

    name: str = ""
    """As they were authenticated; empty for who is in this process."""

    speaks_for_others: bool = False
    """May say that an object is somebody else's."""


THIS_PROCESS: Final = Author(speaks_for_others=True)


class Gatekeeper(Protocol):
    """Asked about every create and every change of an object (not of its status)."""

    def name_for(self, kind: Kind, manifest: Manifest) -> str:
        """What a new object with a `generateName` and without a name is to be called; empty: something random.

        It has its uid, not yet its defaults, and may be completed. A name that is taken is not used. `on_create` comes
        next for the same object, unless it is refused before.
        """

    def on_create(self, kind: Kind, manifest: Manifest, author: Author) -> list[FieldError]:
        """Complete a new object in place, after its defaults; then what is wrong with it."""

    def on_apply(self, kind: Kind, old: Manifest, applied: Manifest) -> None:
        """Change a configuration in place before it is applied to an object that is there; `on_update` comes later."""

    def on_update(self, kind: Kind, old: Manifest, new: Manifest, author: Author) -> list[FieldError]:
        """The same for a change, in `new`."""


class Nobody:
    """Has nothing to say."""

    def name_for(self, kind: Kind, manifest: Manifest) -> str:  # noqa: ARG002
        return ""

    def on_create(self, kind: Kind, manifest: Manifest, author: Author) -> list[FieldError]:  # noqa: ARG002
        return []

    def on_apply(self, kind: Kind, old: Manifest, applied: Manifest) -> None:
        """Change nothing."""

    def on_update(self, kind: Kind, old: Manifest, new: Manifest, author: Author) -> list[FieldError]:  # noqa: ARG002
        return []
