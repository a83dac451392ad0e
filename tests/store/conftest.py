"""Both logs, for every test that asks for one."""

from pathlib import Path

import pytest

from fairway.testing.stores import OpenLog, log_in_memory, log_on_a_file


@pytest.fixture(params=["on a file", "in memory"])
def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLog:
    return log_on_a_file(tmp_path / "fairway.db") if request.param == "on a file" else log_in_memory()
