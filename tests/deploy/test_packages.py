"""The Helm chart, the kustomize bases and the Dockerfile agree with the rendering."""

import functools
import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.deploy.manifests import RESOURCES, Installation
from fairway.deploy.names import STATE, USER_ID, WAYS, Way
from fairway.installing import installation_objects

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/fairway"
GENERATE = runpy.run_path(str(ROOT / "tools/deploy/generate.py"))


def objects(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    documents = [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


@functools.cache
def generated() -> list[tuple[Path, str]]:
    return list(GENERATE["files"]())


def printed_by(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout  # noqa: S603


def test_a_stale_file_and_one_that_is_left_over_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    globals_ = GENERATE["main"].__globals__
    monkeypatch.setitem(globals_, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    assert GENERATE["main"]([]) == 0
    assert GENERATE["main"](["--check"]) == 0

    chart = tmp_path / "deploy/helm/fairway/templates/rbac.yaml"
    chart.write_text(chart.read_text().replace("watch", "delete"))
    assert GENERATE["main"](["--check"]) == 1
    GENERATE["main"]([])
    (chart.parent / "old.yaml").write_text(f"# {GENERATE['NOTICE']}\n")
    assert GENERATE["main"](["--check"]) == 1
    GENERATE["main"]([])
    assert not (chart.parent / "old.yaml").exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_kustomize_base_is_what_install_applies(way: Way, tmp_path: Path) -> None:
    for path, text in generated():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    kubectl = printed_by(str(ROOT / "tools/kubectl/get")).strip()
    printed = printed_by(kubectl, "kustomize", str(tmp_path / "deploy/kustomize" / way))

    rendered = installation_objects(Installation(way=way, image=f"fairway:{version}", version=version))

    assert objects(printed) == objects(yaml.dump_all(rendered, Dumper=yaml.CSafeDumper))


def test_the_defaults_of_the_chart_are_those_of_install() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    defaults = Installation(way="kueue", image="", version="")

    assert values["resources"] == RESOURCES
    assert values["replicas"] == defaults.replicas
    assert values["image"]["pullPolicy"] == defaults.pull_policy
    assert (values["nodeSelector"], values["affinity"]) == (defaults.node_selector, defaults.affinity)
    assert values["priorityClassName"] == defaults.priority_class
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) == {*values, "global"}


def test_every_value_of_the_chart_is_used() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert [name for name in values if f".Values.{name}" not in templates] == []


def test_the_image_has_the_user_and_the_directories_of_the_deployment() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert f"USER {USER_ID}:{USER_ID}" in dockerfile
    assert f"FAIRWAY_STATE={STATE}" in dockerfile
    assert 'ENTRYPOINT ["fairway"]' in dockerfile
    assert re.search(r"^ARG PYTHON=\d+\.\d+\.\d+-", dockerfile, flags=re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert "*" in ignored
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, flags=re.MULTILINE)
    copied = {word for line in lines for word in line.split()}
    assert {f"!{word}" for word in copied} <= set(ignored)
