"""A job that has waited long enough in the queue of its first infra is withdrawn there and goes to the next: another
server, named by a context of the first one's kubeconfig. What becomes of it there is shown here.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.fairway import Fairway
from fairway.client.rest import Rest, open_rest, paths
from fairway.testing.servers import Server

_SECONDS = 30
_WORKLOADS = paths.resource("kueue.x-k8s.io/v1beta1", "workloads", "default")

_TASK = """
name: moves
workdir: {workdir}
envs: {{OUT: {out}}}
secrets: {{KEY: null}}
resources:
  cpus: 1
  ordered:
  - infra: kubernetes
  - infra: kubernetes/second
config:
  kubernetes:
    provision_timeout: 1
run: |
  cat data.txt > $OUT.new
  echo "$KEY $FAIRWAY_ATTEMPT" >> $OUT.new
  mv $OUT.new $OUT
  {then}
"""


class Story:
    """Two servers; the first one's queue is full, and it knows the second as `second`."""

    def __init__(self, first: Server, second: Server, folder: Path) -> None:
        self._folder = folder
        self.fairway = Fairway(first.state, folder)
        self.first, self.second = open_rest(first.kubeconfig), open_rest(second.kubeconfig)
        self.out = folder / "out"
        (folder / "code").mkdir()
        (folder / "code" / "data.txt").write_text("the files came along\n")

    def launch(self, then: str = "true") -> None:
        (self._folder / "task.yaml").write_text(_TASK.format(workdir=self._folder / "code", out=self.out, then=then))
        self.fairway("jobs", "launch", "-y", "-d", "--secret", "KEY=hush", "task.yaml")

    def job(self, rest: Rest, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The job that moves, as soon as it is as wanted."""
        last: dict[str, Any] = {}
        for event in rest.watch(paths.jobs("default"), timeoutSeconds=_SECONDS):
            last = event["object"]
            if event["type"] != "BOOKMARK" and last["metadata"]["name"].startswith("moves") and wanted(last):
                return last
        raise AssertionError(f"it did not come to that: {json.dumps(last)}")

    def close(self) -> None:
        self.first.close()
        self.second.close()


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with Server(tmp_path / "two", "--cpus", "2", "--memory", "4Gi", jobs=True) as second:
        known = json.loads(second.kubeconfig.read_text())
        known["contexts"][0]["name"] = "second"
        others = tmp_path / "others"
        others.write_text(json.dumps(known))
        here = {"KUBECONFIG": str(others)}
        with Server(tmp_path / "one", "--cpus", "1", "--memory", "4Gi", jobs=True, environment=here) as first:
            told = Story(first, second, tmp_path)
            told.fairway("jobs", "launch", "-y", "-d", "-n", "full", "--cpus", "1", "sleep 1000")
            yield told
            told.close()


def test_after_the_time_out_a_job_goes_to_the_second_infra_and_its_end_is_seen_at_the_first(story: Story) -> None:
    story.launch()

    job = story.job(story.first, lambda job: job.get("status", {}).get("phase") == "SUCCEEDED")

    assert story.out.read_text() == "the files came along\nhush 1\n"
    status = job["status"]
    assert (status["infra"], status["candidate"], status["recoveries"]) == ("second", 1, 0)
    assert [(attempt["infra"], attempt["outcome"]) for attempt in status["attempts"]] == [("second", "Succeeded")]
    waiting = [one["metadata"]["ownerReferences"][0]["name"] for one in story.first.get(_WORKLOADS)["items"]]
    assert job["metadata"]["name"] not in waiting, "withdrawn where it was first"
    there = story.job(story.second, lambda _: True)
    assert there["status"]["attempts"][0]["pods"] == status["attempts"][0]["pods"], "it ran there"
    assert "SUCCEEDED" in story.fairway("jobs", "queue", "--all")


def test_what_is_said_at_the_first_server_holds_at_the_second(story: Story) -> None:
    story.launch(then="sleep 1000")
    job = story.job(story.first, lambda job: job.get("status", {}).get("phase") == "RUNNING")
    assert job["status"]["infra"] == "second"

    story.fairway("jobs", "cancel", "-y", str(job["spec"]["id"]))

    assert story.job(story.first, lambda job: job["status"]["phase"] == "CANCELLED")
    assert story.job(story.second, lambda job: job["status"]["phase"] == "CANCELLED")


def test_a_job_that_is_deleted_at_the_first_server_is_deleted_at_the_second_with_its_secret(story: Story) -> None:
    story.launch(then="sleep 1000")
    job = story.job(story.first, lambda job: job.get("status", {}).get("phase") == "RUNNING")
    secrets = paths.resource("v1", "secrets", "default")
    assert len(story.second.get(secrets)["items"]) == 1

    gone = story.second.clone().watch(secrets, timeoutSeconds=_SECONDS)
    story.first.delete(paths.job("default", job["metadata"]["name"]))

    assert any(event["type"] == "DELETED" for event in gone)
    gone.close()
    assert story.second.get(paths.jobs("default"))["items"] == []
