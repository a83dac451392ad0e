"""Taints of nodes and flavors, and the tolerations of the pods that may run there all the same."""

from enum import StrEnum

from fairway.apis.machinery.selectors import as_int64
from fairway.apis.machinery.structs import Time, Value, normalise_times


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    """How a toleration compares its value with the taint's; flavors know only the first two."""

    EQUAL = "Equal"
    EXISTS = "Exists"
    LESS_THAN = "Lt"
    GREATER_THAN = "Gt"


class Taint(Value, frozen=True, kw_only=True):
    """What keeps pods away from a node unless they tolerate it."""

    key: str
    value: str = ""
    effect: str
    """One of `TaintEffect`; kept as written, so that validation reports a wrong one beside the other mistakes."""
    time_added: Time | None = None

    def __post_init__(self) -> None:
        normalise_times(self, "time_added")


class Toleration(Value, frozen=True, kw_only=True):
    """Which taints a pod accepts."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration matches the taint; an empty effect matches all effects, an empty key all keys."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"", TolerationOperator.EQUAL}:
            return self.value == taint.value
        if self.operator == TolerationOperator.EXISTS:
            return True
        if self.operator not in {TolerationOperator.LESS_THAN, TolerationOperator.GREATER_THAN}:
            return False
        bound, found = decimal_integer(self.value), decimal_integer(taint.value)
        if bound is None or found is None:
            return False
        return found < bound if self.operator == TolerationOperator.LESS_THAN else found > bound


def decimal_integer(text: str) -> int | None:
    """The 64-bit number that the text spells in the one way that is allowed: no plus, no zeros in front."""
    number = as_int64(text)
    return number if number is not None and str(number) == text else None
