"""Writes that belong together on a cluster, which has no transactions: beside each other, undone if one fails."""

import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from cli.conftest import CommandLine

from .test_use import kubeconfig

JOBS = "/apis/fairway.dev/v1alpha1/namespaces/ns-prod/managedjobs"


class Cluster:
    """An API server without transactions that keeps ManagedJobs and ConfigMaps, and fails as it is told."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.numbering = True
        self.refuse_from = 1_000_000
        """The create of a job with this number and those after it are refused."""

        self.lose = 0
        """So many creates of jobs are carried out and not answered."""

        self.block_from = 1_000_000
        """From this job on, creates wait for `release`."""

        self.blocked, self.release = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command == "POST" and len(outer.jobs) + 1 >= outer.block_from:
                    outer.blocked.set()
                    assert outer.release.wait(60)
                code, answer = outer.answer(self.command, self.path, json.loads(body) if body else {})
                if code == 0:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                data = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = do_HEAD = _answer  # noqa: N815 - as the library calls them

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return [one for path, one in list(self.objects.items()) if path.startswith(JOBS)]

    def answer(self, method: str, target: str, body: dict[str, Any]) -> tuple[int, Any]:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        with self._lock:
            self.requests.append((method, path))
            if path == "/version":
                return 200, {"gitVersion": "v1.34.4"}
            if method == "POST" and path.endswith(("managedjobs", "configmaps", "secrets")):
                return self._create(path, body)
            if method == "GET" and path == JOBS:
                wanted = dict(pair.split("=") for pair in query.get("labelSelector", [""])[0].split(",") if pair)
                items = [one for one in self.jobs if wanted.items() <= one["metadata"].get("labels", {}).items()]
                return 200, {"metadata": {"resourceVersion": str(self._count)}, "items": items}
            if path not in self.objects:
                return 404, _status(404, "NotFound", f"{path} not found")
            if method == "DELETE":
                return 200, {"kind": "Status", "status": "Success", "details": self.objects.pop(path)["metadata"]}
            if method == "PATCH":
                return self._patch(path, body)
            return 200, self.objects[path]

    def _create(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        is_job = path == JOBS
        number = len(self.jobs) + 1
        if is_job and number >= self.refuse_from:
            return 403, _status(403, "Forbidden", "exceeded quota: jobs")
        self._count += 1
        metadata = body["metadata"]
        metadata.setdefault("name", f"{metadata.get('generateName', 'x-')}{self._count}")
        metadata |= {"uid": f"u{self._count}", "namespace": "ns-prod", "resourceVersion": str(self._count)}
        if is_job and self.numbering:
            body["spec"]["id"] = self._count
        self.objects[f"{path}/{metadata['name']}"] = body
        if is_job and self.lose:
            self.lose -= 1
            return 0, None
        return 201, body

    def _patch(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        found = self.objects[path]
        if body.get("metadata", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            return 409, _status(409, "Conflict", "Precondition failed: UID in precondition")
        found["spec"] = {**found["spec"], **body.get("spec", {})}
        if found["spec"].get("cancel"):
            found["status"] = {"phase": "CANCELLED"}
        return 200, found


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


@pytest.fixture
def fairway(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("FAIRWAY_KUBECONFIG", str(kubeconfig(tmp_path / "kube", prod=cluster.url)))
    return CommandLine(tmp_path / "state")


LAUNCH = ("jobs", "launch", "-d", "-n", "sweep", "--num-jobs")


def test_a_launch_creates_its_jobs_one_by_one(fairway: CommandLine, cluster: Cluster) -> None:
    said = fairway(*LAUNCH, "40", "true")

    assert "(sweep) submitted on context prod" in said
    assert sorted(job["spec"]["rank"] for job in cluster.jobs) == list(range(40))
    assert len({job["metadata"]["labels"]["fairway.dev/launch"] for job in cluster.jobs}) == 1
    assert cluster.requests.count(("GET", "/version")) == 1, "what kind of server it is, is asked once"


def test_of_a_launch_that_fails_nothing_is_left(fairway: CommandLine, cluster: Cluster) -> None:
    cluster.refuse_from = 20

    said = fairway.refused(*LAUNCH, "40", "true")

    assert "exceeded quota" in said
    assert "19 jobs that had been created are deleted again" in said
    assert cluster.jobs == []


def test_answers_that_are_lost_make_no_job_twice(fairway: CommandLine, cluster: Cluster) -> None:
    cluster.lose = 5

    fairway(*LAUNCH, "20", "true")

    assert sorted(job["spec"]["rank"] for job in cluster.jobs) == list(range(20))


def test_a_cluster_without_the_webhook_is_left_as_it_was(fairway: CommandLine, cluster: Cluster) -> None:
    cluster.numbering = False

    said = fairway.refused(*LAUNCH, "40", "true")

    assert "gives managed jobs no ids" in said
    assert "fairway cluster install --context prod" in said
    assert cluster.jobs == []
    assert sum(method == "POST" for method, _ in cluster.requests) == 1, "the first job shows it"


def test_ctrl_c_in_a_launch_deletes_what_was_created(cluster: Cluster, fairway: CommandLine) -> None:
    cluster.block_from = 10
    process = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "fairway.cli.main", *LAUNCH, "40", "true"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "FAIRWAY_STATE": str(fairway.state)},
    )
    assert cluster.blocked.wait(30)
    process.send_signal(signal.SIGINT)
    cluster.release.set()
    _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert re.search(r"Interrupted. \d+ jobs that had been created are deleted again.", said)
    assert cluster.jobs == []


def test_changes_of_jobs_are_one_request_each_and_guarded_by_the_uid(fairway: CommandLine, cluster: Cluster) -> None:
    fairway(*LAUNCH, "12", "true")

    said = fairway("jobs", "cancel", "-y", "--async", "-n", "sweep", "-u")

    assert "12 jobs (1-12)" in said
    assert all(job["spec"]["cancel"] for job in cluster.jobs)
    assert sum(method == "PATCH" for method, _ in cluster.requests) == 12


def test_a_launch_of_the_same_name_takes_the_place_of_the_ended_one(fairway: CommandLine, cluster: Cluster) -> None:
    fairway("launch", "-d", "-c", "dev", "true")
    cluster.jobs[0]["status"] = {"phase": "SUCCEEDED"}

    fairway("launch", "-d", "-c", "dev", "true")

    assert [job["metadata"]["uid"] for job in cluster.jobs] == ["u2"]


def test_users_of_a_cluster_are_those_of_kubernetes(fairway: CommandLine) -> None:
    assert "its users are those of the cluster, and RBAC says" in fairway.refused("users", "list")
