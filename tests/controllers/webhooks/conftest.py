"""Every test of a plugin runs both ways."""

import pytest


@pytest.fixture(params=["direct", "reviewed"])
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found
