"""Exec plugins: real programs that print credentials, or do not."""

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from client.rest.scripted import Scripted, answer
from fairway.client.rest import KubeconfigError, plugins
from fairway.client.rest.kubeconfig import Endpoint

_V1 = "client.authentication.k8s.io/v1"
_ENDPOINT = Endpoint("https://a:1", https=True, host="a", port=1, authority="PEM", plugin_config={"audience": "x"})


def program(tmp_path: Path, body: str) -> dict[str, Any]:
    """A plugin with this for its program; `say` prints an ExecCredential."""
    path = tmp_path / "plugin"
    path.write_text(
        f"#!{sys.executable} -S\n"
        "import json, os, sys\n"
        "def say(status, version='client.authentication.k8s.io/v1', kind='ExecCredential'):\n"
        "    print(json.dumps({'apiVersion': version, 'kind': kind, 'status': status}))\n" + textwrap.dedent(body)
    )
    path.chmod(0o700)
    return {"apiVersion": _V1, "command": str(path), "interactiveMode": "Never"}


def made(plugin: dict[str, Any], seconds: float = 30.0) -> plugins.Made:
    return plugins.credentials(plugin, _ENDPOINT, "kubeconfig: user 'ann'", seconds=seconds)


def test_a_token_and_its_end(tmp_path: Path) -> None:
    plugin = program(tmp_path, "say({'token': 'abc', 'expirationTimestamp': '1970-01-01T00:01:00Z'})")

    assert made(plugin) == plugins.Made(token="abc", expires=60.0)  # noqa: S106 - no secret


def test_a_certificate(tmp_path: Path) -> None:
    plugin = program(tmp_path, "say({'clientCertificateData': 'C', 'clientKeyData': 'K'})")

    assert made(plugin) == plugins.Made(certificate="C", key="K")


def test_the_older_version_is_answered_in_kind(tmp_path: Path) -> None:
    older = "client.authentication.k8s.io/v1beta1"
    plugin = program(tmp_path, f"say({{'token': 'abc'}}, {older!r})")

    assert made({**plugin, "apiVersion": older}).token == "abc"  # noqa: S105 - no secret


def test_what_a_program_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    told = tmp_path / "told"
    plugin = program(
        tmp_path,
        f"""
        info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        facts = [sys.argv[1:], os.environ["INHERITED"], os.environ["GIVEN"], sys.stdin.read(), info]
        open({str(told)!r}, "w").write(json.dumps(facts))
        say({{"token": "abc"}})
        """,
    )
    plugin |= {"args": ["get", "token"], "env": [{"name": "GIVEN", "value": "too"}], "provideClusterInfo": True}

    made(plugin)

    cluster = {"server": "https://a:1", "certificate-authority-data": "UEVN", "config": {"audience": "x"}}
    info = {"apiVersion": _V1, "kind": "ExecCredential", "spec": {"interactive": False, "cluster": cluster}}
    assert json.loads(told.read_text()) == [["get", "token"], "yes", "too", "", info]


@pytest.mark.parametrize(
    ("body", "changes", "sentence"),
    [
        pytest.param("sys.exit(3)", {}, "failed with exit code 3", id="a failure"),
        pytest.param("os.kill(os.getpid(), 9)", {}, "failed with exit code -9", id="a death"),
        pytest.param("print('secret')", {}, "printed something that is not JSON", id="no JSON"),
        pytest.param("print('[]')", {}, "did not print an ExecCredential", id="another kind"),
        pytest.param("say({})", {}, "printed neither a token nor a certificate", id="nothing in it"),
        pytest.param("say(None)", {}, "printed neither a token nor a certificate", id="no status"),
        pytest.param("say({'token': 'a'}, 'v2')", {}, "printed 'v2', expected", id="another version"),
        pytest.param("say({'clientKeyData': 'K', 'token': 'a'})", {}, "a key without its cert", id="half a pair"),
        pytest.param(
            "say({'token': 'a', 'expirationTimestamp': 'soon'})", {}, "that is not a time", id="no time"
        ),
        pytest.param(
            "say({'token': 'a', 'expirationTimestamp': '2030-01-01T00:00:00'})", {}, "without a time zone", id="no zone"
        ),
        pytest.param("print('x' * 2_000_000)", {}, "was ended: it took more than 30 s or print", id="a flood"),
        pytest.param("", {"command": "no-such-program"}, "there is no program 'no-such-program'", id="no program"),
        pytest.param(
            "", {"command": "no-such-program", "installHint": "Get it."}, "'no-such-program'. Get it.", id="a hint"
        ),
        pytest.param("", {"command": os.devnull}, "cannot be started: Permission denied", id="nothing to start"),
        pytest.param("", {"command": ""}, "exec.command: the name of a program is expected", id="no name"),
        pytest.param("", {"apiVersion": "v1alpha1"}, "exec.apiVersion: 'v1alpha1' is not supported", id="old version"),
        pytest.param("", {"args": "get"}, "exec.args: a list of texts is expected", id="arguments as one text"),
        pytest.param("", {"env": ["A=b"]}, "exec.env: a list of mappings", id="variables as texts"),
        pytest.param("", {"interactiveMode": "Maybe"}, "interactiveMode: 'Maybe' is none of", id="an unknown mode"),
        pytest.param("", {"interactiveMode": "Always"}, "asks for a terminal, and there is none", id="no terminal"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_clear_sentence_without_secrets(
    body: str, changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(KubeconfigError) as raised:
        made({**program(tmp_path, body), **changes})

    assert str(raised.value).startswith("kubeconfig: user 'ann': exec.")
    assert sentence in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    ready, alive = os.pipe()
    os.set_inheritable(alive, True)  # noqa: FBT003 - that is its signature
    plugin = program(tmp_path, "import subprocess; subprocess.run(['sleep', '1000'], close_fds=False)")

    with pytest.raises(KubeconfigError, match=r"it took more than 0\.3 s"):
        made(plugin, seconds=0.3)

    os.close(alive)
    assert os.read(ready, 1) == b"", "nobody may hold it any more"
    os.close(ready)


@pytest.mark.parametrize(
    ("mode", "interactive"),
    [("Never", False), ("IfAvailable", True), ("Always", True)],
)
def test_who_sits_at_a_terminal_may_be_asked(
    mode: str,
    interactive: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = program(tmp_path, "say({'token': str(json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec'])})")
    controlling, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)

        assert made({**plugin, "interactiveMode": mode}).token == str({"interactive": interactive})

    os.close(controlling)


def counting(tmp_path: Path, expires: str) -> dict[str, Any]:
    """A plugin whose tokens are t1, t2, …"""
    plugin = program(
        tmp_path,
        f"""
        path = {str(tmp_path / "count")!r}
        count = int(open(path).read()) + 1 if os.path.exists(path) else 1
        open(path, "w").write(str(count))
        say({{"token": f"t{{count}}", "expirationTimestamp": {expires!r}}})
        """,
    )
    return {"exec": plugin}


def tokens(server: Scripted) -> list[str]:
    return [
        line.decode().removeprefix("Authorization: Bearer ")
        for request in server.requests
        for line in request.split(b"\r\n")
        if line.startswith(b"Authorization")
    ]


def test_credentials_are_used_until_they_end(tmp_path: Path) -> None:
    now = [0.0]
    with Scripted([answer()] * 4) as server:
        rest = server.rest(counting(tmp_path, "1970-01-01T00:01:00Z"), now=lambda: now[0])
        for moment in (0.0, 54.0, 56.0, 56.0):
            now[0] = moment
            if moment == 56.0:
                (tmp_path / "plugin").write_text((tmp_path / "plugin").read_text().replace("00:01:00", "00:05:00"))
            rest.get("/api")

        assert tokens(server) == ["t1", "t1", "t2", "t2"]


def test_a_clone_shares_them(tmp_path: Path) -> None:
    with Scripted([answer()], [answer()]) as server:
        rest = server.rest(counting(tmp_path, ""))
        rest.get("/api")
        rest.close()
        with rest.clone() as other:
            other.get("/api")

        assert tokens(server) == ["t1", "t1"]


def test_who_is_not_let_in_asks_for_new_ones_once(tmp_path: Path) -> None:
    refused = answer(b"", "401 Unauthorized")
    with Scripted([refused], [answer(b'{"a": 1}')]) as server:
        assert server.rest(counting(tmp_path, "")).get("/api") == {"a": 1}
        assert tokens(server) == ["t1", "t2"]
