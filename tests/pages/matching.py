"""Whether a command printed what a page shows, but for what differs from run to run and from machine to machine.

Not compared: spaces between columns, times and ages, process ids, ports, tokens and random parts of names. In what a
page shows, `...` (or `…`) stands for any text in a line, and alone in a line for any number of lines.
"""

import re

_ANY = "..."
_ALIKE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"…"), _ANY),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "MOMENT"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"(?<![\w.])\d+(\.\d+)?\s?(ms|s|m|h|d)(\d+(s|m|h))?(?![\w/])"), "TIME"),
    (re.compile(r"\b(process|pid) \d+"), r"\1 N"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"\b[A-Za-z0-9_-]{40,}\b"), "TOKEN"),
    (re.compile(r"(?<=-)(?=[a-z0-9]*\d)[a-z0-9]{5}\b|(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "RANDOM"),
    (re.compile(r"[-─=]{3,}"), "RULE"),
    (re.compile(r"\s+"), " "),
)


def alike(shown: tuple[str, ...] | list[str], printed: list[str]) -> bool:
    """Whether the lines printed are those that are shown."""
    want = "\n".join(_pattern(one) for one in map(_plain, _trimmed(shown)))
    # A line of nothing but `...` may stand for no line at all, so its line break belongs to it.
    want = want.replace(f"{_LINES}\n", "(?:.*\n)*").replace(f"\n{_LINES}", "(?:\n.*)*").replace(_LINES, "(?:.|\n)*")
    return re.fullmatch(want, "\n".join(map(_plain, _trimmed(printed)))) is not None


_LINES = "\0"


def _pattern(row: str) -> str:
    if row == _ANY:
        return _LINES
    return ".*".join(map(re.escape, row.split(_ANY)))


def _plain(row: str) -> str:
    for pattern, name in _ALIKE:
        row = pattern.sub(name, row)
    return row.strip()


def _trimmed(rows: tuple[str, ...] | list[str]) -> list[str]:
    """Without empty lines at the end."""
    return "\n".join(rows).rstrip().split("\n")
