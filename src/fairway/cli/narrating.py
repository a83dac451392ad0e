"""What is said about a job while somebody looks on: on standard error, a line each.

On a terminal the line about a job that waits is written over again and again; elsewhere it is said once for each
reason, so that logs of logs stay short.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

import click

from fairway.cli.tables import plain, screen, truncated

_SAID: Final = {
    "PENDING": "waits",
    "STARTING": "is starting",
    "RUNNING": "runs",
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
    "MaxDurationExceeded": "ran for as long as it may",
}


class Narrator:
    """Tells of one job."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        """`stream` is standard error unless told otherwise."""
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._last = ""
        self._told = ""
        self._away = False
        self._screen = screen(self._stream)
        self._line_is_open = False

    def waiting(self, phase: str, place: str, why: str) -> None:
        """Where the job stands, at which place of the queue, and why."""
        self._away = False
        if why == self._told:
            why = ""  # it was the last thing that was said
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
        """An attempt has begun; the first one of the only task needs no words."""
        self._away = False
        self.pause()
        which = [f"task {task + 1}"] if task is not None else []
        which += [f"attempt {attempt}"] if attempt > 1 else []
        if which:
            self._say(f"--- {', '.join(which)} ---")

    def ends(self, task: int | None, attempt: int, found: Mapping[str, Any]) -> None:
        """An attempt has ended, and the job has not; a task of a pipeline that is done is not spoken of as attempt."""
        self.pause()
        outcome = str(found.get("outcome") or "")
        code = found.get("exitCode")
        how = _OUTCOMES.get(outcome, f"ended ({outcome})" if outcome else "ended")
        with_code = f" with exit code {code}" if code is not None and outcome in ("Failed", "SetupFailed") else ""
        message = plain(str(found.get("message") or ""))
        said = f"was {message}" if f"was {message}".startswith(how) else f"{how}{with_code}{message and f': {message}'}"
        which = f"task {task + 1}" if task is not None and outcome == "Succeeded" else f"attempt {attempt}"
        self._told = message
        self._say(f"--- {which} {said} ---")

    def remark(self, text: str) -> None:
        self._say(plain(text))

    def away(self) -> None:
        if not self._away:
            self._away = True
            self._say("The server does not answer; the job goes on without it. Trying again ...")

    def pause(self) -> None:
        """Leave the terminal to others: the line that is written over and over is gone."""
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
