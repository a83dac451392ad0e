"""What clients could send: any value, manifests with something wrong in them, odd names, queries and headers."""

import copy
import json
from typing import Any, Final
from urllib.parse import quote

from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.schema import Schema

LONG: Final = "x" * 5000

NUMBERS: Final = st.sampled_from(
    [0, 1, -1, 2, 5, 255, 65536, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 0.5, -0.0, 1.0,
     1e300]
)  # fmt: skip
WORDS: Final = st.sampled_from(
    ["", " ", "a", "A", "a-b", "a.b", "a/b", "-", ".", "..", "/", "null", "true", "0", "-1", "1e9", "100m", "1Gi",
     "9E", "1e999", "2026-01-02T03:04:05Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "0000-00-00T00:00:00Z",
     "ä", "\u202e", "\U0001f600", "\x00", "\n", "\x7f", "\ufffe", "$patch", "$retainKeys", "k:{}", "f:spec", "*", "%",
     "%s", "{}", "[]", "'", '"', "\\", LONG, "Always", "Never", "In", "Exists", "Equal", "NoSchedule",
     "kubernetes.io/hostname", "example.com/a", "default", "main", "Foreground", "foregroundDeletion", "orphan",
     "kueue.x-k8s.io/resource-in-use", "a" * 63, "a" * 64, "a" * 253]
)  # fmt: skip
SCALARS: Final = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS, st.text(max_size=5))
KEYS: Final = st.one_of(
    WORDS, st.sampled_from(["name", "key", "type", "metadata", "spec", "kind", "$setElementOrder/a"])
)
JUNK: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)

_STRINGS: Final = {
    "date-time": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+02:00", "9999-12-31T23:59:59Z"]),
    "micro-time": st.sampled_from(["2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:05Z"]),
    "byte": st.sampled_from(["", "AAEC", "c2VjcmV0"]),
    "quantity": st.sampled_from(["0", "1", "500m", "64Mi", "-1", "1e3", "9E", "0.0000001", 3]),
    "int-or-string": st.sampled_from([0, 1, 80, "http", "50%", "100%", "-1"]),
}
_PLAIN: Final = st.sampled_from(
    ["", "a", "main", "b", "default", "example.com/a", "a/b", "Ready", "True", "10.0.0.1", "1"]
)
_INTEGERS: Final = st.sampled_from([0, 1, 2, 3, 10, -1, 2**31 - 1])


@st.composite
def grown(draw: st.DrawFn, schema: Schema, depth: int = 0) -> Any:
    """A value that fits a schema, or nearly."""
    if draw(st.integers(0, 24)) == 0:
        return draw(JUNK)
    if schema.enum:
        return draw(st.sampled_from(schema.enum))
    if schema.format in _STRINGS:
        return draw(_STRINGS[schema.format])
    if schema.type == "object":
        return _grown_object(draw, schema, depth)
    if schema.type == "array":
        inner = schema.items or Schema()
        return [draw(grown(inner, depth + 1)) for _ in range(draw(st.integers(0, 2)) if depth < 6 else 0)]
    simple = {"string": _PLAIN, "integer": _INTEGERS, "number": _INTEGERS, "boolean": st.booleans()}
    return draw(simple.get(schema.type, JUNK))


def _grown_object(draw: st.DrawFn, schema: Schema, depth: int) -> Manifest:
    names = list(schema.required)
    if schema.properties and depth < 6:
        names += draw(st.lists(st.sampled_from(sorted(schema.properties)), max_size=3))
    made = {name: draw(grown(schema.properties[name], depth + 1)) for name in names if name in schema.properties}
    if schema.values is not None and depth < 6:
        for key in draw(st.lists(_PLAIN, max_size=2)):
            made[key] = draw(grown(schema.values, depth + 1))
    return made


class Place:
    """One value inside a manifest, with what its schema says of it."""

    def __init__(self, holder: Any, key: Any, schema: Schema | None) -> None:
        self.holder = holder
        self.key = key
        self.schema = schema


def places(value: Any, schema: Schema | None = None) -> list[Place]:
    """Every value in a manifest but the manifest itself."""
    found: list[Place] = []
    waiting: list[tuple[Any, Schema | None]] = [(value, schema)]
    while waiting:
        one, known = waiting.pop()
        if isinstance(one, dict):
            for key, part in one.items():
                inner = (known.properties.get(key) or known.values) if known else None
                found.append(Place(one, key, inner))
                waiting.append((part, inner))
        elif isinstance(one, list):
            inner = known.items if known else None
            for position, part in enumerate(one):
                found.append(Place(one, position, inner))
                waiting.append((part, inner))
    return found


@st.composite
def spoilt(draw: st.DrawFn, manifest: Manifest, schema: Schema, *, most: int = 3) -> Manifest:
    """A manifest with a few places replaced, removed, doubled or filled with what the schema allows there."""
    changed = copy.deepcopy(manifest)
    for _ in range(draw(st.integers(1, most))):
        found = places(changed, schema)
        if not found:
            return changed
        place = found[draw(st.integers(0, len(found) - 1))]
        kind = draw(st.sampled_from(["replace", "remove", "double", "grow", "regrow", "regrow", "grow"]))
        holder, key, part = place.holder, place.key, place.schema
        value = holder[key]
        if kind == "remove":
            del holder[key]
        elif kind == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(value))
        elif kind == "grow" and part is not None and isinstance(value, dict) and part.properties:
            name = draw(st.sampled_from(sorted(part.properties)))
            value[name] = draw(grown(part.properties[name], 2))
        elif kind == "grow" and part is not None and isinstance(value, list) and part.items is not None:
            value.append(draw(grown(part.items, 2)))
        elif kind == "regrow" and part is not None:
            holder[key] = draw(grown(part, 2))
        else:
            holder[key] = draw(JUNK)
    return changed


# Paths, queries and headers

NAMES: Final = st.one_of(
    st.sampled_from(
        ["x", "base", "", ".", "..", "%2e%2e", "%2E", "%00", "%2F", "a%2Fb", "%ff", "%C3%A4", "%", "%zz", "a%20b", "A",
         "a_b", ":", "a,b", "a=b", "*", "$", "~", ";", "@", "a" * 254, "%F0%9F%98%80", "status", "log", "namespaces",
         "-", "%0a", "%u1234", "{x}", "[x]", "|", "^", "\\", '"', "<x>", "é".encode().decode("latin-1")]
    ),
    st.text(max_size=8).map(lambda text: quote(text, safe="")),
)  # fmt: skip
VALUES: Final = st.one_of(
    st.sampled_from(
        ["", "0", "1", "-1", "--5", "+1", " 1", "1 ", "1.5", "1e3", "0x10", "abc", "true", "false", "True", "maybe",
         "null", "None", "All", "Exact", "NotOlderThan", "Foreground", "Background", "Orphan", "Strict", "Warn",
         "Ignore", "Object", "Metadata", "9" * 18, "9" * 19, "9" * 40, "99999999", "%ff", "%00", "%", "%zz", "a=b",
         "a!=b", "a in (b,c)", "a notin (", "!a", "a,,b", ",", "=", "==", "a==", "a in ()", "metadata.name=x",
         "metadata.name=x,metadata.name!=x", "spec.nope=1", "a\\,b=c", "status.phase=Running", "x" * 9000,
         "2026-01-02T03:04:05Z", "tail", "eyJyZXZpc2lvbiI6MX0", "e30", "bm9wZQ", "ä", "()", "a in"]
    ).map(lambda value: quote(value, safe="%")),
    st.text(max_size=12).map(quote),
)  # fmt: skip
PARAMETERS: Final = st.sampled_from(
    ["limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "labelSelector",
     "fieldSelector", "dryRun", "fieldManager", "fieldValidation", "force", "propagationPolicy", "orphanDependents",
     "gracePeriodSeconds", "watch", "allowWatchBookmarks", "sendInitialEvents", "includeObject", "pretty", "tailLines",
     "limitBytes", "sinceSeconds", "sinceTime", "previous", "follow", "timestamps", "container", "stream", "offset",
     "hash", "timeout", "", "nope"]
)  # fmt: skip
QUERIES: Final = st.lists(st.tuples(PARAMETERS, VALUES), max_size=4).map(
    lambda pairs: "&".join(f"{name}={value}" for name, value in pairs)
)
CONTENT_TYPES: Final = st.sampled_from(
    ["application/json", "application/json", "application/yaml", "application/json-patch+json",
     "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml",
     "application/apply-patch+cbor", "", "text/plain", "application/vnd.kubernetes.protobuf", "application/cbor",
     "application/json; charset=utf-8", "APPLICATION/JSON", ";", "a" * 500, "multipart/form-data; boundary=x",
     "application/x-www-form-urlencoded", "\xff\xfe", "application/json;;;=", "*/*"]
)  # fmt: skip
ACCEPTS: Final = st.sampled_from(
    ["application/json", "*/*", "", "application/yaml", "text/html", "application/vnd.kubernetes.protobuf",
     "application/cbor", "application/json;as=Table;v=v1;g=meta.k8s.io",
     "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=Table;v=v9;g=meta.k8s.io",
     "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
     "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
     "application/yaml;as=Table;v=v1;g=meta.k8s.io",
     "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/json;stream=watch", ";,;,=",
     "a" * 2000, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/json;q=0", "\xff",
     "application/*", ",", "json"]
)  # fmt: skip
METHODS: Final = st.sampled_from(
    ["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "FOO"]
)
BODIES: Final = st.one_of(
    st.just(b""),
    st.binary(max_size=30),
    st.sampled_from(
        [b"{", b"[", b"null", b"0", b'""', b"{}", b"[]", b'{"a":', b'{"a":1,}', b"\xff\xfe", b"\x00", b"NaN", b"1e999",
         b'"\\ud800"', b'{"metadata":null}', b'{"metadata":[]}', b'{"metadata":{"name":1}}',
         b'{"kind":1,"apiVersion":2}', b"a: b\nc", b"a: *b", b"&a [*a]", b"a: !!python/object:os.system x",
         b"- a\nb: c", b"---\n---\na: b", b"\xef\xbb\xbf{}", b"k8s\x00", b"k8s\x00\x0a\xff", b"%TAG", b"? ", b": ",
         b"\t", b"{{{", b"[" * 1000, b'{"a":' * 1000, b"9" * 5000, b'{"spec":{"template":{"spec":null}}}']
    ),
    JUNK.map(lambda value: json.dumps(value).encode()),
)  # fmt: skip
