"""The documents: one of version 3 for each group version, with an index of them, and one of version 2 for everything.

kubectl reads version 3 for `explain` and `apply` and to learn that unknown fields are found by the server; clients
before 1.27 read version 2.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from fairway import __version__
from fairway.apis.machinery.kind import Kind
from fairway.server.openapi import operations, protobuf
from fairway.server.openapi.nodes import V2, V3, Definitions, Node
from fairway.server.openapi.operations import Operation, Parameter

Document = dict[str, Any]

_TITLE: Final = "Fairway"
_REASONS: Final = {200: "OK", 201: "Created", 202: "Accepted"}
_SECURITY: Final = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}
_PATH_PARAMETERS: Final = {
    "{name}": Parameter("name", "string", "The name of the object.", "path"),
    "{namespace}": Parameter("namespace", "string", "The namespace that the object is in.", "path"),
}


def v3_index(kinds: Sequence[Kind], known: dict[str, bytes] | None = None) -> Document:
    """Where the documents of version 3 are. An address changes with what it holds, so it may be kept for ever.

    `known` holds documents that were encoded before, by group version; those that are missing are added.
    """
    known = {} if known is None else known
    for one in operations.group_versions(kinds):
        if one not in known:
            known[one] = encoded(v3_document(kinds, one) or {})
    addresses = {one: _address(one, known[one]) for one in operations.group_versions(kinds)}
    return {"paths": {_place(one): {"serverRelativeURL": address} for one, address in addresses.items()}}


def v3_document(kinds: Sequence[Kind], group_version: str) -> Document | None:
    """The document of one group version, `v1` or `batch/v1`; `None` if it is not served."""
    if group_version not in operations.group_versions(kinds):
        return None
    definitions = Definitions(V3)
    paths: dict[str, Node] = {}
    for operation in operations.operations(kinds, group_version):
        path = paths.setdefault(operation.path, {"parameters": _path_parameters(operation.path, _v3_parameter)})
        path[operation.method] = _v3_operation(operation, definitions)
    _mark_kinds(kinds, [group_version], definitions)
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": __version__},
        "paths": paths,
        "components": {"schemas": dict(sorted(definitions.nodes.items())), "securitySchemes": _SECURITY},
    }


def v2_document(kinds: Sequence[Kind]) -> Document:
    """The one document of version 2."""
    definitions = Definitions(V2)
    paths: dict[str, Node] = {}
    served = operations.group_versions(kinds)
    for group_version in served:
        for operation in operations.operations(kinds, group_version):
            path = paths.setdefault(operation.path, {"parameters": _path_parameters(operation.path, _v2_parameter)})
            path[operation.method] = _v2_operation(operation, definitions)
    _mark_kinds(kinds, served, definitions)
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": __version__},
        "paths": paths,
        "definitions": dict(sorted(definitions.nodes.items())),
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def v2_protobuf(kinds: Sequence[Kind]) -> bytes:
    """The same as protocol buffers."""
    return protobuf.encode(v2_document(kinds))


def encoded(document: Document) -> bytes:
    """The document as it is sent."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _place(group_version: str) -> str:
    return operations.root(group_version).lstrip("/")


def _address(group_version: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest().upper()
    return f"/openapi/v3/{_place(group_version)}?hash={digest}"


def _mark_kinds(kinds: Sequence[Kind], group_versions: Sequence[str], definitions: Definitions) -> None:
    for kind in kinds:
        for version in kind.versions:
            if kind.api_version(version) in group_versions:
                schema = kind.schemas[version]()
                group, _, plain = kind.api_version(version).rpartition("/")
                definitions.mark(schema, group, plain, kind.kind)
                definitions.mark(operations.list_of(schema), group, plain, kind.list_kind or f"{kind.kind}List")
    for group_version in group_versions:
        group, _, version = group_version.rpartition("/")
        for schema, name in operations.unstored(group_version):
            definitions.mark(schema, group, version, name)


def _path_parameters(path: str, spelled: Any) -> list[Node]:
    return [spelled(parameter) for part, parameter in _PATH_PARAMETERS.items() if part in path] + [
        spelled(operations.PRETTY)
    ]


def _common(operation: Operation) -> Node:
    mine = {"group": operation.group, "kind": operation.kind, "version": operation.version}
    return {
        "tags": [f"{operation.group.partition('.')[0] or 'core'}_{operation.version}"],
        "description": operation.description,
        "operationId": operation.id,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": mine,
    }


def _v3_operation(operation: Operation, definitions: Definitions) -> Node:
    answer = definitions.refer(operation.answer) if operation.answer else {"type": "string"}
    content = {kind: {"schema": answer} for kind in operation.answer_types}
    node = _common(operation)
    if operation.parameters:
        node["parameters"] = [_v3_parameter(parameter) for parameter in operation.parameters]
    if operation.body is not None:
        body = {"schema": definitions.refer(operation.body)}
        node["requestBody"] = {"content": dict.fromkeys(operation.body_types, body)}
        if operation.body_needed:
            node["requestBody"]["required"] = True
    node["responses"] = {
        **{str(code): {"description": _REASONS[code], "content": content} for code in operation.codes},
        "401": {"description": "Unauthorized"},
    }
    return node


def _v3_parameter(parameter: Parameter) -> Node:
    node = {"name": parameter.name, "in": parameter.place, "description": parameter.description}
    needed = {"required": True} if parameter.place == "path" else {}
    return node | needed | {"schema": {"type": parameter.type, "uniqueItems": True}}


def _v2_operation(operation: Operation, definitions: Definitions) -> Node:
    answer = definitions.refer(operation.answer) if operation.answer else {"type": "string"}
    node = _common(operation) | {"produces": list(operation.answer_types), "consumes": list(operation.body_types)}
    parameters = [_v2_parameter(parameter) for parameter in operation.parameters]
    if operation.body is not None:
        body = {"name": "body", "in": "body", "schema": definitions.refer(operation.body)}
        parameters.append(body | {"required": True} if operation.body_needed else body)
    if parameters:
        node["parameters"] = parameters
    node["responses"] = {
        **{str(code): {"description": _REASONS[code], "schema": answer} for code in operation.codes},
        "401": {"description": "Unauthorized"},
    }
    return node


def _v2_parameter(parameter: Parameter) -> Node:
    node = {"name": parameter.name, "in": parameter.place, "description": parameter.description, "type": parameter.type}
    return node | ({"required": True} if parameter.place == "path" else {}) | {"uniqueItems": True}
