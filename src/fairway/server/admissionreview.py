"""Admission plugins served as webhooks of another API server: `AdmissionReview` v1 in, `AdmissionReview` v1 out.

`/mutate/RESOURCE` completes an object and judges it, `/validate/RESOURCE` only judges. `AdmissionReviews.answer` takes
and gives bytes; `ControllerEndpoint` serves it over HTTPS. Other objects are known to the plugins from their caches,
which work over HTTP as well.
"""

import base64
import copy
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fairway.apis.machinery.admission import AdmissionPlugin, AdmissionRequest, UserInfo
from fairway.apis.machinery.documents import from_json
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import Registry
from fairway.errors import ApiError, BadRequest, MethodNotAllowed, NotFound, ValidationError
from fairway.integrations.names import QUEUE_NAME
from fairway.schedulers.kinds import KINDS
from fairway.schedulers.names import ORGANIZATION
from fairway.server.crds import with_path
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

    def __init__(
        self,
        plugin: AdmissionPlugin,
        registry: Registry,
        trusted: Collection[str] = (MASTERS,),
        before: Mapping[str, Callable[[], Awaitable[None]]] = MappingProxyType({}),
    ) -> None:
        """`trusted` are the user names and groups of administrators and controllers; `before` is awaited before an
        object of a resource is completed.
        """
        self._plugin = plugin
        self._registry = registry
        self._trusted = frozenset(trusted)
        self._before = before

    async def prepare(self, path: str) -> None:
        """Wait for what the answer needs."""
        action, _, resource = path.strip("/").partition("/")
        waited = self._before.get(resource)
        if action == "mutate" and waited is not None:
            await waited()

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
        old = _object(kind, request, "oldObject") if request["operation"] == "UPDATE" else None
        user = self._user(request.get("userInfo") or {})
        response = self._plugin.admit(
            AdmissionRequest(kind, completed, old, user, bool(request.get("dryRun")), mutating)
        )
        answer: dict[str, Any] = {"allowed": not response.errors}
        if response.warnings:
            answer["warnings"] = list(response.warnings)
        if response.errors:
            name = given["metadata"].get("name") or request.get("name") or ""
            refused = ValidationError(kind.kind, name, response.errors)
            answer["status"] = status_of(refused, self._registry)
            if refused.webhook:  # the API server says which one it asked
                answer["status"]["message"] = refused.reasons
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


_SYSTEM: Final = ("fairway-system", "kube-node-lease", "kube-system", "kueue-system")
_NOT_SYSTEM: Final = {
    "namespaceSelector": {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(_SYSTEM)}]
    }
}
_SELECTED: Final[Mapping[str, Manifest]] = {
    "pods": {**_NOT_SYSTEM, "objectSelector": {"matchExpressions": [{"key": QUEUE_NAME, "operator": "Exists"}]}}
}
"""What a webhook of a kind of Kubernetes is asked about: never what a cluster needs to work, and no pod without a
queue, so that other pods do not depend on a process of ours."""


def webhook_rules(resources: Collection[str], registry: Registry) -> list[Manifest]:
    """What an API server is to ask about: a rule with its selectors for each resource that there is."""
    kinds = [kind for resource in sorted(resources) if (kind := registry.by_name(resource)) is not None]
    return [
        {
            "rules": [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [kind.stored],
                    "operations": list(_OPERATIONS),
                    "resources": [kind.plural],
                }
            ],
            **(_SELECTED.get(kind.resource, _NOT_SYSTEM) if kind.builtin else {}),
            # A second call sees what other webhooks changed since; a number is drawn once.
            **({"reinvocationPolicy": "IfNeeded"} if kind.builtin else {}),
        }
        for kind in kinds
    ]


def scheduling_rules(registry: Registry) -> list[Manifest]:
    """What an API server is to ask about for `queueconfig`: jobs of all kinds in the namespaces of organizations.

    Other namespaces do not depend on a process of ours, nor do pods and jobs that a controller makes.
    """
    jobs = {kind.resource for kind in KINDS if not kind.deferred}  # ManagedJobs are reviewed anyway
    labelled = {"key": ORGANIZATION, "operator": "Exists"}
    expressions = [*_NOT_SYSTEM["namespaceSelector"]["matchExpressions"], labelled]
    return [
        {
            "rules": rule["rules"],
            "namespaceSelector": {"matchExpressions": expressions},
            "matchConditions": [{"name": "not-owned", "expression": "!has(object.metadata.ownerReferences)"}],
            "reinvocationPolicy": "Never",
        }
        for rule in webhook_rules(jobs, registry)
    ]


def webhook_configurations(
    rules: Collection[Manifest],
    client: Mapping[str, Any],
    name: str = "fairway",
    exempt: str = "",
    scheduled: Collection[Manifest] = (),
) -> list[Manifest]:
    """What makes an API server call these webhooks; those for `scheduled` only complete objects, and come first.

    `client` is their `clientConfig` without a path: `caBundle` and either `url` or `service`. Writes of the user
    `exempt`, the controller itself, are not reviewed: they must not depend on its own answer.
    """
    conditions = [{"name": "not-the-controller", "expression": f"request.userInfo.username != {exempt!r}"}]

    def webhook(rule: Manifest, action: str, called: str) -> Manifest:
        found = _webhook(rule, action, client, called)
        if exempt:
            found["matchConditions"] = [*conditions, *found.get("matchConditions", ())]
        return found

    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{action}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                *(webhook(rule, path, "schedule") for rule in scheduled if path == "mutate"),
                *(webhook(rule, path, path) for rule in rules),
            ],
        }
        for action, path in (("Mutating", "mutate"), ("Validating", "validate"))
    ]


def _webhook(rule: Manifest, action: str, client: Mapping[str, Any], called: str) -> Manifest:
    ((group,), (plural,)) = (rule["rules"][0][field] for field in ("apiGroups", "resources"))
    resource = f"{plural}.{group}" if group else plural
    more = {name: value for name, value in rule.items() if action == "mutate" or name != "reinvocationPolicy"}
    return {
        "name": f"{resource if group else f'{plural}.core'}.{called}.fairway.dev",
        "clientConfig": with_path(client, f"/{action}/{resource}"),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun" if action == "mutate" else "None",
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        **more,
    }
