"""Watches: the changes of the selected objects, as the watcher sees them.

An object that begins to match a selector appears (ADDED), one that ceases to vanishes (DELETED), whatever happened to
it in the store.
"""

from typing import Final

import msgspec

from fairway.store.entries import ADDED, DELETED, MODIFIED, Change, Entry
from fairway.store.feed import Watch
from fairway.store.selectors import Selection

_AT_ONCE: Final = 500
"""Changes that are handled in one go: what a watcher does with each takes up to a tenth of a millisecond."""


class Events:
    """One watcher's stream."""

    def __init__(self, watch: Watch, selection: Selection) -> None:
        self._watch = watch
        self._selection = selection

    async def next(self) -> list[Change]:
        """The changes that come next; perhaps none, if what changed is not meant. `Expired` if it was too slow."""
        return self._seen(await self._watch.next(_AT_ONCE))

    @property
    def is_behind(self) -> bool:
        """Whether there are changes, meant or not, that it has not looked at yet."""
        return self._watch.is_behind

    def _seen(self, changes: list[Change]) -> list[Change]:
        selection = self._selection
        if selection.filters:
            return [seen for change in changes if (seen := _filtered(selection, change)) is not None]
        namespace = selection.namespace
        if not namespace:
            return changes
        return [change for change in changes if change.entry.key[0] == namespace]


def _filtered(selection: Selection, change: Change) -> Change | None:
    previous = change.previous
    before = previous is not None and selection.matches(previous)
    after = change.type != DELETED and selection.matches(change.entry)
    if after:
        return Change(MODIFIED if before else ADDED, change.entry, previous)
    if not before:
        return None
    if change.type == DELETED or previous is None:
        return Change(DELETED, change.entry, previous)
    return Change(DELETED, _last_seen(previous, change.revision), previous)


def _last_seen(entry: Entry, revision: int) -> Entry:
    """An object as the watcher knew it, at the revision that took it out of sight."""
    manifest = msgspec.json.decode(entry.data)
    manifest["metadata"]["resourceVersion"] = str(revision)
    return Entry(entry.resource, entry.key, revision, msgspec.json.encode(manifest), entry.meta)
