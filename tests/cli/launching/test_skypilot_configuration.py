"""`~/.sky/config.yaml` is read where the state directory has no `config.yaml`, and that is said."""

from pathlib import Path

import pytest

from .conftest import Commands

GUIDE = """\
kubernetes:
  provision_timeout: -1
  remote_identity: SERVICE_ACCOUNT
  pod_config:
    metadata:
      labels:
        kueue.x-k8s.io/queue-name: default
"""


@pytest.fixture
def skypilot() -> Path:
    path = Path("~/.sky/config.yaml").expanduser()
    path.parent.mkdir()
    return path


def test_skypilot_s_file_is_read_and_said_once(fairway: Commands, skypilot: Path) -> None:
    skypilot.write_text(GUIDE)
    said = fairway.run("jobs", "launch", "-y", "-d", "-n", "sky", "--", "true")
    assert said.code == 0, said.errors
    assert said.errors.count("reading ~/.sky/config.yaml, because ") == 1
    (job,) = [one for one in fairway.json("jobs", "queue", "--all") if one["name"] == "sky"]
    assert job["queue"] == "default"


def test_a_configuration_of_one_s_own_takes_its_place(fairway: Commands, skypilot: Path) -> None:
    skypilot.write_text("no such field: 1\n")
    said = fairway.refused("jobs", "launch", "-y", "-d", "--", "true", code=2)
    assert "no such field" in said
    assert f"this file is read because {fairway.server.state / 'config.yaml'} does not exist" in said
    own = fairway.server.state / "config.yaml"
    own.write_text("jobs: {priority: 5}\n")
    try:
        assert ".sky" not in fairway.run("jobs", "launch", "-y", "-d", "--", "true").errors
    finally:
        own.unlink()
