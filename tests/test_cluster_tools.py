"""`tools/cluster` without a cluster: images and their registry, and the words for what a machine lacks."""

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tools.cluster import machine, versions
from tools.cluster.build import GROUPS, Builder, programs
from tools.cluster.lifecycle import Place, RunningCluster
from tools.cluster.oci import Config, Layout
from tools.cluster.places import Cache, ClusterError
from tools.cluster.processes import Daemons
from tools.cluster.registry import handler_of


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


def _image(layout: Layout, directory: Path, name: str, content: str, recipe: str = "1") -> None:
    directory.mkdir(exist_ok=True)
    (directory / "file").write_text(content)
    with layout.locked():
        layout.add([name], [layout.layer(directory)], Config(command=["sh"]), recipe)


def test_an_image_is_known_by_name_and_recipe(layout: Layout, tmp_path: Path) -> None:
    _image(layout, tmp_path / "root", "docker.io/library/one:1", "content")

    assert layout.has("docker.io/library/one:1", "1")
    assert not layout.has("docker.io/library/one:1", "2")
    assert not layout.has("docker.io/library/other:1", "1")


def test_blobs_of_a_replaced_image_are_removed(layout: Layout, tmp_path: Path) -> None:
    for content in ("first", "second"):
        _image(layout, tmp_path / "root", "docker.io/library/one:1", content, recipe=content)

    assert len(list((layout.root / "blobs/sha256").iterdir())) == 3  # manifest, configuration, layer


def test_the_same_content_is_stored_once(layout: Layout, tmp_path: Path) -> None:
    for name in ("one", "two"):
        _image(layout, tmp_path / "root", f"docker.io/library/{name}:1", "same")

    assert layout.layers("docker.io/library/one:1") == layout.layers("docker.io/library/two:1")
    assert len(list((layout.root / "blobs/sha256").iterdir())) == 3


@pytest.fixture
def registry(layout: Layout) -> Iterator[Callable[[str], bytes]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(layout))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def get(path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=10) as answer:
            return bytes(answer.read())

    yield get
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_registry_serves_what_containerd_asks_for(
    layout: Layout, registry: Callable[[str], bytes], tmp_path: Path
) -> None:
    _image(layout, tmp_path / "root", "docker.io/library/one:1", "content")
    _image(layout, tmp_path / "root", "registry.k8s.io/two:1", "other")
    assert registry("/v2/") == b""
    first: Any = json.loads(registry("/v2/library/one/manifests/1?ns=docker.io"))
    second: Any = json.loads(registry("/v2/two/manifests/1?ns=registry.k8s.io"))
    assert first["layers"] != second["layers"]
    assert json.loads(registry(f"/v2/library/one/blobs/{first['config']['digest']}"))["config"]["Cmd"] == ["sh"]
    assert b"content" in registry(f"/v2/library/one/blobs/{first['layers'][0]['digest']}")


@pytest.mark.parametrize(
    "path",
    [
        "/v2/library/one/manifests/2?ns=docker.io",
        "/v2/library/one/manifests/1?ns=registry.k8s.io",
        "/v2/library/one/blobs/sha256:" + "0" * 64,
        "/v2/library/one/blobs/..%2f..%2findex.json",
        "/v2/library/one/blobs/../../index.json",
        "/index.json",
    ],
)
def test_the_registry_has_nothing_else(
    layout: Layout, registry: Callable[[str], bytes], tmp_path: Path, path: str
) -> None:
    _image(layout, tmp_path / "root", "docker.io/library/one:1", "content")

    with pytest.raises(urllib.error.HTTPError, match="404"):
        registry(path)


def test_groups_and_programs_are_built_in_one_order() -> None:
    assert programs(["kubelet", "etcd"]) == ["etcd", "kubelet"]
    assert programs(["dns", "kube"]) == [*GROUPS["kube"], "coredns"]


def _no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)


def _version_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)


def test_without_root_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_root(monkeypatch)
    with pytest.raises(ClusterError, match=r"needs root.*sudo.*KUBELET=0"):
        machine.require_node()


def test_control_groups_of_version_2_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _version_2(monkeypatch, tmp_path)
    with pytest.raises(ClusterError, match=r"version 2 only.*KUBELET=0"):
        machine.require_cgroups()


def test_control_groups_that_cannot_be_written_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    with pytest.raises(ClusterError, match="cpuset, memory, pids"):
        machine.require_cgroups()


def test_without_packages_apt_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(machine, "require_cgroups", lambda: None)
    with pytest.raises(ClusterError, match=r"apt install .*containerd.*runc"):
        machine.require_node()


def test_without_go_nothing_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="there is no go on the PATH"):
        Builder(Cache(tmp_path), print).build(["control-plane"])


def test_without_disk_the_variables_are_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"1000000 GB are needed.*FAIRWAY_CLUSTER_CACHE.*GOCACHE"):
        machine.require_disk(tmp_path / "not" / "there", 1_000_000)


def test_a_binary_that_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"tools\.cluster build kubelet"):
        Cache(tmp_path).binary("kubelet")


def test_a_group_that_is_unknown_lists_the_groups() -> None:
    with pytest.raises(ClusterError, match=r"no group or program kubernetes.*control-plane, kube, dns"):
        programs(["kubernetes"])


@pytest.mark.parametrize("name", ["", "../x", "Upper", "a/b", "-a", "x" * 33])
def test_a_name_that_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no name for a cluster"):
        Place(name, Cache(tmp_path))


def test_a_cluster_that_is_not_up_says_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="make cluster NAME=two"):
        RunningCluster.find("two", Cache(tmp_path))


def test_a_daemon_that_ends_is_an_error_with_its_log(tmp_path: Path) -> None:
    with Daemons(tmp_path) as daemons:
        daemons.start("broken", ["sh", "-c", "echo because; exit 3"])
        daemons._running["broken"].wait(30)
        with pytest.raises(ClusterError, match=r"broken ended with code 3.*(?s:.)*because"):
            daemons.check()


@pytest.mark.parametrize(
    "file", sorted(Path(__file__).parents[1].glob("examples/ray/*.yaml")), ids=lambda file: file.name
)
def test_the_examples_name_the_image_of_ray_that_a_cluster_has(file: Path) -> None:
    images = re.findall(r"rayproject/ray:[\w.]+", file.read_text())

    assert set(images) == {f"rayproject/ray:{versions.RAY}"}
