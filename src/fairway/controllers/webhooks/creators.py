"""Writes on queued jobs and pods who created them, for accounting and limits; users cannot name another one."""

from typing import Final

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.integrations import names
from fairway.integrations.framework import Framework
from fairway.integrations.frameworks import FRAMEWORKS
from fairway.integrations.webhooks import annotations_of, queue_name

_WORKLOADS: Final = "workloads.kueue.x-k8s.io"
_CONTROLLERS: Final = ("system:kube-", "system:serviceaccount:kube-system:", "system:serviceaccount:fairway-system:")


class CreatorAnnotations:
    """Sets `fairway.dev/user` on what has a queue. Administrators may name another user."""

    def __init__(self, frameworks: tuple[Framework, ...] = FRAMEWORKS) -> None:
        self.resources = ("pods", _WORKLOADS, *(framework.resource for framework in frameworks))

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        manifest, old, user = request.object, request.old, request.user
        if not user.name:
            return ALLOWED
        said = annotations_of(manifest).get(names.USER)
        if old is not None:
            wanted = annotations_of(old).get(names.USER)
        elif user.name.startswith(_CONTROLLERS) or not (request.kind.resource == _WORKLOADS or queue_name(manifest)):
            return ALLOWED
        else:
            wanted = user.name
        if said == wanted or (said and user.can_impersonate):
            return ALLOWED
        annotations = dict(annotations_of(manifest))
        if wanted is None:
            del annotations[names.USER]
        else:
            annotations[names.USER] = wanted
        manifest["metadata"]["annotations"] = annotations
        return ALLOWED
