"""Tasks with `ray:` on real Ray, by the command line: to their end, and preempted and back from their checkpoint."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from fairway.testing.servers import Server

from .conftest import PATIENCE_SECONDS, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray" / "pi.yaml"
TRAIN = """\
name: train
ray: {workers: 1}
run: |
  echo "attempt $FAIRWAY_ATTEMPT"
  python - <<'PYTHON'
  import os, pathlib, signal, sys, time
  import ray

  saved = pathlib.Path(os.environ["FAIRWAY_CHECKPOINT_DIR"], "step")
  ray.init()

  @ray.remote(num_cpus=1)
  class Model:
      def __init__(self, step):
          self.step = step

      def train(self):
          self.step += 1
          return self.step

  start = int(saved.read_text()) if saved.exists() else 0
  models = [Model.remote(start) for _ in range(2)]

  def save(*_):
      saved.write_text(str(min(ray.get([model.train.remote() for model in models]))))
      sys.exit(143)

  signal.signal(signal.SIGTERM, save)
  print("trains from", start, flush=True)
  while not start:
      ray.get([model.train.remote() for model in models])
      time.sleep(0.1)
  PYTHON
"""


def fairway(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("fairway")
    environment = {**os.environ, "FAIRWAY_STATE": str(server.state), "KUBECONFIG": str(server.kubeconfig)}
    return subprocess.run(  # noqa: S603
        [program, *arguments], env=environment, text=True, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )


def left_of_ray(server: Server) -> list[str]:
    """Temporary files and processes of the jobs of a server."""
    found = [str(path) for path in (server.state / "pods").rglob("session_*")]
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("FAIRWAY_CHECKPOINT_DIR", "").startswith(str(server.state)):
                found.append(" ".join(process.cmdline())[:200])
    return found


def test_the_example_runs_on_a_ray_cluster_that_goes_with_it(server: Server) -> None:
    ended = fairway(server, "jobs", "launch", str(EXAMPLE))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 nodes, 3 CPUs" in ended.stdout
    assert "round 5: pi is about 3.1" in ended.stdout
    assert "Ray runtime started" in fairway(server, "jobs", "logs", "1", "--worker", "1", "--no-follow").stdout
    eventually(lambda: not left_of_ray(server), "nothing of Ray is left")


def test_a_preempted_driver_saves_its_state_with_its_workers_and_resumes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(TRAIN)
    assert fairway(server, "jobs", "launch", "-d", str(tmp_path / "train.yaml")).returncode == 0

    def log() -> str:
        return fairway(server, "jobs", "logs", "1", "--attempt", "all", "--no-follow").stdout

    eventually(lambda: "trains from 0" in log(), "the training runs")
    cpus = server.call("GET", "/api/v1/nodes").body["items"][0]["status"]["allocatable"]["cpu"]
    urgent = fairway(server, "jobs", "launch", "--priority", "100", "--cpus", cpus, "echo", "urgent")
    assert urgent.returncode == 0, urgent.stdout + urgent.stderr
    assert fairway(server, "jobs", "wait", "1").returncode == 0, log()
    steps = [int(line.split()[2]) for line in log().splitlines() if line.startswith("trains from")]
    assert steps[0] == 0
    assert steps[1] > 0
    attempts = server.call("GET", "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs").body["items"]
    train = next(job for job in attempts if job["spec"]["name"] == "train")
    assert [one["outcome"] for one in train["status"]["attempts"]] == ["Preempted", "Succeeded"]
    eventually(lambda: not left_of_ray(server), "nothing of Ray is left")
