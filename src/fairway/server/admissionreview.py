"""Admission plugins served as webhooks of another API server: `AdmissionReview` v1 in, `AdmissionReview` v1 out.

`/mutate/RESOURCE` completes an object and judges it, `/validate/RESOURCE` only judges. `AdmissionReviews.answer` takes
and gives bytes; `ControllerEndpoint` serves it over HTTPS. Other objects are known to the plugins from their caches,
which work over HTTP as well.
"""

import base64
import copy
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from fairway.apis.machinery.admission import AdmissionPlugin, AdmissionRequest, UserInfo
from fairway.apis.machinery.documents import from_json
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import Registry
from fairway.errors import ApiError, BadRequest, MethodNotAllowed, NotFound, ValidationError
from fairway.server.responses import encode, status_of

API_VERSION: Final = "admission.k8s.io/v1"
MASTERS: Final = "system:masters"
_KIND: Final = "AdmissionReview"
_OPERATIONS: Final = ("CREATE", "UPDATE")
ACTIONS: Final = ("mutate", "validate")
LARGEST_BODY: Final = 8 << 20
"""Bytes: the object and the old one, at most 3 MiB each as an API server stores them."""


class AdmissionReviews:
    """Answers reviews by a plugin."""

    def __init__(self, plugin: AdmissionPlugin, registry: Registry, trusted: Collection[str] = (MASTERS,)) -> None:
        """`trusted` are the user names and groups of administrators and controllers."""
        self._plugin = plugin
        self._registry = registry
        self._trusted = frozenset(trusted)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """The HTTP status and the body; a review that cannot be read is an HTTP error, as API servers expect."""
        try:
            return 200, self._answer(method, path, body)
        except ApiError as error:
            return error.code, encode(status_of(error, self._registry))

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        action, _, resource = path.strip("/").partition("/")
        if action not in ACTIONS:
            raise NotFound(f"there is no path {path[:80]!r}; there are /mutate and /validate")
        if method != "POST":
            raise MethodNotAllowed(f"{path[:80]} takes POST, not {method[:20]}")
        review = from_json(body)
        request = review.get("request") if isinstance(review, dict) else None
        if not isinstance(request, dict) or (review.get("apiVersion"), review.get("kind")) != (API_VERSION, _KIND):
            raise BadRequest(f"the body is not an {_KIND} of {API_VERSION} with a request")
        try:
            response = self._reviewed(request, resource, mutating=action == "mutate")
        except (KeyError, TypeError, AttributeError) as error:
            raise BadRequest(f"the review's request cannot be read: {error!r}") from error
        return encode({"apiVersion": API_VERSION, "kind": _KIND, "response": {"uid": request["uid"], **response}})

    def _reviewed(self, request: dict[str, Any], resource: str, *, mutating: bool) -> dict[str, Any]:
        group, plural = request["resource"].get("group", ""), request["resource"]["resource"]
        named = f"{plural}.{group}" if group else plural
        if resource and resource != named:
            raise BadRequest(f"{named} was sent to the path of {resource[:80]}")
        kind = self._registry.by_name(named)
        if kind is None or kind.group != group or request.get("subResource") or request["operation"] not in _OPERATIONS:
            return {"allowed": True}
        given = _object(kind, request, "object")
        completed = copy.deepcopy(given)
        response = self._plugin.admit(
            AdmissionRequest(
                kind,
                completed,
                _object(kind, request, "oldObject") if request["operation"] == "UPDATE" else None,
                self._user(request.get("userInfo") or {}),
                bool(request.get("dryRun")),
                mutating,
            )
        )
        answer: dict[str, Any] = {"allowed": not response.errors}
        if response.warnings:
            answer["warnings"] = list(response.warnings)
        if response.errors:
            name = given["metadata"].get("name") or request.get("name") or ""
            answer["status"] = status_of(ValidationError(kind.kind, name, response.errors), self._registry)
        elif mutating and completed != given:
            answer["patchType"] = "JSONPatch"
            answer["patch"] = base64.b64encode(msgspec.json.encode(json_patch_between(given, completed))).decode()
        return answer

    def _user(self, info: Mapping[str, Any]) -> UserInfo:
        name, groups = str(info.get("username") or ""), tuple(map(str, info.get("groups") or ()))
        return UserInfo(name, name in self._trusted or not self._trusted.isdisjoint(groups), groups)


def _object(kind: Kind, request: Mapping[str, Any], field: str) -> Manifest:
    found: Manifest = request[field]
    if found["apiVersion"] != kind.api_version(kind.stored):
        raise BadRequest(
            f"{kind.resource} came as {found['apiVersion']!r}; the webhook takes {kind.api_version(kind.stored)!r}: "
            "name that version in its rules, with matchPolicy Equivalent"
        )
    found["metadata"] = found.get("metadata") or {}
    if kind.namespaced and not found["metadata"].get("namespace"):
        found = {**found, "metadata": {**found["metadata"], "namespace": request["namespace"]}}
    return found


def json_patch_between(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902) that makes one document the other; lists of another length are replaced as a whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        operations: list[dict[str, Any]] = []
        for name in (*old, *(name for name in new if name not in old)):
            where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in new:
                operations.append({"op": "remove", "path": where})
            elif name not in old:
                operations.append({"op": "add", "path": where, "value": new[name]})
            else:
                operations += json_patch_between(old[name], new[name], where)
        return operations
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [one for index, (was, now) in pairs for one in json_patch_between(was, now, f"{path}/{index}")]
    if old == new and type(old) is type(new):
        return []
    return [{"op": "replace", "path": path, "value": new}]


def webhook_configurations(
    resources: Collection[str], registry: Registry, client_config: Mapping[str, Any], name: str = "fairway"
) -> list[Manifest]:
    """What makes an API server call these webhooks.

    `client_config` says where they are: `caBundle` and either `url` (of which paths are made) or `service`.
    """
    kinds = [kind for resource in sorted(resources) if (kind := registry.by_name(resource)) is not None]
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{action}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [_webhook(kind, path, client_config) for kind in kinds],
        }
        for action, path in (("Mutating", "mutate"), ("Validating", "validate"))
    ]


def _webhook(kind: Kind, action: str, client_config: Mapping[str, Any]) -> Manifest:
    path, config = f"/{action}/{kind.resource}", dict(client_config)
    if "url" in config:
        config["url"] = f"{config['url'].rstrip('/')}{path}"
    else:
        config["service"] = {**config["service"], "path": path}
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.stored],
        "operations": list(_OPERATIONS),
        "resources": [kind.plural],
    }
    return {
        "name": f"{kind.resource}.{action}.fairway.dev",
        "clientConfig": config,
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
    }
