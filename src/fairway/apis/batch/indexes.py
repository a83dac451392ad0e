"""Sets of a job's indexes as Kubernetes writes them: `1,3-5,7`."""

_MOST_DIGITS = 10
"""As many as the largest number of completions has."""


class IndexesFault(ValueError):
    """The text names no set of indexes of this job."""


def read_indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """The intervals, both ends included, in order."""
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        bounds = part.split("-")
        if len(bounds) > 2:
            raise IndexesFault(f"{part!r} has more than two parts separated by '-'")
        for bound in bounds:
            if not (bound.isascii() and bound.isdigit()):
                raise IndexesFault(f"cannot convert string to integer for index: {bound!r}")
            if len(bound) > _MOST_DIGITS or int(bound) >= completions:
                raise IndexesFault(f"too large index: {bound!r}")
        first, last = int(bounds[0]), int(bounds[-1])
        before = intervals[-1][1] if intervals else -1
        if first <= before or (len(bounds) > 1 and first >= last):
            raise IndexesFault(f"non-increasing order at {part!r}")
        intervals.append((first, last))
    return intervals
