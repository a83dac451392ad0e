"""Progress lines about a followed job, on standard error.

On a terminal the line about a waiting job is updated in place; elsewhere it is printed once for each reason.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

import click

from fairway.cli.tables import plain, screen, truncated

_SAID: Final = {
    "PENDING": "waits",
    "STARTING": "is starting",
    "RUNNING": "is running",
    "RECOVERING": "waits to run again",
    "CANCELLING": "is being cancelled",
}
_OUTCOMES: Final = {
    "Succeeded": "succeeded",
    "Failed": "failed",
    "SetupFailed": "failed in its setup",
    "Preempted": "was preempted",
    "Evicted": "was evicted",
    "Lost": "was lost",
    "Held": "was held",
    "Cancelled": "was cancelled",
    "MaxDurationExceeded": "exceeded its maximum duration",
}


class Narrator:
    """Prints the progress of one job."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        """`stream` defaults to standard error."""
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._last = ""
        self._printed = ""
        self._away = False
        self._screen = screen(self._stream)
        self._line_is_open = False

    def waiting(self, phase: str, place: str, why: str) -> None:
        """Print the phase of the job, its position in the queue, and why it waits."""
        self._away = False
        if why == self._printed:
            why = ""  # already printed
        if phase == "PENDING" and not why:
            return  # it was only just submitted, or is to run again at once
        text = f"Job {self._title} {_SAID.get(phase, phase)}"
        whole = ", ".join(part for part in (text, place) if part) + (f": {why}" if why else "")
        if self._screen.moves:
            self._over(whole)
        elif f"{text}{why}" != self._last:
            self._last = f"{text}{why}"
            self._say(whole)

    def begins(self, task: int | None, attempt: int) -> None:
        """Print that an attempt has begun, unless it is the first of the only task."""
        self._away = False
        self.pause()
        which = [f"task {task + 1}"] if task is not None else []
        which += [f"attempt {attempt}"] if attempt > 1 else []
        if which:
            self._say(f"--- {', '.join(which)} ---")

    def ends(self, task: int | None, attempt: int, found: Mapping[str, Any]) -> None:
        """Print how an attempt ended while the job continues; a finished task of a pipeline is named as a task."""
        self.pause()
        outcome = str(found.get("outcome") or "")
        code = found.get("exitCode")
        how = _OUTCOMES.get(outcome, f"ended ({outcome})" if outcome else "ended")
        with_code = f" with exit code {code}" if code is not None and outcome in ("Failed", "SetupFailed") else ""
        message = plain(str(found.get("message") or ""))
        said = f"was {message}" if f"was {message}".startswith(how) else f"{how}{with_code}{message and f': {message}'}"
        which = f"task {task + 1}" if task is not None and outcome == "Succeeded" else f"attempt {attempt}"
        self._printed = message
        self._say(f"--- {which} {said} ---")

    def remark(self, text: str) -> None:
        self._say(plain(text))

    def away(self) -> None:
        if not self._away:
            self._away = True
            self._say("The server does not answer; the job keeps running. Retrying ...")

    def pause(self) -> None:
        """Remove the line that is updated in place."""
        if self._line_is_open:
            click.echo("\r\x1b[2K", file=self._stream, nl=False)
            self._line_is_open = False

    def _over(self, text: str) -> None:
        if text != self._last or not self._line_is_open:
            self._last = text
            shown = truncated(text, (self._screen.width or 80) - 1, self._screen)
            click.echo(f"\r\x1b[2K{self._screen.paint(shown, 'dim')}", file=self._stream, nl=False)
            self._line_is_open = True

    def _say(self, text: str) -> None:
        self.pause()
        sys.stdout.flush()
        click.echo(text, file=self._stream)
