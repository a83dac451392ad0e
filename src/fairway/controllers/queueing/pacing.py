"""How long freed quota waits for more of it before those who wait are tried again.

Trying them takes time, which grows with how many wait and in how many trees; trying them late leaves quota unused. So
the batch is as short as it can be while the tries take no more than a small share of all time: 2 ms on a quiet machine,
up to 50 ms where thirty busy queues keep one core at work. (Kueue waits a second.)
"""

from typing import Final

SHORTEST_SECONDS: Final = 0.002
LONGEST_SECONDS: Final = 0.05
_SHARE: Final = 0.1
"""Of all time, for trying those who wait."""

_WINDOW_SECONDS: Final = 0.25
_STEP: Final = 2.0


class Pace:
    """Follows how much time the tries take, and says how long the next batch is."""

    def __init__(self) -> None:
        self.seconds = SHORTEST_SECONDS
        self._since: float | None = None
        self._spent = 0.0

    def took(self, began: float, ended: float) -> float:
        """Those who wait were tried from then to then; the length of the batch from now on."""
        if self._since is None:
            self._since = began
        self._spent += ended - began
        passed = ended - self._since
        if passed >= _WINDOW_SECONDS:
            change = self._spent / passed / _SHARE
            wanted = self.seconds * min(_STEP, max(1 / _STEP, change))
            self.seconds = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, wanted))
            if passed >= 4 * _WINDOW_SECONDS:
                self.seconds = SHORTEST_SECONDS  # it was quiet for a while
            self._since, self._spent = ended, 0.0
        return self.seconds
