"""How long news are gathered before they are decided on.

A decision on one finished workload costs nearly as much as one on six in the same cohort: the heads of all its queues
are tried, and tried again until nothing fits any more. But to decide late leaves quota unused. So nobody waits while
deciding takes a small share of the time, and the first news after a pause are decided on at once, always. When it
takes more, decisions are kept apart, by a few milliseconds at first and by 100 at most. Thirty busy queues on one core
come to that: there is more to write than it keeps up with, and nobody gets on sooner by being decided on sooner.
(Kueue gathers what was freed for a second.)
"""

from typing import Final

SHORTEST_SECONDS: Final = 0.002
LONGEST_SECONDS: Final = 0.1
_SHARE: Final = 0.08
"""Of all time, for deciding."""

_WINDOW_SECONDS: Final = 0.25
_STEP_UP: Final = 4.0
_STEP_DOWN: Final = 0.5


class Pace:
    """Follows how much time decisions take, and says how far they are apart."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """From the beginning of one decision to that of the next, at least."""
        self._began: float | None = None
        self._since: float | None = None
        self._spent = 0.0

    def left(self, now: float) -> float:
        """How long the next decision is to wait."""
        return 0.0 if self._began is None else max(0.0, self._began + self.seconds - now)

    def took(self, began: float, ended: float) -> None:
        """A decision was made from then to then."""
        self._began = began
        if self._since is None:
            self._since = began
        self._spent += ended - began
        passed = ended - self._since
        if passed >= _WINDOW_SECONDS:
            if passed >= 4 * _WINDOW_SECONDS:
                self.seconds = 0.0  # it was quiet for a while
            else:
                self._adapt(self._spent / passed / _SHARE)
            self._since, self._spent = ended, 0.0

    def _adapt(self, change: float) -> None:
        wanted = max(SHORTEST_SECONDS, self.seconds) * min(_STEP_UP, max(_STEP_DOWN, change))
        self.seconds = min(LONGEST_SECONDS, wanted) if wanted > SHORTEST_SECONDS else 0.0
