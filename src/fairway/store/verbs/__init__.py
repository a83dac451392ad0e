"""The verbs of the API over the store: what a create, an update, a patch, a delete, a list and a watch mean.

Requests come in as manifests and options, whoever sends them: the HTTP server and the in-process client are two doors
to the same room. What is HTTP (paths, content types, tables) belongs to `server`, what is one kind's own to `apis`.
"""

from fairway.store.verbs.objects import Objects, when_durable
from fairway.store.verbs.options import DeleteOptions, PatchType, WriteOptions, WriteTarget, Written

__all__ = ["DeleteOptions", "Objects", "PatchType", "WriteOptions", "WriteTarget", "Written", "when_durable"]
