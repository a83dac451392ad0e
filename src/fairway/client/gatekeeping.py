"""What a controller needs that has a say in writes: the store's words for it, for those who may not see the store."""

from fairway.store.verbs.gatekeeping import THIS_PROCESS, Author, Gatekeeper

__all__ = ["THIS_PROCESS", "Author", "Gatekeeper"]
