"""Gangs of every kind that runs here, on Fairway: the manifests name no scheduler."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.testing.servers import Server
from schedulers.gangs import GROUP, crowded, job, managed_job, pod, pod_group

from .looking import Here

CONFIG = "queueconfig: {scheduler: fairway, queue: default}\n"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def fairway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[Here, Server]]:
    state = tmp_path / "state"
    with Server(state, "--cpus", "4", "--memory", "4Gi", jobs=True) as server:
        (state / "config.yaml").write_text(CONFIG)
        yield Here(state, capsys), server


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


GANGS: dict[str, tuple[list[Any], str]] = {
    "Job": ([job("gang", 3, crowded())], "job-name=gang"),
    "pod group": (pod_group("gang", 3), f"{GROUP}=gang"),
    "ManagedJob": ([managed_job("gang", 3, 1)], "fairway.dev/job=gang"),
}


@pytest.mark.parametrize("kind", GANGS)
def test_a_gang_waits_until_all_of_it_fits_and_then_starts_as_one(
    fairway: tuple[Here, Server], kind: str, tmp_path: Path
) -> None:
    run, server = fairway
    manifests, chosen = GANGS[kind]

    def phases(selector: str) -> list[str]:
        items = server.call("GET", f"{PODS}?labelSelector={selector}").body["items"]
        return [one["status"].get("phase", "") for one in items]

    def send(*objects: Any) -> None:
        file = tmp_path / "objects.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        run("apply", "-f", str(file))

    send(job("filler", 1, pod("2")))
    until(lambda: phases("job-name=filler") == ["Running"])
    send(*manifests)
    workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
    until(lambda: len(server.call("GET", workloads).body["items"]) == 2)
    assert set(phases(chosen)) <= {"Pending"}
    server.call("DELETE", "/apis/batch/v1/namespaces/default/jobs/filler?propagationPolicy=Background")
    until(lambda: phases(chosen) == ["Running"] * 3)
