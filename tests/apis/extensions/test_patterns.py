"""Patterns of schemas: RE2's syntax, and never more than linear time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.schemas.metering import METER, MOST_STEPS, TooMuchWork
from fairway.apis.machinery.schemas.patterns import BadPattern, matcher

PATTERNS = [
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z",
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?\Z",
    r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+\Z",
    r"^\d{2,4}-\w+\s?\Z",
    r"ab|cd\Z",
    r"[^a-c]x",
    r"\bfoo\b",
    r"^.{1,3}\Z",
    r"a{2}b*?c",
    r"",
    r"(?i:foo)|bar",
    r"[\w.-]+@[\w]+",
    r"[]a]",
]


@pytest.fixture(autouse=True)
def _full_meter() -> None:
    METER.left = MOST_STEPS


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=25)
@given(texts=st.lists(st.text(alphabet="abcdfoxyz019.-+eEMKi@ s\n_A]", max_size=12), max_size=20))
def test_a_pattern_matches_what_pythons_own_matches(pattern: str, texts: list[str]) -> None:
    METER.left = 10**9
    expected, found = re.compile(pattern, re.ASCII), matcher(pattern.replace(r"\Z", r"\z"))
    assert [found(text) for text in texts] == [expected.search(text) is not None for text in texts]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "missing closing"),
        ("a**", "nested repetition"),
        ("(?=a)", "unsupported Perl syntax"),
        (r"(a)\1", "invalid escape"),
        ("[z-a]", "character class range"),
        ("a{1001}", "repeat count"),
        ("*", "missing argument"),
        ("(a{1000}){1000}", "too large"),
        ("(" * 500 + ")" * 500, "nests deeper"),
    ],
)
def test_what_go_refuses_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(BadPattern, match=said):
        matcher(pattern)


def test_go_ends_a_line_only_at_the_very_end() -> None:
    assert not matcher("^a$")("a\n")
    assert matcher("(?m)^a$")("b\na\n")


def test_a_pattern_that_stops_backtracking_engines_takes_no_time() -> None:
    assert not matcher("^(a+)+$")("a" * 20_000 + "b")


def test_a_pattern_with_too_many_states_is_given_up() -> None:
    text = "".join("ab"[number * number % 7 % 2] for number in range(50_000))
    with pytest.raises(TooMuchWork):
        matcher("^(a|b)*a(a|b){200}$")(text * 4)
