"""The conversion webhook of Kueue's kinds where Fairway installs them: `ConversionReview` v1 in, and out."""

from typing import Any, Final

from fairway.apis.machinery.documents import from_json
from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import Registry
from fairway.errors import ApiError, BadRequest, NotFound
from fairway.server.responses import encode

API_VERSION: Final = "apiextensions.k8s.io/v1"
LARGEST_BODY: Final = 32 << 20
"""Bytes: an API server converts the objects of a list together."""


def converted(registry: Registry, body: bytes) -> bytes:
    """The answer to a review; `BadRequest` if it cannot be read. One object that cannot be converted fails them all."""
    review = from_json(body)
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or review.get("apiVersion") != API_VERSION or "uid" not in request:
        raise BadRequest(f"the body is not a ConversionReview of {API_VERSION} with a request")
    response: dict[str, Any] = {"uid": request["uid"]}
    try:
        wanted = str(request.get("desiredAPIVersion") or "")
        response["convertedObjects"] = [_converted(registry, one, wanted) for one in request.get("objects") or ()]
        response["result"] = {"status": "Success"}
    except ApiError as error:
        response |= {"convertedObjects": [], "result": {"status": "Failed", "message": error.message}}
    return encode({"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response})


def _converted(registry: Registry, manifest: Any, wanted: str) -> Manifest:
    if not isinstance(manifest, dict):
        raise BadRequest("an object of the review is not an object")
    given, kind = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
    found = registry.by_api_version(wanted, kind)
    if found is None or registry.by_api_version(given, kind) is not found:
        raise NotFound(f"there is no way from {kind} of {given!r} to {wanted!r}")
    version = wanted.rpartition("/")[2]
    if given == wanted:
        return manifest
    # Through the stored version, which every other one can be converted to.
    stored = manifest if given == found.api_version(found.stored) else found.rules.convert(manifest, found.stored)
    return stored if version == found.stored else found.rules.convert(stored, version)
