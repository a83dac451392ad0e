"""State directories with a supervisor, and none of their processes left when a test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .servers import end_supervisor, living


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A state directory for one test alone, which may kill its supervisor."""
    yield tmp_path
    end_supervisor(tmp_path)
    assert living(tmp_path) == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory for all tests of a file, whose supervisor lives through them as it does through restarts."""
    directory = tmp_path_factory.mktemp("state")
    yield directory
    end_supervisor(directory)
    assert living(directory) == []
