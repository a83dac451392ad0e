"""How one part of a pod is laid over another."""

from typing import Any

import pytest

from fairway.managedjobs.merging import merged


@pytest.mark.parametrize(
    ("below", "above", "want"),
    [
        pytest.param({"a": 1, "b": 1}, {"b": 2, "c": 2}, {"a": 1, "b": 2, "c": 2}, id="what is above wins"),
        pytest.param({"m": {"a": 1, "b": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}, id="maps key by key"),
        pytest.param({"a": 1, "b": 1}, {"a": None}, {"b": 1}, id="null takes away"),
        pytest.param({"m": {"a": 1}}, {"m": 5}, {"m": 5}, id="another sort of value replaces"),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]},
            {"env": [{"name": "B", "value": "2"}, {"name": "C", "value": "2"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "2"}]},
            id="lists of named things by name",
        ),
        pytest.param(
            {"containers": [{"image": "a", "tty": True}]},
            {"containers": [{"image": "b"}]},
            {"containers": [{"image": "b", "tty": True}]},
            id="containers without a name by their place",
        ),
        pytest.param(
            {"containers": [{"name": "run"}]},
            {"containers": [{"tty": True}, {"name": "side"}]},
            {"containers": [{"name": "run", "tty": True}, {"name": "side"}]},
            id="a container without a name is the one at its place",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "b"}]},
            {"containers": [{"name": "a"}, {"name": "b"}]},
            id="containers of two names are two",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "a"}, {"key": "b"}]},
            {"tolerations": [{"key": "a"}, {"key": "b"}]},
            id="other lists are appended without what is there",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}, {"name": "w", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "w", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
            id="mounts by their path",
        ),
    ],
)
def test_one_part_over_another(below: dict[str, Any], above: dict[str, Any], want: dict[str, Any]) -> None:
    before = repr((below, above))

    assert merged(below, above) == want
    assert repr((below, above)) == before
