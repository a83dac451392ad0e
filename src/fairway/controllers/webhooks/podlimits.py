"""What an API server's LimitRanger and RuntimeClass admission do: new pods get the defaults of their namespace and the
overhead of their runtime class, and those that break a limit are refused.

A cluster's API server does this itself, so only the embedded one has this plugin.
"""

from fairway.apis.core import podlimits
from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Lister
from fairway.errors import Forbidden


class PodLimitAdmission:
    """Follows LimitRanges and RuntimeClasses; a pod in a namespace without any costs two looks."""

    resources = ("pods",)

    def __init__(self, cluster: Lister) -> None:
        self._ranges = cluster.cache("limitranges")
        self._classes = cluster.cache("runtimeclasses.node.k8s.io")
        self._by_namespace: dict[str, dict[str, list[Manifest]]] = {}
        self._ranges.on_change(self._range_changed)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.old is not None:
            return ALLOWED
        pod, spec = request.object, request.object["spec"]
        ranges = self._by_namespace.get(pod["metadata"].get("namespace", ""), {})
        in_order = [limits for _, limits in sorted(ranges.items())]
        for limits in in_order:
            podlimits.complete_pod(pod, limits)
        refusal = self._apply_class(spec)
        if refusal:
            raise _forbidden(pod, refusal)
        for limits in in_order:
            found = podlimits.breaches(spec, limits)
            if found:
                raise _forbidden(pod, found[0] if len(found) == 1 else f"[{', '.join(found)}]")
        return ALLOWED

    def _apply_class(self, spec: Manifest) -> str:
        name = spec.get("runtimeClassName")
        if not name and not spec.get("overhead"):
            return ""
        found = self._classes.get("", name) if name else None
        if name and found is None:
            return f'pod rejected: RuntimeClass "{name}" not found'
        return podlimits.apply_runtime_class(spec, found)

    def _range_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        metadata = (new or old or {})["metadata"]
        ranges = self._by_namespace.setdefault(metadata["namespace"], {})
        if new is not None:
            ranges[metadata["name"]] = (new.get("spec") or {}).get("limits") or []
        else:
            ranges.pop(metadata["name"], None)
            if not ranges:
                del self._by_namespace[metadata["namespace"]]


def _forbidden(pod: Manifest, why: str) -> Forbidden:
    metadata = pod["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    return Forbidden(f'pods "{name}" is forbidden: {why}', details={"name": name, "kind": "pods"})
