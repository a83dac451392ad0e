"""Draws docs/images/top.svg: the live table of `fairway top`, as it is in the middle of the story of `make demo`.

    .venv/bin/python tools/pictures/top.py

Real jobs on a real server; run it again when the table looks different.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from fairway.cli import top
from fairway.cli.session import open_session

ROOT = Path(__file__).parents[2]
FAIRWAY = Path(sys.executable).with_name("fairway")
COLUMNS = 132
CHARACTER, LINE, MARGIN = 7.8, 18, 14
PATIENCE_SECONDS = 60.0
COLOURS = {"31": "#f85149", "32": "#3fb950", "33": "#d29922", "34": "#58a6ff", "35": "#bc8cff", "36": "#39c5cf"}
ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def scene(state: Path) -> str:
    """One frame: a job that recovers, one that has taken its place, some that wait."""
    environment = {**os.environ, "FAIRWAY_STATE": str(state), "FAIRWAY_PORT": "0"}

    def fairway(*words: str) -> None:
        subprocess.run([FAIRWAY, *words], check=True, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)  # noqa: S603

    fairway("up", "--cpus", "16", "--memory", "64Gi", "--gpus", "8")
    try:
        fairway("apply", "-f", "examples/queues.yaml")
        fairway("jobs", "launch", "-y", "-d", "-n", "finetune", "examples/tasks/train.yaml")
        _until(state, "finetune", "RUNNING")
        time.sleep(4)  # so that the picture shows that it ran
        fairway("jobs", "launch", "-y", "-d", "-n", "ablation", "--num-jobs", "3", "examples/tasks/train.yaml")
        fairway("jobs", "launch", "-y", "-d", "-n", "hotfix-eval", "examples/tasks/urgent.yaml")
        _until(state, "hotfix-eval", "RUNNING")
        time.sleep(1.5)
        with open_session(state=state) as session:
            return top.frame(top.snapshot(session), COLUMNS, None, datetime.now(UTC), colours=True)
    finally:
        fairway("shutdown", "--jobs")


def _until(state: Path, name: str, phase: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    with open_session(state=state) as session:
        while not any(job.name == name and job.phase == phase for job in top.snapshot(session).jobs):
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} is not {phase}")
            time.sleep(0.05)


def drawing(text: str) -> str:
    """Lines with colours as an SVG."""
    lines = text.splitlines()
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    body = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 0.75):.1f}" xml:space="preserve">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="13" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" fill="#e6edf3">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n{chr(10).join(body)}\n</svg>\n'
    )


def _spans(line: str) -> str:
    parts, style = [], ""
    position = 0
    for found in [*ESCAPE.finditer(line), None]:
        piece = line[position : found.start() if found else len(line)]
        if piece:
            parts.append(f"<tspan{style}>{html.escape(piece)}</tspan>")
        if found:
            position = found.end()
            style = _style(found[1].split(";"))
    return "".join(parts)


def _style(codes: list[str]) -> str:
    said = "".join(f' fill="{COLOURS[code]}"' for code in codes if code in COLOURS)
    return said + (' font-weight="bold"' if "1" in codes else "") + (' opacity="0.6"' if "2" in codes else "")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        frame = scene(Path(directory) / "state")
    (ROOT / "docs/images/top.svg").write_text(drawing(frame))
    print(ESCAPE.sub("", frame))
