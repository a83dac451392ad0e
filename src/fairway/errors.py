"""The one exception tree of Fairway.

    FairwayError
    └── ValidationError      an object breaks the rules of its kind; it stays wrong until somebody changes it

Whoever catches an error decides by its type whether trying again can help, so a new branch hangs below `FairwayError`
as temporary or permanent by what it means, not by the module that raises it. What is wrong is carried as data
(`FieldError`); sentences are made here, from that data, and nowhere else.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

_VALUE_LENGTH_SHOWN = 256
"""A value is quoted back only this far: manifests can be large, and they can hold what should not be in a log."""

_TITLES = {
    "FieldUnknown": "Unknown field",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotFound": "Not found",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueRequired": "Required value",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
}

_WITHOUT_VALUE = frozenset({"FieldUnknown", "FieldValueForbidden", "FieldValueRequired", "FieldValueTooLong"})


class FairwayError(Exception):
    """The root: whatever Fairway raises on purpose is one of these."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that breaks one rule."""

    path: str
    """Where, as Kubernetes writes it: `spec.podSets[0].count`; empty for the object as a whole."""

    value: object
    """What was found there, `None` if nothing was."""

    rule: str
    """Which kind of rule, by the name that Kubernetes gives the cause: `FieldValueInvalid`, `FieldValueRequired` …"""

    message: str
    """What is expected instead; empty where the rule alone says it all."""

    def __str__(self) -> str:
        parts = [self.path] if self.path else []
        parts.append(_TITLES.get(self.rule, self.rule))
        if self.rule not in _WITHOUT_VALUE:
            parts.append(_shown(self.value))
        if self.message:
            parts.append(self.message)
        return ": ".join(parts)


class ValidationError(FairwayError):
    """An object is rejected, with every rule that it breaks."""

    def __init__(self, kind: str, name: str, errors: Iterable[FieldError]) -> None:
        self.kind = kind
        self.name = name
        self.errors: tuple[FieldError, ...] = tuple(errors)
        if not self.errors:
            raise ValueError("a ValidationError needs at least one FieldError")
        super().__init__(kind, name, self.errors)

    def __str__(self) -> str:
        found = list(dict.fromkeys(str(error) for error in self.errors))
        reasons = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
        return f"{self.kind} {json.dumps(self.name, ensure_ascii=False)} is invalid: {reasons}"


def _shown(value: object) -> str:
    try:
        simple = value is None or isinstance(value, bool | int | float | dict | list | tuple)
        text = json.dumps(value if simple else str(value), ensure_ascii=False, default=str, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):  # such as an object that contains itself
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _VALUE_LENGTH_SHOWN else f"{text[:_VALUE_LENGTH_SHOWN]}…"
