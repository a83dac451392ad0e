"""`fairway schedule`, and `queueconfig` in the configuration of the command line, on a real server."""

import io
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.testing.servers import Server

from .looking import Here

Y = "yunikorn.apache.org/"
EXAMPLE = Path(__file__).parents[2] / "examples" / "scheduler-plugin"
GUIDE = """\
queueconfig:
  scheduler: yunikorn
  jobs:
    - type: "ray"
      gangscheduling: "placeholderTimeoutInSeconds=60 gangSchedulingStyle=hard"
      allow-preemption: false
    - type: "spark"
      gangscheduling: "placeholderTimeoutInSeconds=30 gangSchedulingStyle=hard"
      allow-preemption: true
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox
        command: [sleep, "1"]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
"""
RAY = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray}
spec:
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: head, image: ray, resources: {requests: {cpu: 1, memory: 1Gi}}}]}}
"""


@pytest.fixture
def alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Here:
    """Without a server."""
    (tmp_path / "state").mkdir()
    return Here(tmp_path / "state", capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def template(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]
    return found


def test_the_configuration_of_the_guide_is_printed_into_a_manifest(alone: Here, tmp_path: Path) -> None:
    (tmp_path / "state" / "config.yaml").write_text(GUIDE)
    (tmp_path / "ray.yaml").write_text(RAY)
    ray = json.loads(
        alone("schedule", "-o", "json", "--org", "organization1", "--user", "user1", f"{tmp_path}/ray.yaml")
    )
    head = ray["spec"]["headGroupSpec"]["template"]
    assert head["metadata"]["labels"][f"{Y}queue"] == "root.organization1.ray"
    assert json.loads(head["metadata"]["annotations"][f"{Y}user.info"])["user"] == "user1"
    assert head["metadata"]["annotations"][f"{Y}allow-preemption"] == "false"
    assert not (tmp_path / "state" / "kubeconfig").exists(), "no server was started"


def test_several_documents_from_standard_input(alone: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{JOB}---\n{other}".encode())))
    printed = alone("schedule", "--scheduler", "kueue", "-")
    job, config = yaml.safe_load_all(printed)
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "default"}
    assert config == yaml.safe_load(other)


def test_without_a_scheduler_the_manifest_is_printed_as_it_is(alone: Here, file: Path) -> None:
    assert yaml.safe_load(alone("schedule", str(file))) == yaml.safe_load(JOB)


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        (["--scheduler", "yunikor"], JOB, "there are default, fairway, kueue, yunikorn"),
        (["--scheduler", "kueue"], JOB.replace("parallelism: 2", "parallelism: two"), "spec.parallelism"),
        (["--scheduler", "yunikorn", "--org", "a.b"], JOB, "no dots"),
        (["--scheduler", "kueue"], JOB.replace("batch/v1", "batch/v2"), "apiVersion"),
    ],
)
def test_what_cannot_be_scheduled_is_said(alone: Here, file: Path, arguments: list[str], text: str, words: str) -> None:
    file.write_text(text)
    said = alone.tried("schedule", *arguments, str(file))
    assert said.code != 0
    assert words in said.errors


def test_a_wrong_configuration_is_named_with_its_line(alone: Here, file: Path, tmp_path: Path) -> None:
    (tmp_path / "state" / "config.yaml").write_text(GUIDE.replace("=60", "=soon"))
    said = alone.refused("schedule", str(file), code=2)
    assert "config.yaml:5: queueconfig.jobs[0].gangscheduling" in said
    assert "'soon'" in said


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("schedule") / "state") as server:
        yield server


@pytest.fixture
def fairway(server: Server, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    """The server read no configuration; the command line does."""
    configuration = server.state / "config.yaml"
    configuration.write_text(GUIDE)
    yield Here(server.state, capsys)
    configuration.unlink()


def test_apply_completes_jobs_and_a_second_time_changes_nothing(fairway: Here, file: Path) -> None:
    assert "job.batch/train created" in fairway("apply", "-f", str(file))
    stored = json.loads(fairway("get", "job", "train", "-o", "json"))
    application = template(stored)["metadata"]["labels"][f"{Y}app-id"]
    assert template(stored)["spec"]["schedulerName"] == "yunikorn"
    assert "job.batch/train unchanged" in fairway("apply", "-f", str(file))
    again = json.loads(fairway("get", "job", "train", "-o", "json"))
    assert template(again)["metadata"]["labels"][f"{Y}app-id"] == application


def test_a_launched_job_carries_its_scheduler(fairway: Here) -> None:
    fairway("jobs", "launch", "-d", "-y", "-n", "carries", "true")
    (job,) = [one for one in fairway.json("get", "managedjobs")["items"] if one["spec"]["name"] == "carries"]
    assert job["metadata"]["annotations"]["fairway.dev/scheduler"] == "yunikorn"
    assert job["spec"]["podConfig"]["metadata"]["labels"] == {f"{Y}queue": "root.default.default"}


def a_wheel(source: Path, directory: Path) -> Path:
    """The example as a wheel; made here, because the build backend would have to be downloaded."""
    project = tomllib.loads((source / "pyproject.toml").read_text())
    name, version = project["project"]["name"].replace("-", "_"), project["project"]["version"]
    points = project["project"]["entry-points"]["fairway.schedulers"]
    lines = "".join(f"{one} = {value}\n" for one, value in points.items())
    info = f"{name}-{version}.dist-info"
    files = {f"{one}.py": (source / f"{one}.py").read_text() for one in project["tool"]["setuptools"]["py-modules"]}
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project['project']['name']}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[fairway.schedulers]\n{lines}",
    }
    files[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in (*files, f"{info}/RECORD"))
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for one, text in files.items():
            wheel.writestr(one, text)
    return path


def test_a_package_brings_a_scheduler(tmp_path: Path, file: Path) -> None:
    """The example is installed beside this environment, and not into it."""
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(installed)]
    subprocess.run([*pip, str(a_wheel(EXAMPLE, tmp_path))], check=True, timeout=300)  # noqa: S603 - pip
    environment = {**os.environ, "PYTHONPATH": str(installed), "FAIRWAY_STATE": str(tmp_path / "state")}
    command = [sys.executable, "-m", "fairway.cli.main", "schedule", "-o", "json", "--org", "ml"]
    done = subprocess.run(  # noqa: S603 - our own module
        [*command, "--scheduler", "volcano", str(file)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = template(json.loads(done.stdout))
    assert found["spec"]["schedulerName"] == "volcano"
    assert found["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] == "ml"
    assert found["metadata"]["annotations"]["example.com/min-member"] == "2"
