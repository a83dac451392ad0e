"""Bodies to values: JSON, and YAML as an API server reads it (the tables were asked of kube-apiserver 1.36)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery import documents
from fairway.apis.machinery.documents import DEEPEST, from_json, from_yaml
from fairway.errors import BadRequest

WORDS: dict[str, Any] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **{
        word: word
        for word in ["tRue", "nUll", "=", "<<", ".", "+", "-x", "0x", "1e", "_1", "1,000", "0o", "0b2", "1e400"]
    },
    **{time: time for time in ["2020-01-01", "2001-12-14t21:59:43.10-05:00", "12:30:45", "1:30", "190:20:30.15"]},
    "'yes'": "yes",
    '"5"': "5",
    '"\\U0001F600"': "\U0001f600",
    '"\\xff"': "ÿ",
    "010": 8,
    "-010": -8,
    "0777": 511,
    "0o10": 8,
    "0O10": 8,
    "0x1F": 31,
    "-0x1F": -31,
    "0X1F": 31,
    "0b11": 3,
    "-0b11": -3,
    "1_000": 1000,
    "0_7": 7,
    "0x_1": 1,
    "08": 8,
    "09": 9,
    "+5": 5,
    "-0": 0,
    "5.": 5,
    "1.0": 1,
    "1e3": 1000,
    "1E3": 1000,
    "1e+3": 1000,
    "0.1e5": 10000,
    ".5": 0.5,
    "+.5": 0.5,
    "-.5": -0.5,
    "1.5": 1.5,
    "9223372036854775807": 2**63 - 1,
    "18446744073709551615": 2**64 - 1,
    "99999999999999999999": 10**20,
    "1e30": 1e30,
    "!!str 5": "5",
    '!!int "5"': 5,
    "!!float 5": 5,
    '!!bool "yes"': True,
    '!!null ""': None,
    "!!timestamp 2020-01-01": "2020-01-01",
    "!!binary aGk=": "hi",
    "!foo 5": "5",
    "! 5": "5",
    "!!python/name:os.system x": "x",
    "!!set {a: 1}": {"a": 1},
    "!!python/object:os.system {a: 1}": {"a": 1},
}


@pytest.mark.parametrize(("text", "want"), WORDS.items(), ids=[repr(text) for text in WORDS])
def test_what_a_word_of_yaml_stands_for(text: str, want: Any) -> None:
    found = from_yaml(f"a: {text}\n".encode())["a"]

    assert found == want
    assert type(found) is type(want)


KEYS = {
    "true: 1": "true",
    "yes: 1": "true",
    "off: 1": "false",
    "8080: 1": "8080",
    "010: 1": "8",
    "1.5: 1": "1.5",
    "2020-01-01: 1": "2020-01-01",
    "!!binary aGk=: 1": "hi",
    "'<<': 1": "<<",
    "? a\n: 1": "a",
}


@pytest.mark.parametrize(("text", "want"), KEYS.items(), ids=KEYS)
def test_keys_are_strings_as_in_json(text: str, want: str) -> None:
    assert from_yaml(text.encode()) == {want: 1}


WHOLE: dict[str, tuple[str, Any]] = {
    "nothing": ("", None),
    "documents without anything": ("---\n---\n", None),
    "a comment": ("# a\n", None),
    "one document among empty ones": ("---\n---\na: 1\n---\n", {"a": 1}),
    "a byte order mark": ("\ufeffa: 1", {"a": 1}),
    "JSON": ('{"a": [1, 2.5, null, true, "x"]}', {"a": [1, 2.5, None, True, "x"]}),
    "the last of two equal keys counts": ("a: 1\na: 2", {"a": 2}),
    "an alias": ("a: &x {b: [1]}\nc: *x", {"a": {"b": [1]}, "c": {"b": [1]}}),
    "an alias of a word": ("a: &x yes\nc: *x", {"a": True, "c": True}),
    "an alias of a key": ("&x a: *x", {"a": "a"}),
    "an alias as a key": ("a: &x b\n*x : c", {"a": "b", "b": "c"}),
    "the newest anchor of a name": ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
    "merged, and what is written wins": ("a: {b: 3, <<: {b: 1, c: 2}}", {"a": {"b": 3, "c": 2}}),
    "merged from several, the first wins": ("a: {<<: [{b: 1}, {b: 2, c: 3}]}", {"a": {"b": 1, "c": 3}}),
    "a text of several lines": ("a: |\n  b\n  c\n", {"a": "b\nc\n"}),
    "a folded text": ("a: >-\n  b\n  c\n", {"a": "b c"}),
    "a harmless directive": ("%YAML 1.1\n---\na: 1\n", {"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), WHOLE.values(), ids=WHOLE)
def test_documents(text: str, want: Any) -> None:
    assert from_yaml(text.encode()) == want


def test_no_two_places_are_one_object() -> None:
    """A manifest is completed in place: labels shared by an alias must not change together."""
    value = from_yaml(b"a: &x {l: {k: v}}\nb: *x\nc: {<<: *x}\nd: [*x, *x]")
    value["a"]["l"]["k"] = "changed"

    assert value["b"] == value["c"] == value["d"][0] == {"l": {"k": "v"}}
    value["d"][0]["l"]["k"] = "changed"
    assert value["d"][1] == value["b"] == value["c"] == {"l": {"k": "v"}}


def bomb(levels: int = 30) -> str:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


def merge_bomb(levels: int = 30) -> str:
    lines = ["a0: &a0 {k: [x]}"]
    for level in range(1, levels):
        inner = ", ".join(f"k{number}: *a{level - 1}" for number in range(10))
        lines.append(f"a{level}: &a{level} {{<<: *a{level - 1}, {inner}}}")
    return "\n".join(lines)


REFUSED = {
    "a bomb of aliases": (bomb(), "values once its aliases are written out"),
    "a bomb of merged maps": (merge_bomb(), "values once its aliases are written out"),
    "a tower of aliases": (
        f"a: &a {'[' * 150}{']' * 150}\nb: {'[' * (DEEPEST - 149)}*a{']' * (DEEPEST - 149)}",
        "nested deeper",
    ),
    "an alias of itself": ("a: &x [*x]", "or for itself"),
    "a merge with itself": ("a: &x {<<: *x}", "or for itself"),
    "an alias of nothing": ("a: *x", "stands for nothing"),
    "an alias of another document": ("a: &x 1\n---\n*x", "stands for nothing"),
    "brackets without end": ("[" * 1_000_000, "nested deeper"),
    "braces without end": ("{a: " * 500_000, "nested deeper"),
    "dashes without end": ("- " * 1_000_000, "nested deeper"),
    "directives, which take the parser for ever": ("".join(f"%TAG !a{n}! b\n" for n in range(50_000)), "begin with %"),
    "a key that is null": ("~: 1", "only strings"),
    "a key that is a list": ("[1]: 2", "only strings"),
    "a key that is a map": ("? {a: 1}\n: 2", "only strings"),
    "a key that is an alias of a list": ("a: &x [1]\n*x : 2", "only strings"),
    "not a number": ("a: .nan", "not a number that JSON knows"),
    "infinity": ("a: -.INF", "not a number that JSON knows"),
    "a tag that does not fit": ('a: !!int "x"', "tagged as !!int"),
    "a boolean that is none": ('a: !!bool "x"', "tagged as !!bool"),
    "null that is something": ("a: !!null x", "tagged as !!null"),
    "base64 that is none": ("a: !!binary a", "!!binary"),
    "binary that is no text": ("a: !!binary //8=", "!!binary"),
    "merged with a word": ("a: {<<: b}", "must be a map"),
    "merged with words": ("a: {<<: [b]}", "must be a map"),
    "several documents": ("a: 1\n---\nb: 2", "one object at a time"),
    "half a surrogate": ('a: "\\ud800"', "not valid YAML"),
    "a control character": ("a: \x00", "not valid YAML"),
    "a tab as indentation": ("a:\n\tb: 1", "not valid YAML"),
    "an open quote": ('a: "b', "not valid YAML"),
    "a YAML of the future": ("%YAML 9.9\n---\na: 1", "not valid YAML"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_yaml_that_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        from_yaml(text.encode())


@pytest.mark.parametrize("text", ["- a\n", "---\n", "a: b\n"], ids=["values", "documents", "keys"])
def test_too_much_yaml_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_VALUES", 1000)

    with pytest.raises(BadRequest, match="more than 1000 values"):
        from_yaml((text * 1001).encode())


@pytest.mark.parametrize(
    "data", [b"\xff\xfea\x00", b"\xfe\xff\x00a", b"a: \xff"], ids=["UTF-16", "UTF-16 turned", "Latin-1"]
)
def test_yaml_is_utf_8(data: bytes) -> None:
    with pytest.raises(BadRequest, match="UTF-8"):
        from_yaml(data)


REFUSED_JSON = {
    "nothing": b"",
    "cut short": b'{"a": [1',
    "more than one value": b"{} {}",
    "not a number": b"NaN",
    "infinity": b"[Infinity]",
    "a number beyond all": b"1e999",
    "digits without end": b"9" * 100_000,
    "a comma too many": b"[1,]",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a wrong byte": b'{"a": "\xff"}',
    "half a surrogate": b'"\\ud800"',
    "brackets without end": b"[" * 1_000_000,
    "braces without end": b'{"a":' * 500_000,
    "just too deep": b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
    "single quotes": b"{'a': 1}",
    "a control character": b'"\x00"',
}


@pytest.mark.parametrize("data", REFUSED_JSON.values(), ids=REFUSED_JSON)
def test_json_that_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        from_json(data)


def test_as_deep_as_it_may_be() -> None:
    deep = b"[" * DEEPEST + b"]" * DEEPEST

    assert from_json(deep) == from_yaml(deep)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer()),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\ufeff\ufffe\uffff")),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcyn01.~<", max_size=4), inner, max_size=4),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(VALUES)
def test_what_json_can_say_comes_back(value: Any) -> None:
    assert from_json(json.dumps(value).encode()) == value
    assert from_yaml(json.dumps(value, ensure_ascii=False).encode()) == value


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.one_of(st.binary(max_size=60), st.text("ab:-[]{}*&!|>'\"%#,?\n <~01.", max_size=40).map(str.encode)))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    for read in (from_json, from_yaml):
        try:
            value = read(data)
        except BadRequest:
            continue
        assert json.loads(json.dumps(value, allow_nan=False)) == value
