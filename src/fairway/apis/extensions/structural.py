"""The schema of a CustomResourceDefinition: is it structural, and the same as `Schema` nodes.

`wrong_schema` says what an API server would refuse, in its words; `built` makes the tree that `walk` checks, prunes and
defaults by, and that server-side apply and OpenAPI read. A schema is only built where `wrong_schema` found nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.custom import definition_name
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.metering import TooMuchWork
from fairway.apis.machinery.schemas.patterns import BadPattern, matcher
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import forget, inspect
from fairway.errors import FieldError

Raw = dict[str, Any]

MOST_NODES: Final = 50_000
"""Nodes of all schemas of one definition: KubeRay's largest has 12,000."""

_DEEPEST: Final = 48
_MOST_PROBLEMS: Final = 100
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PUBLISHED_BY_KUBERNETES: Final = ("io.k8s.api.", "io.k8s.apimachinery.")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_FORMATS: Final = frozenset({"int32", "int64", "date-time", "byte", "double", "float"})
"""What `walk` knows about; other formats are value validations."""

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"
CEL: Final = "x-kubernetes-validations"

_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_ALTERNATIVES: Final = ("allOf", "anyOf", "oneOf")
_NOT_IN_ALTERNATIVES: Final = (
    "type", "additionalProperties", "default", "title", "description", "nullable",
    _PRESERVE, _EMBEDDED, _INT_OR_STRING, _LIST_KEYS, _LIST_TYPE, _MAP_TYPE, CEL,
)  # fmt: skip
_NUMBER: Final = (int, float)
_WORDS: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("type", "format", "pattern", "description", "title", _LIST_TYPE, _MAP_TYPE), str),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), int),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("required", "enum", _LIST_KEYS, CEL, *_ALTERNATIVES), list),
    **dict.fromkeys(("nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"), bool),
    **dict.fromkeys((_PRESERVE, _INT_OR_STRING, _EMBEDDED), bool),
    "properties": dict,
    "not": dict,
}
"""What each word of a schema holds: below the first level, the schema of definitions leaves this open."""

_VALUE_WORDS: Final = ("multipleOf", "not", *_ALTERNATIVES)
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_INT_OR_STRING_TYPES: Final = [{"type": "integer"}, {"type": "string"}]


def nodes(raw: Any) -> Iterator[Raw]:
    """Every part of a schema, with those inside alternatives."""
    waiting = [raw]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += _below(part)


def _below(part: Raw) -> list[Any]:
    found = [part.get("items"), part.get("additionalProperties"), part.get("not")]
    properties = part.get("properties")
    found += list(properties.values()) if isinstance(properties, dict) else []
    for word in _ALTERNATIVES:
        found += part[word] if isinstance(part.get(word), list) else []
    return found


def wrong_schema(raw: Any, path: str) -> list[FieldError]:
    """What is wrong with `openAPIV3Schema` at `path`."""
    if not isinstance(raw, dict):
        return [problems.required(path, "schemas are required")]
    found: list[FieldError] = []
    if raw.get("type") != "object":
        given = raw.get("type", "")
        rule = "must be object at the root" if given else "must not be empty at the root"
        found.append(
            problems.invalid(f"{path}.type", given, rule) if given else problems.required(f"{path}.type", rule)
        )
    if raw.get("nullable"):
        found.append(problems.forbidden(f"{path}.nullable", "true", "nullable cannot be true at the root"))
    if raw.get("additionalProperties"):
        found.append(problems.forbidden(f"{path}.additionalProperties", None, "must not be used at the root"))
    found += _Checker().check(raw, path, root=True)
    if not found and any("default" in part for part in nodes(raw)):
        found += _wrong_defaults(raw, path)
    return found[:_MOST_PROBLEMS]


class _Checker:
    """Walks a schema once; `errors` stop at a bound, depth is bounded before anything is built."""

    def __init__(self) -> None:
        self._errors: list[FieldError] = []

    def check(self, raw: Raw, path: str, *, root: bool = False) -> list[FieldError]:
        self._node(raw, path, 0, root=root, item=False)
        return self._errors

    def _add(self, error: FieldError) -> None:
        if len(self._errors) < _MOST_PROBLEMS:
            self._errors.append(error)

    def _node(self, raw: Any, path: str, depth: int, *, root: bool = False, item: bool = False) -> None:
        if not isinstance(raw, dict):
            self._add(problems.invalid(path, raw, "must be a schema"))
            return
        if depth > _DEEPEST:
            self._add(problems.invalid(path, "…", f"nested too deeply: this server takes {_DEEPEST} levels"))
            return
        if not self._has_shape(raw, path):
            return
        for word in _UNSUPPORTED:
            if raw.get(word):
                self._add(problems.forbidden(f"{path}.{word}", None, f"{word} is not supported"))
        if raw.get("uniqueItems"):
            rule = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            self._add(problems.forbidden(f"{path}.uniqueItems", "true", rule))
        self._type(raw, path, root=root, item=item)
        self._lists(raw, path)
        self._values(raw, path)
        self._alternatives(raw, path, depth)
        self._children(raw, path, depth, root=root)

    def _has_shape(self, raw: Raw, path: str) -> bool:
        for word, expected in _WORDS.items():
            value = raw.get(word)
            if value is None:
                continue
            strings = word in {"required", _LIST_KEYS} and not _is_strings(value)
            is_number = expected in {int, _NUMBER} and isinstance(value, bool)
            if not isinstance(value, expected) or strings or is_number:
                self._add(problems.invalid(f"{path}.{word}", value, "is not of the type that this word has"))
                return False
        return True

    def _type(self, raw: Raw, path: str, *, root: bool, item: bool) -> None:
        kind = raw.get("type", "")
        if kind and kind not in _TYPES:
            self._add(problems.not_supported(f"{path}.type", kind, _TYPES))
        elif raw.get(_INT_OR_STRING):
            if kind:
                self._add(problems.forbidden(f"{path}.type", kind, f"must be empty if {_INT_OR_STRING} is true"))
        elif raw.get(_EMBEDDED) and kind != "object":
            rule = f"must be object if {_EMBEDDED} is true"
            self._add(problems.invalid(f"{path}.type", kind, rule) if kind else problems.required(f"{path}.type", rule))
        elif not kind and not root and not raw.get(_PRESERVE):
            what = "array items" if item else "object fields"
            self._add(problems.required(f"{path}.type", f"must not be empty for specified {what}"))
        if kind == "array" and "items" not in raw:
            self._add(problems.required(f"{path}.items", "must be specified"))
        if raw.get(_EMBEDDED) and not raw.get("properties") and not raw.get(_PRESERVE):
            rule = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
            self._add(problems.required(f"{path}.properties", rule))
        if raw.get(_PRESERVE) is False:
            self._add(problems.invalid(f"{path}.{_PRESERVE}", "false", "must be true or undefined"))

    def _lists(self, raw: Raw, path: str) -> None:
        map_type, list_type, keys = raw.get(_MAP_TYPE), raw.get(_LIST_TYPE), raw.get(_LIST_KEYS) or []
        if map_type is not None and map_type not in {"atomic", "granular"}:
            self._add(problems.not_supported(f"{path}.{_MAP_TYPE}", map_type, ("atomic", "granular")))
        if list_type is not None and raw.get("type") != "array":
            rule = f"must be array if {_LIST_TYPE} is specified"
            self._add(problems.invalid(f"{path}.type", raw.get("type", ""), rule))
        if list_type is not None and list_type not in {"atomic", "set", "map"}:
            self._add(problems.not_supported(f"{path}.{_LIST_TYPE}", list_type, ("atomic", "set", "map")))
        if keys and list_type != "map":
            rule = f"must be map if {_LIST_KEYS} is non-empty"
            self._add(problems.invalid(f"{path}.{_LIST_TYPE}", list_type, rule))
        if list_type == "map":
            self._map_keys(raw, path, keys)

    def _map_keys(self, raw: Raw, path: str, keys: list[Any]) -> None:
        items = raw.get("items")
        if not keys:
            self._add(problems.required(f"{path}.{_LIST_KEYS}", f"must not be empty if {_LIST_TYPE} is map"))
        if not isinstance(items, dict) or items.get("type") != "object":
            rule = f"must be object if parent array's {_LIST_TYPE} is map"
            self._add(problems.invalid(f"{path}.items.type", "", rule))
            return
        properties = items.get("properties") or {}
        for key in keys:
            part = properties.get(key) if isinstance(properties, dict) else None
            if not isinstance(part, dict):
                rule = "entries must all be names of item properties"
                self._add(problems.invalid(f"{path}.{_LIST_KEYS}", keys, rule))
            elif part.get("type") in {"object", "array"}:
                rule = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
                self._add(problems.invalid(f"{path}.items.properties[{key}].type", part["type"], rule))
            elif key not in (items.get("required") or []) and "default" not in part:
                rule = f"this property is in {_LIST_KEYS}, so it must have a default or be a required property"
                self._add(problems.required(f"{path}.items.properties[{key}].default", rule))

    def _values(self, raw: Raw, path: str) -> None:
        pattern = raw.get("pattern")
        if pattern:
            try:
                matcher(str(pattern))
            except BadPattern as error:
                rule = f"must be a valid regular expression, but isn't: {error}"
                self._add(problems.invalid(f"{path}.pattern", pattern, rule))

    def _alternatives(self, raw: Raw, path: str, depth: int) -> None:
        for word in _ALTERNATIVES:
            for at, part in enumerate(raw.get(word) or ()):
                self._alternative(part, f"{path}.{word}[{at}]", depth + 1, raw)
        if raw.get("not") is not None:
            self._alternative(raw["not"], f"{path}.not", depth + 1, raw)

    def _alternative(self, raw: Any, path: str, depth: int, parent: Raw) -> None:
        """Inside alternatives only value validations may stand; what they talk about is specified outside."""
        if not isinstance(raw, dict) or depth > _DEEPEST:
            self._add(problems.invalid(path, "…", "must be a schema, and not nested too deeply"))
            return
        if not self._has_shape(raw, path):
            return
        for word in _NOT_IN_ALTERNATIVES:
            if raw.get(word) and not (word == "type" and parent.get(_INT_OR_STRING)):
                self._add(problems.forbidden(f"{path}.{word}", None, "must be undefined to be structural"))
        self._values(raw, path)
        self._alternatives(raw, path, depth)
        for name, part in (raw.get("properties") or {}).items():
            self._alternative(part, f"{path}.properties[{name}]", depth + 1, raw)
        if isinstance(raw.get("items"), dict):
            self._alternative(raw["items"], f"{path}.items", depth + 1, raw)

    def _children(self, raw: Raw, path: str, depth: int, *, root: bool) -> None:
        properties, values, items = raw.get("properties"), raw.get("additionalProperties"), raw.get("items")
        if properties and values:
            rule = "additionalProperties and properties are mutual exclusive"
            self._add(problems.forbidden(f"{path}.additionalProperties", None, rule))
        if values is False:
            self._add(problems.forbidden(f"{path}.additionalProperties", "false", "must not be set to false"))
        for name, part in (properties if isinstance(properties, dict) else {}).items():
            if name == "metadata" and (root or raw.get(_EMBEDDED)):
                self._metadata(part, f"{path}.properties[metadata]")
            else:
                self._node(part, f"{path}.properties[{name}]", depth + 1)
        if isinstance(values, dict):
            self._node(values, f"{path}.additionalProperties", depth + 1)
        if isinstance(items, list):
            self._add(problems.forbidden(f"{path}.items", None, "items must be a schema object and not an array"))
        elif items is not None:
            self._node(items, f"{path}.items", depth + 1, item=True)

    def _metadata(self, raw: Any, path: str) -> None:
        if not isinstance(raw, dict) or raw.get("type") != "object":
            given = raw.get("type", "") if isinstance(raw, dict) else raw
            self._add(problems.invalid(f"{path}.type", given, "must be object"))
        elif set(raw.get("properties") or {}) - {"name", "generateName"}:
            rule = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            self._add(problems.forbidden(path, None, rule))
        else:
            for name, part in (raw.get("properties") or {}).items():
                self._node(part, f"{path}.properties[{name}]", 1)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _wrong_defaults(raw: Raw, path: str) -> list[FieldError]:
    """Defaults that do not fit their own schema."""
    found: list[FieldError] = []
    waiting = [(raw, path)]
    while waiting and len(found) < _MOST_PROBLEMS:
        part, at = waiting.pop()
        if part.get("default") is not None:
            found += _wrong_default(part, f"{at}.default")
        waiting += [
            (one, f"{at}.properties[{name}]")
            for name, one in (part.get("properties") or {}).items()
            if isinstance(one, dict)
        ]
        for word in ("items", "additionalProperties"):
            if isinstance(part.get(word), dict):
                waiting.append((part[word], f"{at}.{word}"))
    return found


def _wrong_default(raw: Raw, path: str) -> list[FieldError]:
    schema = _built({**raw, "default": None})
    # A holder gives scalars a place to be corrected in, as a field of an object has it.
    holder = Schema(type="object", properties={"default": schema})
    try:
        findings = inspect(holder, {"default": copied(raw["default"])})
    except TooMuchWork:
        return [problems.invalid(path, "…", "takes too long to validate")]
    finally:
        forget(holder)
    prefix = path.removesuffix("default")
    unknown = [
        problems.invalid(f"{prefix}{one}", None, "must be pruned: the schema does not know it")
        for one in findings.unknown
    ]
    return [FieldError(f"{prefix}{one.path}", one.value, one.rule, one.message) for one in findings.errors] + unknown


def built(raw: Raw, group: str, version: str, kind: str) -> Schema:
    """The schema of a kind, with the metadata that every object has."""
    schema = _built(raw)
    name = definition_name(group, version, kind)
    schema.name = f"crd.{name}" if name.startswith(_PUBLISHED_BY_KUBERNETES) else name
    restricted = (schema.properties.get("metadata"), raw.get("properties", {}).get("metadata"))[1]
    text = Schema(type="string")
    own = {name: part for name, part in schema.properties.items() if name not in {"apiVersion", "kind", "metadata"}}
    schema.properties = {"apiVersion": text, "kind": text, "metadata": definition(_META), **own}
    schema.required = tuple(name for name in schema.required if name not in {"apiVersion", "kind", "metadata"})
    names = (restricted or {}).get("properties")
    if names:
        schema.also = {**schema.also, "properties": {"metadata": {"properties": names}}}
    return schema


def _built(raw: Raw) -> Schema:
    schema = Schema(
        type=raw.get("type", ""),
        description=raw.get("description", ""),
        default=raw.get("default"),
        nullable=bool(raw.get("nullable")),
        open=bool(raw.get(_PRESERVE)),
        required=tuple(raw.get("required") or ()),
        list_type=raw.get(_LIST_TYPE) or "atomic",
        list_keys=tuple(raw.get(_LIST_KEYS) or ()),
        atomic=raw.get(_MAP_TYPE) == "atomic",
    )
    if raw.get(_INT_OR_STRING):
        schema.format, schema.type = "int-or-string", ""
    elif raw.get("format") in _FORMATS:
        schema.format = raw["format"]
    schema.properties = {name: _built(part) for name, part in (raw.get("properties") or {}).items()}
    if raw.get(_EMBEDDED):
        text = Schema(type="string", limits={"minLength": 1})
        meta = definition(_META)
        schema.properties = {**schema.properties, "apiVersion": text, "kind": text, "metadata": meta}
        schema.required = tuple(dict.fromkeys((*schema.required, "apiVersion", "kind")))
    values, items = raw.get("additionalProperties"), raw.get("items")
    if values is True:
        schema.values = Schema(open=True)
    elif isinstance(values, dict):
        schema.values = _built(values)
    if isinstance(items, dict):
        schema.items = _built(items)
    _add_values(schema, raw)
    return schema


def _add_values(schema: Schema, raw: Raw) -> None:
    """Value validations: to `limits` what `walk` checks for this type, the rest to `also`."""
    also = {word: raw[word] for word in _VALUE_WORDS if raw.get(word)}
    if raw.get("format") and not schema.format:
        also["format"] = raw["format"]
    if raw.get("pattern"):
        also["pattern"] = raw["pattern"]
    if schema.format == "int-or-string":  # what its type is, the form says already
        also = {word: part for word, part in also.items() if word != "anyOf" or part != _INT_OR_STRING_TYPES}
    given = {word: value for word, value in raw.items() if value is not None and value is not False}
    limits: Raw = {word: given[word] for word in ("minLength", "maxLength", "minItems", "maxItems") if word in given}
    sizes: Raw = {word: given[word] for word in ("minProperties", "maxProperties") if word in given}
    bounds: Raw = {word: given[word] for word in _BOUNDS if word in given}
    schema.limits = limits if schema.format != "int-or-string" else {}
    if schema.properties or schema.values is None:
        also |= sizes
    else:
        schema.limits |= sizes
    plain = "multipleOf" not in raw and not any("exclusive" in one for one in bounds)
    if schema.type in {"integer", "number"} and plain:
        schema.limits |= bounds
    else:
        also |= bounds
    choices = raw.get("enum")
    if choices and schema.type == "string" and not schema.limits and all(isinstance(one, str) for one in choices):
        schema.enum = tuple(choices)
    elif choices:
        also["enum"] = choices
    schema.also = also
