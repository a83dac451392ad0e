"""Background deletion: dependents of deleted owners, terminating namespaces, old events.

Each keeper observes durable changes and does its work through the same verbs as everybody else. None polls: they wait
for a change, or for the moment that something is due.
"""

from fairway.store.gc.collector import GarbageCollector
from fairway.store.gc.definitions import DefinitionKeeper
from fairway.store.gc.expiry import EventExpiry
from fairway.store.gc.namespaces import NamespaceKeeper

__all__ = ["DefinitionKeeper", "EventExpiry", "GarbageCollector", "NamespaceKeeper"]
