"""Tables, bars, lengths of time: what people see, down to the column."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.cli.tables import (
    Screen,
    TableColumn,
    bar,
    duration,
    fitting,
    plain,
    screen,
    table,
    truncated,
    usage_bar,
    width_of,
)

from .looking import PAPER

COLUMNS = (
    TableColumn("NAME"),
    TableColumn("COUNT", right=True),
    TableColumn("STATUS", coloured=True),
    TableColumn("WHY", flexible=True),
)
ROWS: list[list[Any]] = [["one", 7, "RUNNING", None], ["another", 12345, "FAILED_SETUP", "a long story, and longer"]]


class Terminal(io.StringIO):
    def __init__(self, encoding: str = "utf-8", *, tty: bool = True) -> None:
        super().__init__()
        self._encoding, self._tty = encoding, tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (42, "42s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (599, "9m59s"),
        (600, "10m"),
        (3599, "59m"),
        (3600, "1h"),
        (7500, "2h5m"),
        (86399, "23h59m"),
        (86400, "1d"),
        (100 * 3600, "4d4h"),
        (10 * 86400, "10d"),
        (400 * 86400, "400d"),
    ],
)
def test_lengths_of_time_have_two_units_at_most(seconds: float, want: str) -> None:
    assert duration(seconds) == want


def test_numbers_stand_at_the_right_and_nothing_is_a_dash() -> None:
    assert table(COLUMNS, ROWS, PAPER).splitlines() == [
        "NAME     COUNT  STATUS        WHY",
        "one          7  RUNNING       -",
        "another  12345  FAILED_SETUP  a long story, and longer",
    ]


def test_what_is_too_long_for_the_screen_is_cut() -> None:
    assert table(COLUMNS, ROWS, Screen(width=44)).splitlines() == [
        "NAME     COUNT  STATUS        WHY",
        "one          7  RUNNING       -",
        "another  12345  FAILED_SETUP  a long story,…",
    ]
    assert table(COLUMNS, ROWS, Screen(width=44, unicode=False)).splitlines()[-1].endswith("a long stor...")


def test_the_widest_flexible_column_gives_first() -> None:
    columns = (TableColumn("A", flexible=True), TableColumn("B", flexible=True))
    (line,) = table(columns, [["a" * 40, "b" * 20]], Screen(width=42), header=False).splitlines()

    assert line == "a" * 19 + "…  " + "b" * 20


def test_colours_are_of_the_status_alone() -> None:
    lines = table(COLUMNS, ROWS, Screen(colours=True)).splitlines()

    assert lines[0] == "\x1b[1mNAME     COUNT  STATUS        WHY\x1b[0m"
    assert lines[1] == "one          7  \x1b[32mRUNNING\x1b[0m       -"
    assert "\x1b[31mFAILED_SETUP\x1b[0m" in lines[2]


def test_lines_can_be_added_to_a_table_that_is_on_the_screen() -> None:
    widths: list[int] = []
    table(COLUMNS, ROWS, PAPER, widths=widths)

    assert table(COLUMNS, [["x", 1, "PENDING", "y"]], PAPER, header=False, widths=widths) == (
        "x            1  PENDING       y"
    )


@pytest.mark.parametrize(
    ("stream", "environment", "want"),
    [
        pytest.param(
            Terminal(), {"COLUMNS": "90"}, Screen(90, colours=True, unicode=True, moves=True), id="a terminal"
        ),
        pytest.param(
            Terminal(),
            {"COLUMNS": "90", "NO_COLOR": "1"},
            Screen(90, colours=False, unicode=True, moves=True),
            id="nobody wants colours",
        ),
        pytest.param(
            Terminal(), {"COLUMNS": "90", "TERM": "dumb"}, Screen(90, colours=False, unicode=True), id="a dumb terminal"
        ),
        pytest.param(
            Terminal("ascii"),
            {"COLUMNS": "90"},
            Screen(90, colours=True, unicode=False, moves=True),
            id="without blocks",
        ),
        pytest.param(Terminal(), {}, Screen(80, colours=True, unicode=True, moves=True), id="a terminal without size"),
        pytest.param(Terminal(tty=False), {"COLUMNS": "90"}, Screen(None, colours=False, unicode=True), id="a pipe"),
        pytest.param(
            Terminal("latin-1", tty=False), {}, Screen(None, colours=False, unicode=False), id="a pipe without blocks"
        ),
    ],
)
def test_what_a_stream_can_show(stream: Terminal, environment: dict[str, str], want: Screen) -> None:
    assert screen(stream, environment) == want


@pytest.mark.parametrize(
    ("used", "quota", "want", "in_ascii"),
    [
        (0, 9, "░░░░░░░░░░", ".........."),
        (6, 9, "██████▋░░░", "######...."),
        (9, 9, "██████████", "##########"),
        (0.01, 9, "▏░░░░░░░░░", "#........."),
        (12, 9, "███████▓▓▓", "#######+++"),
        (3, 0, "▓▓▓▓▓▓▓▓▓▓", "++++++++++"),
        (0, 0, "░░░░░░░░░░", ".........."),
    ],
    ids=["nothing", "two thirds", "all", "a little is not nothing", "borrowed", "all borrowed", "no quota"],
)
def test_bars(used: float, quota: float, want: str, in_ascii: str) -> None:
    assert usage_bar(used, quota, 10, PAPER) == want
    assert usage_bar(used, quota, 10, Screen(unicode=False)) == in_ascii


@given(
    used=st.floats(0, 1e12),
    quota=st.floats(0, 1e12),
    width=st.integers(0, 60),
    unicode=st.booleans(),
)
def test_a_bar_is_as_wide_as_it_is_asked_to_be(used: float, quota: float, width: int, unicode: bool) -> None:  # noqa: FBT001
    assert len(usage_bar(used, quota, width, Screen(unicode=unicode))) == width
    assert len(bar([(used, "#")], quota, width, Screen(unicode=unicode))) == width


def test_names_cannot_command_the_terminal() -> None:
    assert plain("a\x1b[2Jb\nc") == "a [2Jb c"
    assert "\x1b" not in table((TableColumn("NAME"),), [["\x1b]0;gotcha\x07"]], PAPER)


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("█░", 2)])
def test_how_wide_texts_are(text: str, width: int) -> None:
    assert width_of(text) == width


@given(text=st.text(), width=st.integers(0, 30), unicode=st.booleans())
def test_what_is_cut_fits(text: str, width: int, unicode: bool) -> None:  # noqa: FBT001
    assert width_of(truncated(text, width, Screen(unicode=unicode))) <= width


def test_columns_go_one_after_the_other_where_there_is_no_room() -> None:
    columns = (
        TableColumn("ID", right=True),
        TableColumn("USER"),
        TableColumn("QUEUE"),
        TableColumn("WHY", flexible=True),
    )
    rows: list[list[str | int | None]] = [[1, "ana", "research", "w" * 40]]

    def titles(width: int | None) -> list[str]:
        lines = fitting(columns, rows, Screen(width=width), ("USER", "QUEUE")).splitlines()
        assert width is None or width < 16 or max(map(len, lines)) <= width
        return lines[0].split()

    assert titles(None) == titles(60) == titles(32) == ["ID", "USER", "QUEUE", "WHY"]
    assert titles(31) == titles(26) == ["ID", "QUEUE", "WHY"]
    assert titles(25) == titles(10) == ["ID", "WHY"]
