"""Which controllers run where: `serve --controllers` and `fairway controller`, as somebody at a terminal meets them."""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fairway.settings import CONTROLLERS, SettingsError, selected_controllers
from fairway.testing.servers import DidNotStart, Server

FOLDERS = Path(__file__).parents[2] / "src" / "fairway" / "controllers"
NOT_SELECTABLE = {"decider", "defaults", "kit", "webhooks"}
"""Shared pieces, and what stays with the API server."""


def fairway(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - the interpreter that runs this, with our own module
        [sys.executable, "-m", "fairway.cli.main", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("all", set(CONTROLLERS), id="all"),
        pytest.param("none", set(), id="none"),
        pytest.param("admission, workload", {"admission", "workload"}, id="names"),
        pytest.param("-managedjob,-pods", set(CONTROLLERS) - {"managedjob", "pods"}, id="all but two"),
        pytest.param("all,-pods", set(CONTROLLERS) - {"pods"}, id="all but one, said in full"),
        pytest.param("admission,pods,-pods", {"admission"}, id="a name taken back"),
    ],
)
def test_selections(text: str, want: set[str]) -> None:
    assert selected_controllers(text) == want


@pytest.mark.parametrize("text", ["nonsense", "-nonsense", "", "none,pods", "-all", ",", "all,-none"])
def test_selections_that_are_errors(text: str) -> None:
    with pytest.raises(SettingsError, match="--controllers"):
        selected_controllers(text)


def test_every_controller_has_its_name() -> None:
    folders = {path.name for path in FOLDERS.iterdir() if (path / "__init__.py").is_file()}
    assert folders - NOT_SELECTABLE == set(CONTROLLERS)


@pytest.mark.parametrize("command", ["serve", "controller"])
def test_an_unknown_name_lists_the_names(tmp_path: Path, command: str) -> None:
    ended = fairway(command, "--state", str(tmp_path), "--controllers=admision")
    assert ended.returncode != 0
    assert "there is no controller 'admision'" in ended.stderr
    assert all(name in ended.stderr for name in CONTROLLERS)


def test_no_kubeconfig_is_an_error(tmp_path: Path) -> None:
    ended = fairway("controller", "--state", str(tmp_path / "state"))
    assert ended.returncode != 0
    assert str(tmp_path / "state" / "kubeconfig") in ended.stderr


def test_a_controller_that_the_server_runs_is_not_run_twice(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--insecure", "--controllers=admission,workload", jobs=True) as server:
        with pytest.raises(DidNotStart, match="the server runs these controllers itself: admission, workload"):
            server.start_controller()
        published = server.call("GET", "/api/v1/namespaces/kube-system/configmaps/fairway-server").body
        assert published["data"] == {"controllers": "admission,workload"}


def test_health_and_a_clean_end(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--insecure", "--controllers=none", jobs=True) as server:
        server.start_controller()
        secret = server.call("GET", "/api/v1/namespaces/kube-system/secrets/fairway-decider").body
        assert set(secret["data"]) == {"url", "token", "ca.crt"}
        assert _health(server) == "ok"
        assert server.controller is not None
        server.controller.send_signal(signal.SIGTERM)
        assert server.controller.wait(30) == 0
        lease = server.call("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fairway-controller").body
        assert lease["spec"]["holderIdentity"] == ""
        server.start_controller()  # the next one leads at once


def test_a_second_process_stands_by_and_follows_a_killed_one(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--insecure", "--controllers=none", jobs=True) as server:
        server.start_controller()
        first = server.controller
        assert first is not None
        ready, tell = os.pipe()
        second = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "fairway.cli.main", "controller", "--state", str(server.state)],
            env={**os.environ, "FAIRWAY_READY_FD": str(tell)},
            pass_fds=(tell,),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(tell)
        try:
            first.kill()
            first.wait(30)
            with os.fdopen(ready) as answer:
                assert answer.readline().startswith("https://")
            path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fairway-controller"
            assert f"_{second.pid}-" in server.call("GET", path).body["spec"]["holderIdentity"]
        finally:
            second.terminate()
            assert second.wait(30) == 0


def test_why_is_the_engines_answer_and_the_conditions_when_it_is_gone(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--insecure", "--cpus", "2", "--controllers=none", jobs=True) as server:
        server.start_controller()
        launch = fairway("jobs", "launch", "--state", str(server.state), "--cpus", "50", "--name", "big", "-d", "true")
        assert launch.returncode == 0, launch.stderr
        why = json.loads(fairway("jobs", "why", "1", "--state", str(server.state), "-o", "json").stdout)
        assert "hints" in json.dumps(why)
        assert "ask for less, or raise nominalQuota" in json.dumps(why)
        server.kill_controller()
        gone = fairway("jobs", "why", "1", "--state", str(server.state))
        assert gone.returncode == 0, gone.stderr
        assert "insufficient quota for cpu in flavor default-flavor" in gone.stdout


def test_webhooks_are_served_where_their_configurations_say(tmp_path: Path) -> None:
    """As an API server calls them: at the printed address, trusting the printed certificate authority."""
    with Server(tmp_path / "state", "--insecure", "--controllers=none", jobs=True) as server:
        url = server.start_controller("--webhooks")
        printed = fairway("controller", "--state", str(server.state), "--print-webhooks", url)
        assert printed.returncode == 0, printed.stderr
        mutating, validating = json.loads(printed.stdout)["items"]
        assert {one["rules"][0]["resources"][0] for one in validating["webhooks"]} >= {"jobs", "pods", "workloads"}
        config = next(one for one in mutating["webhooks"] if one["rules"][0]["resources"] == ["jobs"])["clientConfig"]
        trust = ssl.create_default_context(cadata=base64.b64decode(config["caBundle"]).decode())
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"suspend": False, "template": {"spec": {"containers": []}}},
        }
        asked = {
            "uid": "7",
            "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "operation": "CREATE",
            "namespace": "default",
            "userInfo": {"username": "ben"},
            "object": job,
        }
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()
        sent = urllib.request.Request(config["url"], body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(sent, context=trust, timeout=30) as answer:  # noqa: S310
            response = json.loads(answer.read())["response"]
        assert (response["uid"], response["allowed"]) == ("7", True)
        patch = json.loads(base64.b64decode(response["patch"]))
        assert {"op": "replace", "path": "/spec/suspend", "value": True} in patch, "the queue `default` of the server"


def test_the_address_of_webhooks_is_https(tmp_path: Path) -> None:
    ended = fairway("controller", "--state", str(tmp_path), "--print-webhooks", "http://here:1")
    assert ended.returncode == 2
    assert "'http://here:1' must begin with https://" in ended.stderr


def _health(server: Server) -> str:
    text = server.output.read_text()
    url = next(line.split()[-1] for line in text.splitlines() if line.startswith("health endpoint:"))
    unchecked = ssl._create_unverified_context()  # noqa: S323 - as a kubelet's probe asks
    with urllib.request.urlopen(url, context=unchecked, timeout=30) as answer:  # noqa: S310
        return str(answer.read().decode())
