"""All objects of one resource, as of the newest durable revision or of a recent one."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from fairway.store.entries import DELETED, Change, Entry, Key
from fairway.store.feed import Feed

_AFTER_EVERY_NAME = "\U0010ffff"
_MOST_ONE_BY_ONE = 64


class Collection:
    """The objects of one resource in the order of namespace and name."""

    def __init__(self, floor: int = 0) -> None:
        self.entries: dict[Key, Entry] = {}
        self.feed = Feed(floor)
        self._keys: list[Key] = []
        self._new: set[Key] = set()
        self._gone: set[Key] = set()
        """Keys that are still to be put among `_keys`, or taken out: to do so with many at once costs what one does."""

        self._unsorted = False

    def __len__(self) -> int:
        return len(self.entries)

    def apply(self, change: Change) -> None:
        """Make a change visible."""
        key = change.entry.key
        if change.type == DELETED:
            if self.entries.pop(key, None) is not None and not self._unsorted:
                _move(key, self._new, self._gone)
            return
        if key not in self.entries and not self._unsorted:
            if self._new or self._gone or (self._keys and key < self._keys[-1]):
                _move(key, self._gone, self._new)
            else:
                self._keys.append(key)
        self.entries[key] = change.entry

    def fill(self, entries: dict[Key, Entry]) -> None:
        """Take over everything at once, as it was found at the start."""
        self.entries = entries
        self._unsorted = True

    def keys(self, namespace: str = "", after: Key | None = None) -> Sequence[Key]:
        """The keys of a namespace, or all, beyond a key."""
        if self._unsorted:
            self._keys = sorted(self.entries)
            self._unsorted = False
        elif self._new or self._gone:
            self._update_keys()
        low, high = 0, len(self._keys)
        if namespace:
            low = bisect_left(self._keys, (namespace, ""))
            high = bisect_left(self._keys, (namespace, _AFTER_EVERY_NAME))
        if after is not None:
            low = max(low, bisect_right(self._keys, after))
        return self._keys[low:high]

    def _update_keys(self) -> None:
        if len(self._new) + len(self._gone) > _MOST_ONE_BY_ONE:
            if self._gone:
                self._keys = [key for key in self._keys if key not in self._gone]
            self._keys += self._new
            self._keys.sort()  # nearly sorted: this merges
        else:
            for key in self._gone:
                del self._keys[bisect_left(self._keys, key)]
            for key in self._new:
                insort(self._keys, key)
        self._new, self._gone = set(), set()

    def at(self, revision: int) -> "Snapshot":
        """The collection as it was at a recent revision; `Expired` if that is no longer known."""
        newer = self.feed.newer_than(revision)
        return Snapshot(self, newer)


def _move(key: Key, origin: set[Key], target: set[Key]) -> None:
    """Take back what is still to be done with a key, or else note what is."""
    if key in origin:
        origin.discard(key)
    else:
        target.add(key)


class Snapshot:
    """A collection with its newest changes taken back."""

    def __init__(self, collection: Collection, undone: Iterable[Change]) -> None:
        self._collection = collection
        self._before: dict[Key, Entry | None] = {}
        for change in undone:
            self._before.setdefault(change.entry.key, change.previous)

    def get(self, key: Key) -> Entry | None:
        return self._before[key] if key in self._before else self._collection.entries.get(key)

    def keys(self, namespace: str = "", after: Key | None = None) -> Sequence[Key]:
        if not self._before:
            return self._collection.keys(namespace, after)
        keys = {key for key in self._collection.keys(namespace, after) if self._before.get(key, key) is not None}
        keys.update(
            key
            for key, entry in self._before.items()
            if entry is not None and (not namespace or key[0] == namespace) and (after is None or key > after)
        )
        return sorted(keys)
