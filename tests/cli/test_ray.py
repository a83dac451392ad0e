"""`fairway ray`: what it says where there is no dashboard."""

from types import SimpleNamespace
from typing import Any

import pytest

from fairway.cli.ray import NoDashboard, _cluster
from fairway.errors import NotFound


def _session(**stored: dict[str, Any]) -> Any:
    def get(path: str) -> dict[str, Any]:
        plural, name = path.split("/")[-2:]
        if plural in stored and name == "train":
            return stored[plural]
        raise NotFound(path)

    return SimpleNamespace(namespace="team-a", rest=SimpleNamespace(get=get))


@pytest.mark.parametrize(
    ("session", "said"),
    [
        pytest.param(_session(), "there is no RayJob or RayCluster train in namespace team-a", id="nothing"),
        pytest.param(
            _session(rayjobs={"status": {}}), "RayJob train has no Ray cluster now: it is new", id="a new job"
        ),
        pytest.param(
            _session(rayjobs={"status": {"rayClusterName": "train-abcde"}}),
            "the Ray cluster of RayJob train is gone; its output: `kubectl logs job/train`",
            id="a job that ended",
        ),
    ],
)
def test_a_dashboard_that_is_not_there(session: Any, said: str) -> None:
    with pytest.raises(NoDashboard) as caught:
        _cluster(session, "train")
    assert str(caught.value) == said
