"""Everything that a task file or the configuration may say is in the docs, and the examples can be read."""

import re
from pathlib import Path

import pytest

from fairway.managedjobs import config, configured
from fairway.managedjobs.tasks import documents, infra, kubernetes, parse, ray, resources
from fairway.managedjobs.tasks.overrides import Overrides

ROOT = Path(__file__).parent.parent.parent.parent
DOCUMENT = ROOT / "docs/use/tasks.md"
GIVEN = Overrides(envs={"SEED": "7"}, secrets={"TOKEN": "x"})
FIELDS = {*parse.FILE_FIELDS, *ray.FIELDS, *parse.MEANINGLESS, *parse.REFUSED, *resources.KNOWN, *resources.MEANINGLESS}


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_every_field_of_a_task_is_documented(field: str) -> None:
    assert f"`{field}`" in DOCUMENT.read_text()


@pytest.mark.parametrize("field", sorted(kubernetes.KNOWN))
def test_every_field_of_the_kubernetes_block_is_documented(field: str) -> None:
    assert re.search(rf"`kubernetes\.{field}[`.]", DOCUMENT.read_text())


@pytest.mark.parametrize(("variable", "field"), configured.ENVIRONMENT.items())
def test_every_variable_is_documented(variable: str, field: str) -> None:
    assert f"| `{variable}` | `{field}` |" in DOCUMENT.read_text()


@pytest.mark.parametrize("place", sorted(infra.WITH_CONTEXT))
def test_every_name_of_here_is_documented(place: str) -> None:
    assert f"`{place}`" in DOCUMENT.read_text()


def test_the_examples_of_the_documentation_can_be_read() -> None:
    task, settings = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)

    assert parse.tasks_of(documents.read(task, "task.yaml"), GIVEN).warnings == ()
    assert config.parse(settings, "config.yaml").queue == "user-queue"


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "examples/tasks").glob("*.yaml"), ROOT / "examples/ray/pi.yaml"]),
    ids=lambda path: path.name,
)
def test_the_examples_can_be_read(path: Path) -> None:
    assert parse.tasks_of(documents.read(path.read_bytes(), path.name)).warnings == ()
