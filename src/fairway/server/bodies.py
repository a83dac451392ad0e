"""What a write carries: manifests, patches and options, in the content types that are understood."""

from typing import Any, Final

from fairway.apis.machinery.admission import UserInfo
from fairway.apis.machinery.documents import from_json, from_yaml, repeated_field
from fairway.errors import BadRequest, UnsupportedMediaType
from fairway.server import protobuf
from fairway.server.access.roles import User, is_admin
from fairway.server.requests import Request
from fairway.store.verbs import DeleteOptions, PatchType, WriteOptions

_YAML: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
_PATCHES: Final = {str(one): one for one in PatchType}
_VALIDATIONS: Final = ("Ignore", "Warn", "Strict")
_LONGEST_MANAGER: Final = 128
_MOST_REMEMBERED: Final = 512
_remembered: Final[dict[tuple[bytes, bytes | None, User, bool], WriteOptions]] = {}


def parsed(media_type: str, data: bytes) -> Any:
    """The value of a body in JSON, in YAML or, if it is of one of Kubernetes' own kinds, in protobuf."""
    if media_type in {"application/json", ""}:
        return from_json(data)
    if media_type in _YAML:
        return from_yaml(data)
    if media_type == protobuf.CONTENT_TYPE:
        return protobuf.decode(data)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format ({media_type[:80]!r}) - accepted media types include: "
        f"application/json, application/yaml, {protobuf.CONTENT_TYPE}"
    )


def some(data: bytes) -> bytes:
    """The body, which must not be empty."""
    if not data:
        raise BadRequest("the body is empty; an object is expected")
    return data


def manifest(request: Request, data: bytes) -> Any:
    """The object in the body."""
    if request.content_type in _YAML:
        return _from_yaml(request, some(data))
    return parsed(request.content_type, some(data))


def patch(request: Request, data: bytes) -> tuple[PatchType, Any]:
    """The patch in the body, and its type."""
    media_type = request.content_type
    patch_type = _PATCHES.get(media_type)
    if patch_type is None:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format ({media_type[:80]!r}) - accepted media types include: "
            f"{', '.join(_PATCHES)}"
        )
    if not data:
        raise BadRequest("the body is empty; a patch is expected")
    is_yaml = patch_type is PatchType.APPLY and data[:1] != b"{"
    return patch_type, _from_yaml(request, data) if is_yaml else from_json(data)


def check_repeated(request: Request, data: bytes) -> None:
    """Whether a JSON body gives a field twice, of which only the last counts: an error or a warning.

    Only where `fieldValidation` says which: the decoder cannot tell, so it takes another pass.
    """
    if request.query.get("fieldValidation") in {"Strict", "Warn"} and data[:1] in {b"{", b"["}:
        repeated = repeated_field(data)
        _report(request, "", [f'duplicate field "{repeated[:200]}"'] if repeated else [])


def _from_yaml(request: Request, data: bytes) -> Any:
    repeated: list[str] = []
    value = from_yaml(data, repeated)
    _report(request, "yaml: unmarshal errors:\n  ", repeated)
    return value


def _report(request: Request, heading: str, repeated: list[str]) -> None:
    """Refuse repeated fields under `Strict`, remember them for the response under `Warn`, the default."""
    validation = request.query.get("fieldValidation")
    if repeated and validation == "Strict":
        raise BadRequest("strict decoding error: " + heading + "\n  ".join(repeated))
    if validation != "Ignore":
        request.repeated = tuple(repeated)


def write_options(request: Request, *, apply: bool = False) -> WriteOptions:
    """How the query wants a write to be carried out. A client asks for the same thing again and again."""
    key = (request.raw_query, request.headers.get(b"user-agent"), request.user, apply)
    options = _remembered.get(key)
    if options is None:
        options = _write_options(request, apply=apply)
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = options
    return options


def _write_options(request: Request, *, apply: bool) -> WriteOptions:
    query = request.query
    manager = query.get("fieldManager", "")
    if apply and not manager:
        raise BadRequest(
            "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
        )
    if len(manager) > _LONGEST_MANAGER or not manager.isprintable():
        raise BadRequest(f"fieldManager: Invalid value: at most {_LONGEST_MANAGER} printable characters")
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        raise BadRequest(f"fieldValidation: Unsupported value: {validation[:80]!r}: supported values: {_VALIDATIONS}")
    force = request.flag("force")
    if force and not apply:
        raise BadRequest("force: Forbidden: may not be specified for non-apply patch")
    return WriteOptions(
        manager=manager or _agent(request),
        dry_run=_dry_run(query.get("dryRun")),
        field_validation=validation,
        force=force,
        user=_user_info(request.user),
    )


def delete_options(request: Request, data: bytes) -> DeleteOptions:
    """How the query and the body want a delete to be carried out."""
    body = parsed(request.content_type, data) if data else {}
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise BadRequest("the body of a delete must be a DeleteOptions object")
    query = request.query
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise BadRequest("preconditions: Invalid value: must be an object")
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = request.number("gracePeriodSeconds")
    if grace is not None and (type(grace) is not int or abs(grace) >= 2**63):
        raise BadRequest(f"gracePeriodSeconds: Invalid value: {str(grace)[:80]!r}: must be an integer")
    return DeleteOptions(
        uid=_text(preconditions, "uid"),
        resource_version=_text(preconditions, "resourceVersion"),
        propagation=_propagation(body, query),
        grace_seconds=grace,
        dry_run=_dry_run(query.get("dryRun")) or _dry_run(body.get("dryRun")),
    )


def _propagation(body: dict[str, Any], query: dict[str, str]) -> str:
    propagation = _text(body, "propagationPolicy") or query.get("propagationPolicy", "")
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = query["orphanDependents"] == "true"
    if orphan is not None and not propagation:
        return "Orphan" if orphan else "Background"
    return propagation


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest(f"{name}: Invalid value: {str(value)[:80]!r}: must be a string")
    return value


def _dry_run(value: Any) -> bool:
    values = [value] if isinstance(value, str) and value else value
    if not values:
        return False
    if values != ["All"]:
        raise BadRequest(f"dryRun: Unsupported value: {str(value)[:80]!r}: supported values: All")
    return True


def _user_info(user: User) -> UserInfo:
    return UserInfo(user.name, is_admin(user), user.groups)


def _agent(request: Request) -> str:
    """Who writes, if nothing else says so: the program's name."""
    agent = request.header(b"user-agent").partition("/")[0]
    if agent and len(agent) <= _LONGEST_MANAGER and agent.isprintable():
        return agent
    return "".join(letter for letter in agent[:_LONGEST_MANAGER] if letter.isprintable()) or "unknown"
