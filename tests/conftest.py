"""What holds for all tests: hypothesis draws the same examples every time, so that a red build is about the change.

`make explore` draws new and more ones; what it finds becomes an example of its test. No server of a test listens on the
default port, where somebody's own may be, and none is left behind.
"""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import settings

os.environ["FAIRWAY_PORT"] = "0"
"""A command of a test that finds no server, because that one ended or was too slow, starts one: on a free port."""

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # Whoever runs the tests in the background may have these ignored, and the commands that are started here with them.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session", autouse=True)
def _no_server_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers on the directories of these tests that still run at the end are ended, and are an error."""
    yield
    left = [process for process in psutil.process_iter(["cmdline"]) if _serves(process, tmp_path_factory)]
    for process in left:
        process.terminate()
    _, stubborn = psutil.wait_procs(left, timeout=30)
    for process in stubborn:
        process.kill()
    assert not left, f"servers were left behind: {[process.info['cmdline'] for process in left]}"


def _serves(process: psutil.Process, places: pytest.TempPathFactory) -> bool:
    words = process.info["cmdline"] or []
    return "fairway.cli.main" in words and "serve" in words and any(str(places.getbasetemp()) in word for word in words)
