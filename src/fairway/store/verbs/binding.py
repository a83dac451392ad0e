"""Binding of a pod to a node."""

from fairway.apis.machinery.kind import Kind
from fairway.errors import Conflict, Forbidden
from fairway.store.entries import Key
from fairway.store.verbs.options import WriteOptions, Written
from fairway.store.verbs.reading import decoded
from fairway.store.verbs.writing import WriteContext, drafted, owned, put


def bind(context: WriteContext, kind: Kind, key: Key, node: str, options: WriteOptions) -> Written:
    """Give a pod to a node; `Conflict` if it has one, `Forbidden` while it is gated or being deleted."""
    entry = context.head(kind, key)
    old = decoded(entry)
    spec = old["spec"]
    details: dict[str, object] = {"name": key[1], "kind": kind.plural}
    failed = f'Operation cannot be fulfilled on pods/binding "{key[1]}"'
    if spec.get("nodeName"):
        raise Conflict(f"{failed}: pod {key[1]} is already assigned to node {spec['nodeName']!r}", details=details)
    if "deletionTimestamp" in old["metadata"]:
        raise Conflict(f"{failed}: pod {key[1]} is being deleted, cannot be assigned to a host", details=details)
    if spec.get("schedulingGates"):
        raise Forbidden(f"{failed}: pod {key[1]} has non-empty .spec.schedulingGates", details=details)
    now = context.stamp()
    status = dict(old.get("status") or {})
    conditions = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [*conditions, scheduled]
    new = {**old, "metadata": dict(old["metadata"]), "spec": {**spec, "nodeName": node}, "status": status}
    if "generation" in new["metadata"]:
        new["metadata"]["generation"] += 1
    new["metadata"]["managedFields"] = owned(context, kind, old, new, options, "binding")
    if options.dry_run:
        return Written(drafted(kind, key, new))
    return put(context, kind, key, new, entry)
