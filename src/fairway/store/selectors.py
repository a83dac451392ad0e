"""Label and field selectors as they are written in a query: parsed once, asked for every object.

Label selectors know `=`, `==`, `!=`, `in`, `notin`, a bare key and `!key`; field selectors `=`, `==` and `!=`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, matches_expression
from fairway.errors import BadRequest
from fairway.store.entries import Entry

LabelTest = Callable[[Mapping[str, str]], bool]

_MAX_LENGTH: Final = 16_384
_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_TERM: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<key0>{_KEY})"
    rf"|(?P<key1>{_KEY})\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key2>{_KEY})\s*(?P<op>==|=|!=)\s*(?P<value>{_VALUE})?"
    rf"|(?P<key3>{_KEY}))\s*"
)
_VALUE_ONLY: Final = re.compile(rf"(?:{_VALUE})?")


def label_test(selector: str) -> LabelTest | None:
    """Whether labels match; `None` where everything does."""
    if not selector.strip():
        return None
    if len(selector) > _MAX_LENGTH:
        raise BadRequest(f"the label selector is longer than {_MAX_LENGTH} characters")
    terms = []
    position = 0
    while True:
        term = _TERM.match(selector, position)
        if term is None:
            raise _unparsable(selector, position)
        terms.append(_label_term(selector, term))
        position = term.end()
        if position == len(selector):
            break
        if selector[position] != ",":
            raise _unparsable(selector, position)
        position += 1
    return lambda labels: all(matches_expression(*term, labels) for term in terms)


def _unparsable(selector: str, position: int) -> BadRequest:
    return BadRequest(
        f"unable to parse requirement in label selector {selector!r} at position {position}: "
        "write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, joined by commas"
    )


def _label_term(selector: str, term: re.Match[str]) -> tuple[str, str, frozenset[str]]:
    """One requirement: the key, the operator and the values."""
    if term["set"]:
        values = frozenset(value.strip() for value in term["values"].split(","))
        if not all(_VALUE_ONLY.fullmatch(value) for value in values):
            raise _unparsable(selector, term.start("values"))
        return term["key1"], IN if term["set"] == "in" else NOT_IN, values
    if term["op"]:
        return term["key2"], NOT_IN if term["op"] == "!=" else IN, frozenset((term["value"] or "",))
    return (term["key0"], DOES_NOT_EXIST, frozenset()) if term["absent"] else (term["key3"], EXISTS, frozenset())


class FieldTerm(NamedTuple):
    """One demand on one field."""

    path: str
    value: str
    equal: bool


def field_terms(selector: str) -> tuple[FieldTerm, ...]:
    """The demands of a field selector; a backslash takes `,`, `=` and itself literally."""
    if len(selector) > _MAX_LENGTH:
        raise BadRequest(f"the field selector is longer than {_MAX_LENGTH} characters")
    terms = []
    for part in re.split(r"(?<!\\),", selector):
        if not part.strip():
            continue
        match = re.match(r"\s*([A-Za-z0-9_.\-/\[\]']+)\s*(==|=|!=)(.*)$", part, re.DOTALL)
        if match is None:
            raise BadRequest(
                f"invalid field selector {selector!r}; can't understand {part!r}: write path=value or path!=value"
            )
        value = re.sub(r"\\([\\,=])", r"\1", match[3].strip())
        terms.append(FieldTerm(match[1], value, match[2] != "!="))
    return tuple(terms)


class Selection:
    """Selects objects of a kind by namespace, labels and fields."""

    def __init__(self, kind: Kind, namespace: str = "", labels: str = "", fields: str = "") -> None:
        self.kind = kind
        self.namespace = namespace
        self._labels = label_test(labels)
        self._fields = field_terms(fields)
        for term in self._fields:
            if term.path not in {"metadata.name", "metadata.namespace"} and term.path not in kind.selectable:
                known = ", ".join(["metadata.name", "metadata.namespace", *sorted(kind.selectable)])
                raise BadRequest(f"field label not supported: {term.path} (for {kind.resource} there are {known})")

    @property
    def filters(self) -> bool:
        """Whether anything but the namespace decides."""
        return self._labels is not None or bool(self._fields)

    @property
    def name(self) -> str:
        """The one name that is asked for, if it is so; else empty."""
        names = [term.value for term in self._fields if term.path == "metadata.name" and term.equal]
        return names[0] if names else ""

    def matches(self, entry: Entry) -> bool:
        """Whether an object matches, its namespace included."""
        if self.namespace and entry.key[0] != self.namespace:
            return False
        if self._labels is not None and not self._labels(entry.meta.labels or {}):
            return False
        return all((self._field(entry, term.path) == term.value) == term.equal for term in self._fields)

    def _field(self, entry: Entry, path: str) -> str:
        if path == "metadata.name":
            return entry.key[1]
        if path == "metadata.namespace":
            return entry.key[0]
        if entry.fields is None:
            manifest: dict[str, Any] = msgspec.json.decode(entry.data)
            entry.fields = {one: read(manifest) for one, read in self.kind.selectable.items()}
        return entry.fields[path]
