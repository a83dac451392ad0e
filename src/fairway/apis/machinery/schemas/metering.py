"""A bound on the work that user-supplied schemas cause in one validation."""

from typing import Final

MOST_STEPS: Final = 100_000
"""A few tenths of a second: patterns and alternatives of a schema may cost no more for one object."""


class TooMuchWork(Exception):
    """A value whose validation would take too long."""


class StepMeter:
    """Counts down within one validation; the event loop runs one at a time."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork


METER: Final = StepMeter()
