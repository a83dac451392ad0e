"""Progress of a long operation, on a terminal."""

import sys
import time
from typing import Final, Self

import click

from fairway.cli.tables import screen

_QUIET_SECONDS: Final = 0.3
_BETWEEN_SECONDS: Final = 0.1


class Meter:
    """Progress of a long operation, in one line on a terminal; nothing for short ones, or without a terminal."""

    def __init__(self, label: str, total: int = 0, *, bytes_: bool = True) -> None:
        """`total` is what there is to do, in bytes or things; 0 if that is unknown."""
        self._label = label
        self._total = total
        self._bytes = bytes_
        self._shown = False
        self._next = time.monotonic() + _QUIET_SECONDS if screen(sys.stderr).moves else float("inf")

    def show(self, files: int, size: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        from fairway.cli.packing import size_text  # noqa: PLC0415 - not every task has files

        self._next = now + _BETWEEN_SECONDS
        self._shown = True
        if not self._bytes:
            far = f"{size} of {self._total}"
        else:
            done = size_text(size)
            far = f"{done} of {size_text(self._total)}" if self._total else f"{files} files, {done}"
        click.echo(f"\r\x1b[2K{self._label} ... {far}", err=True, nl=False)

    def show_bytes(self, size: int) -> None:
        self.show(0, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\x1b[2K", err=True, nl=False)
