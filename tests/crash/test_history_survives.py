"""The history through deaths of the server: every attempt of a crowd of users is in it once, deleted jobs included."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from fairway.testing.servers import Server

JOBS = "/apis/batch/v1/namespaces/{}/jobs"
HISTORY = "/apis/fairway.dev/v1alpha1"
PATIENCE_SECONDS = 300.0
USERS = 40
JOBS_EACH = 1


def _job(name: str, seconds: float) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", f"{seconds:.2f}"],
        "resources": {"requests": {"cpu": "1"}},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    labels = {"kueue.x-k8s.io/queue-name": "default"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}


def _make_user(server: Server, name: str) -> str:
    """A user who may use the namespace `default` alone; the token."""
    body = {"metadata": {"name": name}, "spec": {"bindings": [{"role": "editor", "namespace": "default"}]}}
    answer = server.call("POST", f"{HISTORY}/users", body)
    assert answer.code == 201, answer.body
    return str(answer.body["status"]["token"])


def _ended(server: Server) -> set[str]:
    return {
        one["metadata"]["name"]
        for one in server.call("GET", JOBS.format("default")).body["items"]
        if (one.get("status") or {}).get("completionTime")
    }


def test_every_attempt_of_forty_users_is_accounted_once_while_the_server_is_killed(tmp_path: Path) -> None:
    """Jobs are deleted as soon as they have ended, often in the same second, and the server is killed meanwhile."""
    with Server(tmp_path / "state", "--insecure", "--cpus=8", jobs=True) as server:
        tokens = {f"user-{number}": _make_user(server, f"user-{number}") for number in range(USERS)}
        names = [(f"job-{user}-{number}", user) for user in tokens for number in range(JOBS_EACH)]
        for name, user in names:
            body = _job(name, len(name) % 3 / 4)
            assert server.call("POST", JOBS.format("default"), body, token=tokens[user]).code == 201
        gone: set[str] = set()
        deadline, kills = time.monotonic() + PATIENCE_SECONDS, 2
        while len(gone) < len(names):
            assert time.monotonic() < deadline, f"{len(names) - len(gone)} jobs have not ended"
            for name in _ended(server) - gone:
                if server.call("DELETE", f"{JOBS.format('default')}/{name}?propagationPolicy=Background").code == 200:
                    gone.add(name)
            if kills and len(gone) >= (3 - kills) * len(names) // 4:
                kills -= 1
                server.kill()
                server.start()
            time.sleep(0.2)
        found: list[dict[str, Any]] = []
        while sum("ended" in one for one in found) < len(names) and time.monotonic() < deadline:
            found = server.call("GET", f"{HISTORY}/attempts?limit=5000").body["items"]
        assert Counter((one["job"]["name"], one["user"]) for one in found) == Counter(names)
        assert {one["outcome"] for one in found} == {"Succeeded"}
        total = server.call("GET", f"{HISTORY}/usage?by=user").body
        assert {one["user"]: one["succeeded"] for one in total["items"]} == dict.fromkeys(tokens, JOBS_EACH)

        other = server.call("GET", f"{HISTORY}/attempts", token=tokens["user-0"])
        assert other.code == 403, "a user of one namespace does not see all of them"
        own = server.call("GET", f"{HISTORY}/namespaces/default/usage", token=tokens["user-0"])
        assert own.body["total"]["succeeded"] == len(names)
        assert server.call("GET", f"{HISTORY}/namespaces/kube-system/usage", token=tokens["user-0"]).code == 403
