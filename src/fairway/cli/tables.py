"""Tables, bars, ages and amounts for people.

A `Screen` knows what the output supports: colours only on a terminal and only without
NO_COLOR, blocks only where the encoding has them, lines cut only where there is an edge. Nothing here knows what the
cells mean, but for the words that have a colour.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO

Cell = str | int | None

_UNICODE: Final = "█▓░▏▎▍▌▋▊▉…✓✗·"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_GAP: Final = "  "
_LEAST_FLEXIBLE: Final = 12

_RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN, _DIM = "31", "32", "33", "34", "35", "36", "2"

COLOURS: Final[Mapping[str, str]] = {
    "PENDING": _YELLOW,
    "STARTING": _CYAN,
    "RUNNING": _GREEN,
    "RECOVERING": _MAGENTA,
    "CANCELLING": _YELLOW,
    "SUCCEEDED": _BLUE,
    "CANCELLED": _DIM,
    "✓": _GREEN,
    "ok": _GREEN,
    "!": _YELLOW,
    "✗": _RED,
    "X": _RED,
    "bold": "1",
    "dim": _DIM,
    "reverse": "7",
    "red": _RED,
    "green": _GREEN,
    "yellow": _YELLOW,
}
"""Of statuses and marks; what is not here and begins with FAILED is red."""


class Screen(NamedTuple):
    """What there is to write on."""

    width: int | None = None
    """Columns; `None` where lines may be as long as they like."""

    colours: bool = False
    unicode: bool = True
    moves: bool = False
    """Lines can be written over again: a terminal that is not a dumb one."""

    @property
    def ellipsis(self) -> str:
        return "…" if self.unicode else "..."

    @property
    def dot(self) -> str:
        return "·" if self.unicode else "-"

    def paint(self, text: str, colour: str) -> str:
        """The text in the colour of a status, or in one by its name; as it is where there are no colours."""
        code = COLOURS.get(colour, _RED if colour.startswith("FAILED") else "")
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and code and text else text


def screen(stream: TextIO | None = None, environment: Mapping[str, str] = os.environ) -> Screen:
    """What a stream can show; standard output unless told otherwise."""
    stream = sys.stdout if stream is None else stream
    on_terminal = stream.isatty()
    moves = on_terminal and environment.get("TERM") != "dumb"
    return Screen(
        width=_columns(stream, environment) if on_terminal else None,
        colours=moves and not environment.get("NO_COLOR"),
        unicode=_can_encode(stream),
        moves=moves,
    )


def _columns(stream: TextIO, environment: Mapping[str, str]) -> int:
    told = environment.get("COLUMNS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _can_encode(stream: TextIO) -> bool:
    try:
        _UNICODE.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class TableColumn(NamedTuple):
    """One column of a table."""

    title: str
    right: bool = False
    """Numbers stand at the right."""

    flexible: bool = False
    """Is cut first where the lines are too long."""

    coloured: bool = False
    """Its words have colours."""

    least: int = _LEAST_FLEXIBLE
    """A flexible column keeps this width, if its cells need it; other columns are left out before that."""


def table(
    columns: Sequence[TableColumn],
    rows: Iterable[Sequence[Cell]],
    on: Screen,
    *,
    header: bool = True,
    widths: list[int] | None = None,
) -> str:
    """Lines, without the last line break; a dash for `None`.

    `widths` are kept from one table to the next where lines are added to what is on the screen already.
    """
    texts = [[plain("-" if cell is None else str(cell)) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    shown = [titles, *texts] if header else texts
    if not shown:
        return ""
    widths = [] if widths is None else widths
    least = widths or [0] * len(columns)
    widths[:] = [max(least[index], *map(width_of, cells)) for index, cells in enumerate(zip(*shown, strict=True))]
    _fit(widths, columns, on.width)
    # Column by column: a table of a thousand lines is laid out in a few milliseconds.
    laid_out = [
        _laid_out(cells, column, width, on)
        for cells, column, width in zip(zip(*shown, strict=True), columns, widths, strict=True)
    ]
    lines = [_GAP.join(row).rstrip() for row in zip(*laid_out, strict=True)]
    if header:
        lines[0] = on.paint(lines[0], "bold")
    return "\n".join(lines)


def without_empty(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], title: str
) -> tuple[Sequence[TableColumn], Sequence[Sequence[Cell]]]:
    """Columns and rows without the column of this title if no row has anything in it."""
    place = [column.title for column in columns].index(title)
    if any(row[place] is not None for row in rows):
        return columns, rows
    return (*columns[:place], *columns[place + 1 :]), [[*row[:place], *row[place + 1 :]] for row in rows]


def fitting(
    columns: Sequence[TableColumn], rows: Iterable[Sequence[Cell]], on: Screen, dispensable: Iterable[str]
) -> str:
    """A table that goes without some of its columns, in the order of `dispensable`, where there is no room for all."""
    rows = list(rows)
    kept = list(range(len(columns)))
    if on.width is not None:
        least = [_least(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
        places = {column.title: index for index, column in enumerate(columns)}
        for title in filter(places.__contains__, dispensable):
            if sum(least[index] for index in kept) + len(_GAP) * (len(kept) - 1) <= on.width:
                break
            kept.remove(places[title])
    return table([columns[index] for index in kept], [[row[index] for index in kept] for row in rows], on)


def _least(column: TableColumn, cells: Iterable[Cell]) -> int:
    """How narrow a column can be made."""
    title = len(column.title)
    natural = max((width_of(plain("-" if cell is None else str(cell))) for cell in cells), default=0)
    return max(title, min(natural, column.least) if column.flexible else natural)


def _fit(widths: list[int], columns: Sequence[TableColumn], edge: int | None) -> None:
    """Take what is too much from the flexible columns, the widest first; below their `least` only if that is not
    enough."""
    if edge is None:
        return
    for most in (edge, _LEAST_FLEXIBLE):
        _shrink(widths, columns, edge, most)


def _shrink(widths: list[int], columns: Sequence[TableColumn], edge: int, most: int) -> None:
    """Keep at most `most` of the least width of each column."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - edge
    flexible = [index for index, column in enumerate(columns) if column.flexible]
    while excess > 0 and flexible:
        widest = max(flexible, key=lambda index: widths[index])
        least = max(min(columns[widest].least, most), len(columns[widest].title))
        others = sorted((widths[index] for index in flexible if index != widest), reverse=True)
        floor = max(least, min(others[0], widths[widest] - 1) if others else least)
        taken = min(excess, max(widths[widest] - floor, 0))
        if taken == 0:
            flexible.remove(widest)
            continue
        widths[widest] -= taken
        excess -= taken


def _laid_out(texts: Iterable[str], column: TableColumn, width: int, on: Screen) -> list[str]:
    """The cells of one column, each as wide as the column."""
    place = str.rjust if column.right else str.ljust
    painted = column.coloured and on.colours
    return [
        place(text, width)
        if not painted and text.isascii() and len(text) <= width
        else _cell(text, column, width, on, painted=painted)
        for text in texts
    ]


def _cell(text: str, column: TableColumn, width: int, on: Screen, *, painted: bool) -> str:
    cut = truncated(text, width, on)
    space = " " * (width - width_of(cut))
    inked = on.paint(cut, text) if painted else cut
    return space + inked if column.right else inked + space


def truncated(text: str, width: int, on: Screen) -> str:
    """The text, or as much of it as fits with the sign that there is more."""
    if width_of(text) <= width:
        return text
    room = width - len(on.ellipsis)
    if room <= 0:
        return on.ellipsis[: max(width, 0)]
    kept, used = [], 0
    for character in text:
        used += width_of(character)
        if used > room:
            break
        kept.append(character)
    return "".join(kept) + on.ellipsis


def plain(text: str) -> str:
    """The text in one line and without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def width_of(text: str) -> int:
    """How many columns a text takes; in some scripts a character takes two, or none."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - most texts do not need it

    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def duration(seconds: float) -> str:
    """How long something took, in the two largest units that matter: `42s`, `3m20s`, `25m`, `2h5m`, `3d4h`."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if hours < 1:
        return f"{minutes}m"
    if days < 1:
        return _two(hours, "h", minutes % 60, "m")
    if days < 10:
        return _two(days, "d", hours % 24, "h")
    return f"{days}d"


def _two(more: int, large: str, less: int, small: str) -> str:
    return f"{more}{large}{less}{small}" if less else f"{more}{large}"


def bar(parts: Sequence[tuple[float, str]], total: float, width: int, on: Screen) -> str:
    """A bar of `width` columns for `total`: each part has an amount and a sign, the rest is empty.

    The first part is drawn to an eighth of a column where the encoding allows.
    """
    if width <= 0:
        return ""
    empty = "░" if on.unicode else "."
    if total <= 0:
        return empty * width
    drawn = ""
    reached = 0.0
    for amount, sign in parts:
        reached += max(0.0, amount)
        end = min(width, reached / total * width)
        whole = int(end + 1e-9)
        drawn += sign * max(0, whole - len(drawn))
        if on.unicode and sign == "█" and len(drawn) < width and len(parts) == 1:
            eighth = int((end - whole) * 8 + 1e-9)
            drawn += _EIGHTHS[eighth] if eighth else ""
        if amount > 0 and not drawn:  # a little is not nothing
            drawn = "▏" if on.unicode and sign == "█" else sign
    return drawn + empty * (width - len(drawn))


def usage_bar(used: float, quota: float, width: int, on: Screen) -> str:
    """How much of a quota is used; what is borrowed beyond it makes the bar stand for more than the quota."""
    full, over = ("█", "▓") if on.unicode else ("#", "+")
    if used <= quota:
        return bar([(used, full)], quota, width, on)
    return bar([(quota, full), (used - quota, over)], used, width, on)


def as_json(value: Any) -> str:
    """Any value for `-o json`: indented, times as the API writes them."""
    import msgspec  # noqa: PLC0415 - not for tables

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
