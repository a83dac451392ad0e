"""Answers to "who am I?" and "may I?", as `kubectl auth whoami` and `kubectl auth can-i` ask them.

A review is a question in the shape of an object that is created: a function here takes its manifest and the user
of the request, and returns the manifest with the answer. Nothing is stored. The authorisation is checked by the
caller, as for any other object (only an admin may ask about others).
"""

from datetime import datetime
from typing import TypeVar

import msgspec

from fairway.errors import BadRequest, FieldError, ValidationError
from fairway.server.access.roles import Rule, User, allowed, allowed_path, rules
from fairway.server.access.users import Users

Manifest = dict[str, object]
S = TypeVar("S", bound=msgspec.Struct)

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"


class ResourceAttributes(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    fieldSelector: dict[str, object] | None = None  # noqa: N815 - as the API spells it
    labelSelector: dict[str, object] | None = None  # noqa: N815


class NonResourceAttributes(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str = ""
    verb: str = ""


class _AccessSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    resourceAttributes: ResourceAttributes | None = None  # noqa: N815
    nonResourceAttributes: NonResourceAttributes | None = None  # noqa: N815
    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


class _RulesSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str = ""


def self_subject_review(body: Manifest, user: User, now: datetime) -> Manifest:
    """Who is asking."""
    info: Manifest = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return {
        "kind": _kind(body, AUTHENTICATION, "SelfSubjectReview"),
        "apiVersion": AUTHENTICATION,
        "metadata": {"creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ")},
        "status": {"userInfo": info},
    }


def self_subject_access_review(body: Manifest, user: User) -> Manifest:
    """SelfSubjectAccessReview: whether the user of the request may do this."""
    kind = _kind(body, AUTHORIZATION, "SelfSubjectAccessReview")
    spec = _spec(body, kind, _AccessSpec)
    asked = _AccessSpec(spec.resourceAttributes, spec.nonResourceAttributes)
    _validate_access(asked)
    return _answer(kind, asked, {"allowed": _may(user, asked)})


def subject_access_review(body: Manifest, users: Users) -> Manifest:
    """SubjectAccessReview: whether a user with this name and these groups may do this."""
    kind = _kind(body, AUTHORIZATION, "SubjectAccessReview")
    spec = _spec(body, kind, _AccessSpec)
    _validate_access(spec, *_subject_problems(spec))
    known = users.get(spec.user)
    bindings = (*(known.bindings if known else ()), *users.bindings_of(spec.groups))
    subject = User(spec.user, groups=spec.groups, bindings=bindings)
    return _answer(kind, spec, {"allowed": _may(subject, spec)})


def self_subject_rules_review(body: Manifest, user: User) -> Manifest:
    """SelfSubjectRulesReview: the permissions of the user of the request in one namespace."""
    kind = _kind(body, AUTHORIZATION, "SelfSubjectRulesReview")
    spec = _spec(body, kind, _RulesSpec)
    if not spec.namespace:
        raise BadRequest("no namespace on request")
    found = rules(user, spec.namespace)
    return _answer(
        kind,
        _RulesSpec(),
        {
            "resourceRules": [_resource_rule(rule) for rule in found if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)} for rule in found if rule.paths
            ],
            "incomplete": False,
        },
    )


def _resource_rule(rule: Rule) -> Manifest:
    return {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}


def _may(user: User, spec: _AccessSpec) -> bool:
    if spec.nonResourceAttributes is not None:
        return allowed_path(user, verb=spec.nonResourceAttributes.verb, path=spec.nonResourceAttributes.path)
    asked = spec.resourceAttributes or ResourceAttributes()
    return allowed(
        user,
        verb=asked.verb,
        group=asked.group,
        resource=asked.resource,
        subresource=asked.subresource,
        namespace=asked.namespace,
        name=asked.name,
    )


def _validate_access(spec: _AccessSpec, *problems: FieldError) -> None:
    found = []
    if spec.resourceAttributes is not None and spec.nonResourceAttributes is not None:
        value = msgspec.to_builtins(spec.nonResourceAttributes)
        message = "cannot be specified in combination with resourceAttributes"
        found.append(FieldError("spec.nonResourceAttributes", value, "FieldValueInvalid", message))
    elif spec.resourceAttributes is None and spec.nonResourceAttributes is None:
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(FieldError("spec.resourceAttributes", None, "FieldValueInvalid", message))
    found += problems
    if found:
        raise ValidationError(".authorization.k8s.io", "", found)


def _subject_problems(spec: _AccessSpec) -> tuple[FieldError, ...]:
    if spec.user or spec.groups:
        return ()
    return (FieldError("spec.user", "", "FieldValueInvalid", "at least one of user or group must be specified"),)


def _kind(body: Manifest, version: str, kind: str) -> str:
    """The kind, after a look whether the body is of it, where the body says."""
    if body.get("apiVersion", version) != version or body.get("kind", kind) != kind:
        raise BadRequest(
            f"the object in the body ({body.get('apiVersion')}, {body.get('kind')}) is not the {kind} of {version} "
            "that this path takes"
        )
    return kind


def _spec(body: Manifest, kind: str, shape: type[S]) -> S:
    spec = body.get("spec")
    try:
        return msgspec.convert({} if spec is None else spec, shape)
    except msgspec.ValidationError as error:
        raise BadRequest(f'{kind} in version "v1" cannot be handled as a {kind}: spec: {error}') from error


def _answer(kind: str, spec: msgspec.Struct, status: Manifest) -> Manifest:
    return {
        "kind": kind,
        "apiVersion": AUTHORIZATION,
        "metadata": {},
        "spec": msgspec.to_builtins(spec),
        "status": status,
    }
