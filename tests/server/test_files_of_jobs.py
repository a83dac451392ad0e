"""A managed job on a real server: its files come along, its logs outlive its pods and the server, all go with it."""

import hashlib
import http.client
import io
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairway.testing.servers import Server

GROUP = "/apis/fairway.dev/v1alpha1/namespaces/default"
JOB = f"{GROUP}/managedjobs/train-1"


def archive_of(**files: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text)
            archive.addfile(about, io.BytesIO(text.encode()))
    return packed.getvalue()


def uploaded(server: Server, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=server.tls(), timeout=30)
    headers = {"Content-Type": "application/gzip", "Authorization": f"Bearer {server.token}"}
    connection.request("PUT", f"{GROUP}/archives/{digest}", data, headers)
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    connection.close()
    return digest


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def left(state: Path) -> list[str]:
    """Logs and checkpoints; the size of results is noted beside the logs at some time."""
    found = [path for name in ("logs", "checkpoints") for path in (state / name).rglob("*") if path.is_file()]
    return sorted({str(path.relative_to(state)) for path in found if path.name != ".results"})


def test_files_and_logs_of_a_job_from_its_launch_to_its_deletion(tmp_path: Path) -> None:
    with Server(tmp_path / "state", "--cpus", "2", "--memory", "1Gi", jobs=True) as server:
        digest = uploaded(server, archive_of(**{"word.txt": "from the archive"}))
        task = {
            "setup": "echo preparing $(cat word.txt)",
            "run": 'echo "attempt $FAIRWAY_ATTEMPT: $(cat word.txt)"; echo 7 > $FAIRWAY_CHECKPOINT_DIR/step',
            "files": [{"archive": digest, "path": "."}],
        }
        manifest = {"metadata": {"generateName": "train-"}, "spec": {"queue": "default", "tasks": [task]}}
        created = server.call("POST", f"{GROUP}/managedjobs", manifest)
        assert created.code == 201, created
        uid = created.body["metadata"]["uid"]

        followed = server.call("GET", f"{JOB}/log?follow=true")
        assert (followed.code, followed.body) == (200, "attempt 1: from the archive\n")
        wait_until(lambda: server.call("GET", JOB).body["status"]["phase"] == "SUCCEEDED")
        wait_until(lambda: server.call("GET", "/api/v1/namespaces/default/pods").body["items"] == [])
        kept = left(server.state)
        assert f"checkpoints/{uid}/0/step" in kept

        server.restart()
        assert server.call("GET", f"{JOB}/log").body == "attempt 1: from the archive\n"
        assert server.call("GET", f"{JOB}/log?container=setup&attempt=1").body == "preparing from the archive\n"
        assert server.call("GET", f"{JOB}/log?attempt=2").code == 400
        assert left(server.state) == kept
        assert (server.state / "archives" / "default" / f"{digest}.tar.gz").exists()

        assert server.call("DELETE", JOB).code == 200
        wait_until(lambda: left(server.state) == [])
        assert server.call("GET", f"{JOB}/log").code == 404
