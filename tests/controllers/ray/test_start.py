"""The program that runs `ray start` in a pod, with a stand-in for `ray`."""

import os
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "src"
_RAY = """\
#!/bin/sh
for word; do case $word in --temp-dir=*) dir=${word#*=} ;; esac; done
mkdir "$dir/session" && echo "$@" >"$RAY_TMPDIR/session/arguments"
"""


def test_ray_has_the_volume_as_its_temporary_directory_by_a_short_path(tmp_path: Path) -> None:
    programs, volume = tmp_path / "bin", tmp_path / ("a-long-name" * 10)
    programs.mkdir()
    volume.mkdir()
    (programs / "ray").write_text(_RAY)
    (programs / "ray").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "THE_VOLUME": str(volume)}
    command = [
        str(programs / "python"),
        "-P",
        "-m",
        "fairway.controllers.ray.start",
        "THE_VOLUME",
        "--head",
        "--port=20001",
    ]

    subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=120)  # noqa: S603

    start, head, port, directory = (volume / "session" / "arguments").read_text().split()
    assert (start, head, port) == ("start", "--head", "--port=20001")
    socket = f"{directory.partition('=')[2]}/session_2026-11-17_08-00-29_596607_4194304/sockets/dash_MetricsHead"
    assert len(socket) <= 107
