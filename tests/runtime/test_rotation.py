"""The log file rotates although it is the standard output of the process."""

import subprocess
import sys
from pathlib import Path

from fairway.testing.servers import Server

WRITER = """
import logging, pathlib, sys
from fairway.runtime.rotation import RotatingOutput
path = pathlib.Path(sys.argv[1])
logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[RotatingOutput(path, 4000, 2)])
for number in range(1000):
    logging.info("record %04d", number)
    if number % 100 == 0:
        print("printed", number, flush=True)
"""


def written_to(path: Path, output: Path) -> None:
    with output.open("ab") as file:
        subprocess.run([sys.executable, "-c", WRITER, str(path)], stdout=file, stderr=file, check=True)  # noqa: S603


def test_a_bounded_number_of_files_of_bounded_size_with_all_that_was_written_last(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    written_to(log, log)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["server.log", "server.log.1", "server.log.2"]
    assert all(file.stat().st_size < 8000 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files[:1])
    text = "".join(file.read_text() for file in reversed(files))
    records = [int(line.split()[1]) for line in text.splitlines() if line.startswith("record")]
    assert records == list(range(records[0], 1000)), "nothing is lost between two files"
    assert len(records) > 500
    assert "printed 900" in text, "what is printed follows into the new file"


def test_an_output_that_is_another_file_is_left_alone(tmp_path: Path) -> None:
    written_to(tmp_path / "server.log", tmp_path / "mine.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    assert len((tmp_path / "mine.txt").read_text().splitlines()) == 1010


def test_a_server_whose_log_is_large_begins_a_new_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "server.log").write_bytes(b"x" * (11 << 20))
    with Server(state) as server:
        assert server.call("GET", "/readyz").code == 200
    assert (state / "server.log.1").stat().st_size >= 11 << 20
    assert (state / "server.log").stat().st_size < 1 << 20
    assert "Fairway is serving" in (state / "server.log").read_text()
