"""One world for all tests of a module: what a request leaves behind is there when the next one comes."""

from collections.abc import Iterator

import pytest

from fuzz.manifests import NAMESPACE
from fuzz.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("state")) as world:
        world.place_canary()
        world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield world
