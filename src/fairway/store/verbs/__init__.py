"""The verbs of the API over the store: what a create, an update, a patch, a delete, a list and a watch mean.

Requests are manifests and options; the HTTP server and the in-process client both use
these verbs. HTTP (paths, content types, tables) belongs to `server`, the rules of one kind to `apis`.
"""

from fairway.store.verbs.objects import Objects, when_durable
from fairway.store.verbs.options import DeleteOptions, PatchType, WriteOptions, WriteTarget, Written

__all__ = ["DeleteOptions", "Objects", "PatchType", "WriteOptions", "WriteTarget", "Written", "when_durable"]
