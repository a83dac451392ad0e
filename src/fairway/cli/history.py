"""What `fairway usage` and `fairway jobs history` share: options, times as people say them, and CSV."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click

from fairway.cli.options import with_options
from fairway.client.rest import paths
from fairway.client.rest.paths import EXPLAINING, FAIRWAY

Command = TypeVar("Command", bound=Callable[..., Any])

_AGO: Final = re.compile(r"(\d{1,5})(h|d|w)")
_UNITS: Final = {"h": "hours", "d": "days", "w": "weeks"}
_MONTH: Final = re.compile(r"\d{4}-\d{2}")


class MomentParam(click.ParamType["str"]):
    """A moment: `7d` ago, `today`, `month` (its first day), a date, a month, or a time."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        now = datetime.now(UTC).replace(microsecond=0)
        if found := _AGO.fullmatch(value):
            return _text(now - timedelta(**{_UNITS[found[2]]: int(found[1])}))
        if value in {"today", "month"}:
            start = now.replace(hour=0, minute=0, second=0)
            return _text(start if value == "today" else start.replace(day=1))
        try:
            moment = datetime.fromisoformat(f"{value}-01" if _MONTH.fullmatch(value) else value)
        except ValueError:
            self.fail(f"{value!r}: say 12h, 7d, today, month, 2026-11, 2026-11-18 or 2026-11-18T08:00:00Z", param, ctx)
        return _text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_OUTPUT: Final = click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Output format.",
)


def history_options(command: Command) -> Command:
    """Which part of the history: `--since --until --user --queue --org --team --flavor -o`."""
    return with_options(
        command,
        [
            click.option(
                "--since", type=MomentParam(), metavar="WHEN", help="From: 12h, 7d, today, month, 2026-11-01."
            ),
            click.option("--until", type=MomentParam(), metavar="WHEN", help="To, in the same words.  [default: now]"),
            click.option("--user", "-u", multiple=True, metavar="NAME", help="Only this user; may be repeated."),
            click.option("--queue", "-q", multiple=True, metavar="NAME", help="Only this LocalQueue; may be repeated."),
            click.option("--org", multiple=True, metavar="NAME", help="Only this organization; may be repeated."),
            click.option("--team", multiple=True, metavar="NAME", help="Only this team; may be repeated."),
            click.option("--flavor", multiple=True, metavar="NAME", help="Only this flavor; may be repeated."),
            _OUTPUT,
        ],
    )


def query_of(said: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the API for the options that were given."""
    names = {"org": "organization"}
    found = {}
    for name, value in said.items():
        text = ",".join(value) if isinstance(value, tuple) else value
        if text:
            found[names.get(name, name)] = str(text)
    return found


def path_of(resource: str, namespace: str | None, *, cluster: bool) -> str:
    """Where the history is asked for; `cluster`: not on a server of ours."""
    base = (EXPLAINING if cluster else FAIRWAY).removeprefix("/apis/")
    return paths.resource(base, resource, namespace)


def as_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Lines that a spreadsheet reads; a cell that it would compute is text."""
    import csv  # noqa: PLC0415 - help must not wait for it
    import io  # noqa: PLC0415

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"'{one}" if isinstance(one, str) and one[:1] in tuple("=+-@") else one for one in row])
    return text.getvalue().removesuffix("\n")
