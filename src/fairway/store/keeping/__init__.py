"""What the store tidies up by itself: dependents of deleted owners, terminating namespaces, old events.

Each keeper observes durable changes and does its work through the same verbs as everybody else. None polls: they wait
for a change, or for the moment that something is due.
"""

from fairway.store.keeping.collector import Collector
from fairway.store.keeping.definitions import publish_definitions
from fairway.store.keeping.expiry import EventExpiry
from fairway.store.keeping.namespaces import NamespaceKeeper

__all__ = ["Collector", "EventExpiry", "NamespaceKeeper", "publish_definitions"]
