"""Two ways to call an admission plugin: directly, and as a webhook through encoded AdmissionReviews."""

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fairway.apis.machinery.admission import AdmissionPlugin, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.kind import Kind
from fairway.apis.registry import default_registry
from fairway.errors import FieldError
from fairway.server.admissionreview import API_VERSION, MASTERS, AdmissionReviews
from fairway.store.patching.jsonpatch import json_patch


@dataclass(frozen=True, slots=True)
class RemoteFieldError(FieldError):
    """A cause in the status of a review's response: its sentence is made already."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def encoded(request: AdmissionRequest, uid: str = "u-1") -> bytes:
    """The review that an API server sends of a request."""
    kind, metadata = request.kind, request.object["metadata"]
    version = {"group": kind.group, "version": kind.stored}
    asked: dict[str, Any] = {
        "uid": uid,
        "kind": {**version, "kind": kind.kind},
        "resource": {**version, "resource": kind.plural},
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": "CREATE" if request.old is None else "UPDATE",
        "userInfo": {"username": request.user.name, "groups": [MASTERS] if request.user.can_impersonate else ["users"]},
        "object": _whole(kind, request.object),
        "oldObject": None if request.old is None else _whole(kind, request.old),
        "dryRun": request.dry_run,
    }
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": asked})


def _whole(kind: Kind, manifest: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version(kind.stored), "kind": kind.kind, **manifest}


class ReviewedPlugin:
    """A plugin behind AdmissionReviews: mutated first, then validated, as an API server does."""

    def __init__(self, plugin: AdmissionPlugin) -> None:
        self.resources: Collection[str] = plugin.resources
        self._reviews = AdmissionReviews(plugin, default_registry())

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        answer = self._answer("mutate", request)
        if "patch" in answer:
            assert answer["patchType"] == "JSONPatch"
            whole = _whole(request.kind, request.object)
            patched = json_patch(whole, msgspec.json.decode(base64.b64decode(answer["patch"])))
            request.object.clear()
            request.object.update(patched)
        errors = _errors(answer)
        judged = self._answer("validate", request)
        assert "patch" not in judged
        assert _errors(judged) == errors, "what is completed is judged like what was given"
        return AdmissionResponse(errors, tuple(answer.get("warnings", ())))

    def _answer(self, action: str, request: AdmissionRequest) -> dict[str, Any]:
        code, body = self._reviews.answer("POST", f"/{action}/{request.kind.resource}", encoded(request))
        assert code == 200, body
        review = msgspec.json.decode(body)
        assert (review["apiVersion"], review["kind"]) == (API_VERSION, "AdmissionReview")
        assert review["response"]["uid"] == "u-1"
        found: dict[str, Any] = review["response"]
        return found


def _errors(answer: dict[str, Any]) -> Sequence[FieldError]:
    if answer["allowed"]:
        assert "status" not in answer
        return []
    status = answer["status"]
    assert (status["code"], status["reason"]) in {(422, "Invalid"), (403, "Forbidden")}
    return [
        RemoteFieldError(cause["field"], None, cause["reason"], cause["message"])
        for cause in status["details"]["causes"]
    ]


def called(plugin: AdmissionPlugin, way: str) -> AdmissionPlugin:
    return plugin if way == "direct" else ReviewedPlugin(plugin)
