"""Which other servers a server may hand jobs to, by what its configuration says."""

from pathlib import Path

import pytest

from client.rest.scripted import write_kubeconfig
from fairway.contexts import other_servers
from fairway.runtime.clock import SystemClock
from fairway.settings import Settings


@pytest.mark.parametrize(
    ("configuration", "host", "known"),
    [
        pytest.param(None, "127.0.0.1", True, id="nothing said, for this machine alone"),
        pytest.param(None, "0.0.0.0", False, id="nothing said, for others as well"),  # noqa: S104 - not listened on
        pytest.param("kubernetes: {allowed_contexts: all}", "0.0.0.0", True, id="all of them, for others"),  # noqa: S104
        pytest.param("kubernetes: {allowed_contexts: [here]}", "127.0.0.1", True, id="this one"),
        pytest.param("kubernetes: {allowed_contexts: [far]}", "127.0.0.1", False, id="another one"),
        pytest.param("kubernetes: {allowed_contexts: []}", "127.0.0.1", False, id="none"),
        pytest.param("kubernetes: {allowed_contexts: 5}", "127.0.0.1", False, id="a mistake allows nothing"),
    ],
)
def test_contexts_that_may_be_used(
    configuration: str | None,
    host: str,
    known: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kube")
    if configuration is not None:
        (tmp_path / "config.yaml").write_text(configuration)

    remotes = other_servers(
        Settings(state=tmp_path, host=host, insecure=True), {"KUBECONFIG": str(kubeconfig)}, SystemClock()
    )

    assert remotes.knows("here") is known


def test_the_configuration_names_the_kubeconfig_before_the_environment_does(tmp_path: Path) -> None:
    named = write_kubeconfig(tmp_path / "named")
    (tmp_path / "config.yaml").write_text(f"kubernetes: {{kubeconfig: {named}}}")

    remotes = other_servers(Settings(state=tmp_path), {"KUBECONFIG": str(tmp_path / "missing")}, SystemClock())

    assert remotes.knows("here")


def test_without_either_it_is_that_of_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube" / "config")

    assert other_servers(Settings(state=tmp_path), {}, SystemClock()).knows("here")
