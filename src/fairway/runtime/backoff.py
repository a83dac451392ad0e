"""How long to wait before the next attempt."""

from dataclasses import dataclass

_EXPONENT_CAP = 64
"""Doubling a positive number more often than this reaches any cap, and a larger exponent would overflow."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double with every failure in a row, up to a cap."""

    first: float = 0.005
    cap: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.cap:
            raise ValueError(f"a back-off needs 0 < first <= cap, not first={self.first}, cap={self.cap}")

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures before the one just now."""
        return float(min(self.cap, self.first * 2.0 ** min(failures, _EXPONENT_CAP)))
