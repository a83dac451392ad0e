"""Kubeconfig files, as people have them and as they should not be."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from client.rest.scripted import write_kubeconfig
from fairway.client.rest import KubeconfigError, open_rest
from fairway.client.rest.kubeconfig import load

_YAML = """
apiVersion: v1
kind: Config
current-context: far
clusters:
- name: two
  cluster: {server: "https://far.example:6443/clusters/a/", insecure-skip-tls-verify: true, tls-server-name: api}
users:
- name: ben
  user:
    token: fw_ben
contexts:
- name: far
  context:
    cluster: two
    user: ben
"""


def test_a_context_is_put_together_from_its_parts(tmp_path: Path) -> None:
    rest = open_rest(write_kubeconfig(tmp_path / "kubeconfig"))

    assert (rest.context, rest.server, rest.namespace) == ("here", "https://127.0.0.1:7437", "research")


def test_yaml_is_read_as_kubectl_does(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(_YAML)

    context = load(path).context()

    assert (context.name, context.namespace, context.user) == ("far", "default", {"token": "fw_ben"})
    endpoint = context.endpoint
    assert (endpoint.host, endpoint.port, endpoint.base) == ("far.example", 6443, "/clusters/a")
    assert (endpoint.https, endpoint.verify, endpoint.server_name) == (True, False, "api")


def test_several_files_are_one_and_the_first_to_name_something_wins(tmp_path: Path) -> None:
    first = write_kubeconfig(tmp_path / "first")
    second = tmp_path / "second"
    second.write_text(_YAML + "- name: here\n  context: {cluster: two, user: ben}\n")

    merged = load(os.pathsep.join([str(tmp_path / "missing"), str(first), "", str(second)]))

    assert merged.names == ["here", "far"]
    assert merged.current == "here"
    assert merged.context("here").endpoint.host == "127.0.0.1"
    assert merged.context("far").endpoint.host == "far.example"


def test_a_file_with_a_colon_in_its_name_is_one_file(tmp_path: Path) -> None:
    assert load(write_kubeconfig(tmp_path / "a:b")).names == ["here"]


def test_paths_are_relative_to_the_file_that_has_them(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    user = {"tokenFile": "token", "client-key": "/keys/a", "exec": {"command": "./plugin"}}
    path = write_kubeconfig(
        folder / "config",
        clusters=[{"name": "one", "cluster": {"server": "https://a", "certificate-authority": "ca.pem"}}],
        users=[{"name": "ann", "user": user}],
    )

    context = load(path).context()

    assert context.endpoint.authority == "-----BEGIN CERTIFICATE-----"
    assert context.user["tokenFile"] == str(folder / "token")
    assert context.user["client-key"] == "/keys/a"
    assert context.user["exec"]["command"] == str(folder / "plugin")


@pytest.mark.parametrize(
    ("server", "host", "port", "https", "header"),
    [
        pytest.param("https://a.example", "a.example", 443, True, "a.example:443", id="https without a port"),
        pytest.param("http://a.example", "a.example", 80, False, "a.example:80", id="http without a port"),
        pytest.param("https://[::1]:7437", "::1", 7437, True, "[::1]:7437", id="IPv6"),
        pytest.param("https://ü.example:1", "xn--tda.example", 1, True, "xn--tda.example:1", id="letters beyond ASCII"),
        pytest.param("localhost:8080", "localhost", 8080, False, "localhost:8080", id="no scheme, as kubectl takes it"),
    ],
)  # fmt: skip
def test_addresses(server: str, host: str, port: int, https: bool, header: str, tmp_path: Path) -> None:  # noqa: FBT001
    path = write_kubeconfig(tmp_path / "kubeconfig", clusters=[{"name": "one", "cluster": {"server": server}}])

    endpoint = load(path).context().endpoint

    assert (endpoint.host, endpoint.port, endpoint.https, endpoint.host_header) == (host, port, https, header)


def cluster(**fields: Any) -> dict[str, Any]:
    return {"clusters": [{"name": "one", "cluster": {"server": "https://a", **fields}}]}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param({"current-context": ""}, "no current-context; name one of here", id="no current context"),
        pytest.param(
            {"current-context": "nowhere"}, "there is no context 'nowhere'; there is here", id="an unknown context"
        ),
        pytest.param({"clusters": []}, "no context 'here': cluster 'one'; there is none", id="no such cluster"),
        pytest.param({"users": []}, "there is no context 'here': user 'ann'", id="no such user"),
        pytest.param({"clusters": {"one": {}}}, "clusters: a list is expected, not dict", id="no list"),
        pytest.param({"clusters": ["one"]}, "clusters[0]: a mapping with a name is expected", id="no mapping"),
        pytest.param({"users": [{"name": "ann", "user": "x"}]}, "users[0].user: a mapping is expected", id="no user"),
        pytest.param(cluster(server=""), "server: it is missing", id="no address"),
        pytest.param(cluster(server=7437), "server: a text is expected, not 7437", id="a number for an address"),
        pytest.param(cluster(server="ftp://a"), "'ftp://a' is no address such as", id="another scheme"),
        pytest.param(cluster(server="https://a:port"), "'https://a:port' is no address", id="a port that is none"),
        pytest.param(cluster(server="https://"), "'https://' is no address", id="no host"),
        pytest.param(cluster(server=f"https://{'ü' * 70}"), "is no address such as", id="an impossible host"),
        pytest.param(
            cluster(server="https://ann:hunter2@a"), "there is a user in the address", id="a password in the address"
        ),
        pytest.param(cluster(**{"proxy-url": "http://p"}), "proxies are not supported", id="a proxy"),
        pytest.param(
            cluster(**{"certificate-authority-data": "a"}), "-authority-data: this is not base64", id="no base64"
        ),
        pytest.param(
            cluster(**{"certificate-authority-data": base64.b64encode(b"\xff").decode()}), "not a certificate in PEM",
            id="no PEM",
        ),
        pytest.param(
            cluster(**{"certificate-authority": "/nowhere/ca"}), "/nowhere/ca cannot be read: No such", id="no CA file"
        ),
        pytest.param(
            {"users": [{"name": "ann", "user": {"auth-provider": {"name": "gcp"}}}]}, "auth-provider: not supported",
            id="an auth provider",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_clear_sentence(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", **changes)

    with pytest.raises(KubeconfigError) as raised:
        open_rest(path)

    assert str(raised.value).startswith(str(path))
    assert sentence in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(b"a: [1", ":1: not YAML: ", id="broken YAML"),
        pytest.param(b"\ta: b", ":1: not YAML: ", id="a tab"),
        pytest.param(b"\xff\xfe\x00", ": not YAML", id="bytes"),
        pytest.param(b"- a", ": a kubeconfig is a mapping, and this is list", id="a list"),
        pytest.param(b'{"a": ', ":1: not YAML: ", id="half of some JSON"),
        pytest.param(b"", ": no current-context; name one of none in contexts", id="an empty file"),
        pytest.param(b"{" * 5000, ":1: not YAML", id="a deep hole"),
        pytest.param(b"#" * (5 << 20), ": larger than 4 MiB", id="something large"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_one_clear_sentence(text: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(text)

    with pytest.raises(KubeconfigError) as raised:
        open_rest(path)

    assert str(raised.value).startswith(f"{path}{sentence}")
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="kubeconfig: there is no such file"):
        open_rest(tmp_path / "kubeconfig")


def test_a_directory_says_so(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be read: Is a directory"):
        open_rest(tmp_path)
