"""The rules of custom kinds, for an API server that knows only the schemas of their definitions."""

from collections.abc import Iterable

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.kind import Kind


class KindRules:
    """Refuses what the rules of a kind refuse, once an object is complete."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.resources = frozenset(kind.resource for kind in kinds)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.mutating:
            return ALLOWED
        rules, manifest, old = request.kind.rules, request.object, request.old
        return AdmissionResponse(rules.validate(manifest) if old is None else rules.validate_update(old, manifest))
