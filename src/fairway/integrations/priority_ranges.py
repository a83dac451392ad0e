"""Which priorities users may give their jobs: a range for each ClusterQueue, which its administrators set.

Administrators of the server may use any priority. Everybody else may use the numbers in the range of the ClusterQueue
that the job is queued in, and every class that an administrator made, except the `system-` ones. Where a ClusterQueue
sets its range itself, the values of classes must be in it as well.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

ANNOTATION: Final = "fairway.dev/priority-range"
"""On a ClusterQueue: `-1000..1000`."""

SYSTEM_PREFIX: Final = "system-"
HIGHEST: Final = 2**31 - 1
LOWEST: Final = -(2**31)

_WRITTEN: Final = re.compile(r"(-?\d{1,10})\.\.(-?\d{1,10})")


class PriorityRange(NamedTuple):
    lowest: int
    highest: int
    queue: str = ""
    """The ClusterQueue that sets it; empty for the default."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.lowest <= value <= self.highest


DEFAULT: Final = PriorityRange(-1000, 1000)


def parse(text: str, queue: str = "") -> PriorityRange | None:
    """A range as an annotation writes it; `None` if it is none."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        return None
    lowest, highest = int(found[1]), int(found[2])
    return PriorityRange(lowest, highest, queue) if LOWEST <= lowest <= highest <= HIGHEST else None


def of_queue(cluster_queue: Mapping[str, Any] | None) -> PriorityRange:
    """The range of a ClusterQueue; the default if it sets none, or does not exist."""
    if cluster_queue is None:
        return DEFAULT
    metadata = cluster_queue["metadata"]
    text = (metadata.get("annotations") or {}).get(ANNOTATION)
    return (parse(text, metadata["name"]) if text else None) or DEFAULT
