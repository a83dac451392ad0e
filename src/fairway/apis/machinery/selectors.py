"""Label selectors, and the expressions of node affinity: which sets of labels match."""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from fairway.apis.machinery.structs import Value

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER_THAN: Final = "Gt"
LESS_THAN: Final = "Lt"


class LabelSelectorRequirement(Value, frozen=True, kw_only=True):
    """One condition on one label."""

    key: str
    operator: str
    """As written: a wrong one matches nothing."""
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True, kw_only=True):
    """All of these labels and conditions; an empty selector matches everything."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels like these are selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            matches_expression(one.key, one.operator, one.values, labels) for one in self.match_expressions
        )


def matches_expression(key: str, operator: str, values: Collection[str], labels: Mapping[str, str]) -> bool:
    """Whether the labels fulfil one condition; a malformed condition is fulfilled by nothing.

    A label that is missing fulfils `NotIn` and `DoesNotExist`. `Gt` and `Lt` compare whole numbers.
    """
    label = labels.get(key)
    if operator == IN:
        return label in values
    if operator == NOT_IN:
        return label not in values
    if operator == EXISTS:
        return label is not None
    if operator == DOES_NOT_EXIST:
        return label is None
    if operator in {GREATER_THAN, LESS_THAN} and len(values) == 1 and label is not None:
        left, right = as_int64(label), as_int64(next(iter(values)))
        if left is not None and right is not None:
            return left > right if operator == GREATER_THAN else left < right
    return False


def as_int64(text: str) -> int | None:
    """The whole number that the text is, if it is one that fits into 64 bits."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 64:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
