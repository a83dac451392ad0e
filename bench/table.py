"""The table that ``python -m bench`` and ``python -m bench.api`` print, and measuring in a process of one's own."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")

_WIDTHS = (52, 34, 18, 4)


class Line(NamedTuple):
    what: str
    figure: str
    goal: str
    met: bool | None
    memory_mb: float


def isolated(work: Callable[..., Result], *arguments: object) -> tuple[Result, float]:
    """Run in a process of its own; the result, and the most memory that process used."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def measured() -> None:
        result = work(*arguments)
        sender.send((result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))

    process = context.Process(target=measured)
    process.start()
    sender.close()
    try:
        result, memory = receiver.recv()
    except EOFError:
        raise SystemExit(f"{work.__name__}{arguments} failed, see above") from None
    process.join()
    return result, memory


class Host:
    """How much of the time that this machine wanted its host gave to others: seconds say little without it."""

    def __init__(self) -> None:
        self._begun = _wanted_and_refused()

    def line(self) -> Line:
        """What was refused since the beginning."""
        wanted, refused = (now - then for now, then in zip(_wanted_and_refused(), self._begun, strict=True))
        share = refused / wanted if wanted else 0.0
        return Line("of the time that was wanted, the host gave others", f"{share:.1%}", "", None, 0)


def _wanted_and_refused() -> tuple[int, int]:
    """By all cores since they were started, as Linux counts; nothing where it does not."""
    try:
        counts = [int(count) for count in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    except OSError:
        return 0, 0
    user, nice, system, _idle, _waiting, irq, softirq, stolen = counts
    return user + nice + system + irq + softirq + stolen, stolen


def middle_and_all(seconds: Sequence[float], digits: int = 2) -> str:
    """Several rounds of the same: one minute of a shared machine says little."""
    each = ", ".join(f"{one:.{digits}f}" for one in sorted(seconds))
    return f"{statistics.median(seconds):.{digits}f} s" + (f" of {each}" if len(seconds) > 1 else "")


def tell(what: str) -> None:
    """Show that it goes on, beside the table."""
    print(f"measured: {what.strip()}", file=sys.stderr, flush=True)


def show(lines: Sequence[Line], *, judged: bool) -> None:
    """Print the lines; whether goals are met only when the sizes are those the goals speak of."""
    rows = [("what", "figure", "goal", "met", "memory")]
    for line in lines:
        met = "" if line.met is None or not judged else "yes" if line.met else "NO"
        rows.append((line.what, line.figure, line.goal, met, f"{line.memory_mb:.0f} MB" if line.memory_mb else ""))
    widths = [max(least, *(len(row[column]) for row in rows)) for column, least in enumerate(_WIDTHS)]
    print()
    for row in rows:
        print(" ".join([f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)] + [row[-1]]).rstrip())


def main(prog: str, description: str | None, lines: Callable[[int], list[Line]]) -> int:
    """The command line of one part of the benchmarks."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, to see that it runs")
    scale = 10 if parser.parse_args().quick else 1
    host = Host()
    found = lines(scale)
    tell(found[0].what)
    found.append(host.line())
    show(found, judged=scale == 1)
    return 0
