"""Volumes and mounts: what is in them, where they are found, and what is refused rather than done wrongly."""

import stat
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.runner.mounts import mounted, variable_of, variables
from fairway.runner.pods.environment import Sources
from fairway.runner.pods.troubles import ConfigError
from fairway.runner.volumes import made_volumes

from .worlds import container, pod

CONFIG = {"data": {"a.txt": "A", "b.txt": "B"}, "binaryData": {"c.bin": b64encode(b"\x00\x01").decode()}}
SECRET = {"data": {"key": b64encode(b"s3cret").decode()}}


def sources() -> Sources:
    return Sources(
        lambda _, name: CONFIG if name == "config" else None,
        lambda _, name: SECRET if name == "login" else None,
        {"cpu": "8"},
    )


def with_volume(**source: Any) -> Manifest:
    manifest = pod("p", volumes=[{"name": "vol", **source}])
    manifest["metadata"] |= {"uid": "u", "labels": {"b": "2", "a": 'say "1"'}}
    return manifest


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param({"emptyDir": {}}, {}, id="an empty directory"),
        pytest.param(
            {"configMap": {"name": "config"}},
            {"a.txt": b"A", "b.txt": b"B", "c.bin": b"\x00\x01"},
            id="all of a config map",
        ),
        pytest.param(
            {"configMap": {"name": "config", "items": [{"key": "a.txt", "path": "deep/down.txt"}]}},
            {"deep/down.txt": b"A"},
            id="some of it, under another name",
        ),
        pytest.param({"configMap": {"name": "none", "optional": True}}, {}, id="nothing of an optional one"),
        pytest.param({"secret": {"secretName": "login"}}, {"key": b"s3cret"}, id="a secret"),
        pytest.param(
            {
                "downwardAPI": {
                    "items": [
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
                    ]
                }
            },
            {"labels": b'a="say \\"1\\""\nb="2"', "cpu": b"8"},
            id="what the pod says of itself",
        ),
        pytest.param(
            {"projected": {"sources": [{"secret": {"name": "login"}}, {"configMap": {"name": "config"}}]}},
            {"key": b"s3cret", "a.txt": b"A", "b.txt": b"B", "c.bin": b"\x00\x01"},
            id="several in one",
        ),
    ],
)
def test_what_is_in_a_volume(tmp_path: Path, source: dict[str, Any], want: dict[str, bytes]) -> None:
    place = made_volumes(with_volume(**source), tmp_path, sources())["vol"]
    assert contents(place) == want
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert contents(made_volumes(with_volume(**source), tmp_path, sources())["vol"]) == want, "and again"


def test_a_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    place = made_volumes(with_volume(secret={"secretName": "login", "defaultMode": 0o644}), tmp_path, sources())["vol"]
    assert stat.S_IMODE((place / "key").stat().st_mode) == 0o600


def test_a_script_in_a_config_map_can_be_executable(tmp_path: Path) -> None:
    place = made_volumes(with_volume(configMap={"name": "config", "defaultMode": 0o755}), tmp_path, sources())["vol"]
    assert stat.S_IMODE((place / "a.txt").stat().st_mode) == 0o755


def test_an_empty_directory_keeps_what_was_written_when_it_is_made_again(tmp_path: Path) -> None:
    place = made_volumes(with_volume(emptyDir={}), tmp_path, sources())["vol"]
    (place / "checkpoint").write_text("7")
    assert contents(made_volumes(with_volume(emptyDir={}), tmp_path, sources())["vol"]) == {"checkpoint": b"7"}


def test_host_paths_are_what_they_are(tmp_path: Path) -> None:
    there = tmp_path / "there"
    made = made_volumes(with_volume(hostPath={"path": str(there), "type": "DirectoryOrCreate"}), tmp_path, sources())
    assert made == {"vol": there}
    assert there.is_dir()


@pytest.mark.parametrize(
    ("source", "want", "lasting"),
    [
        pytest.param(
            {"configMap": {"name": "none"}}, 'volume "vol": configmap "none" not found', False, id="config map"
        ),
        pytest.param({"secret": {"secretName": "none"}}, 'volume "vol": secret "none" not found', False, id="secret"),
        pytest.param(
            {"configMap": {"name": "config", "items": [{"key": "z", "path": "z"}]}},
            'volume "vol": references non-existent config key: z',
            False,
            id="key",
        ),
        pytest.param(
            {"hostPath": {"path": "/nowhere", "type": "Directory"}},
            'volume "vol": hostPath type check failed: /nowhere is not a Directory',
            False,
            id="host path",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "c"}},
            'volume "vol": there is no persistentVolumeClaim on this machine; use hostPath or emptyDir',
            True,
            id="a kind of volume that one machine has not",
        ),
        pytest.param(
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            'volume "vol": there is no serviceAccountToken on this machine',
            True,
            id="a token",
        ),
        pytest.param(
            {"configMap": {"name": "config", "items": [{"key": "a.txt", "path": "../../a"}]}},
            "volume \"vol\": '../../a' leads out of the volume",
            True,
            id="a way out",
        ),
    ],
)
def test_what_a_volume_cannot_be(tmp_path: Path, source: dict[str, Any], want: str, lasting: bool) -> None:  # noqa: FBT001
    with pytest.raises(ConfigError) as refused:
        made_volumes(with_volume(**source), tmp_path, sources())
    assert (refused.value.trouble.message, refused.value.trouble.lasting) == (want, lasting)


def mount(tmp_path: Path, path: str, *, real: Path | None = None, **fields: Any) -> Any:
    manifest = with_volume(**({"emptyDir": {}} if real is None else {"hostPath": {"path": str(real)}}))
    part = container("main", volumeMounts=[{"name": "vol", "mountPath": path, **fields}])
    volume = real or tmp_path / "volume"
    volume.mkdir(exist_ok=True)
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return mounted(manifest, part, {"vol": volume}, {"NUMBER": "7"}, work)


def test_a_host_path_that_is_mounted_where_it_is_needs_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert mount(tmp_path, str(data), real=data).missing == ()


def test_a_relative_path_is_linked_into_the_working_directory(tmp_path: Path) -> None:
    for _ in range(2):  # the container is restarted
        assert mount(tmp_path, "conf/here").missing == ()
    assert (tmp_path / "work" / "conf" / "here").readlink() == tmp_path / "volume"


def test_scratch_below_tmp_is_the_machines_own(tmp_path: Path) -> None:
    assert mount(tmp_path, "/dev/shm").missing == ()  # noqa: S108
    assert mount(tmp_path, "/tmp/ray").missing == ()  # noqa: S108


def test_a_path_where_nothing_is_stays_empty_and_is_told(tmp_path: Path) -> None:
    found = mount(tmp_path, "/nothing/here")
    assert found.missing == (("vol", "/nothing/here"),)
    assert found.directory("/nothing/here/src") == str(tmp_path / "volume" / "src")
    assert found.directory("/elsewhere") == "/elsewhere"


def test_a_path_where_the_machine_has_something_else_is_refused(tmp_path: Path) -> None:
    for path, real in (("/etc", None), ("/usr/bin", tmp_path / "data"), ("/tmp", tmp_path / "data")):  # noqa: S108
        with pytest.raises(ConfigError, match="this machine has files of its own there") as refused:
            mount(tmp_path, path, real=real)
        assert refused.value.trouble.lasting


def test_a_part_of_a_volume_can_be_mounted(tmp_path: Path) -> None:
    mount(tmp_path, "part", subPathExpr="run-$(NUMBER)")
    assert (tmp_path / "work" / "part").readlink() == tmp_path / "volume" / "run-7"
    assert (tmp_path / "volume" / "run-7").is_dir()
    with pytest.raises(ConfigError, match="leads out of the volume"):
        mount(tmp_path, "part", subPath="../..")
    with pytest.raises(ConfigError, match="leads out of the working directory"):
        mount(tmp_path, "../up")


def test_a_volume_has_a_variable() -> None:
    assert variable_of("my-data.1") == "FAIRWAY_VOLUME_MY_DATA_1"
    assert variables({"a": Path("/x")}) == {"FAIRWAY_VOLUME_A": "/x"}
