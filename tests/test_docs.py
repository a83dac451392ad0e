"""Nothing public is undocumented: reasons, events, instructions and configuration must be named in the docs."""

from pathlib import Path

import pytest

from fairway.admission.reasons import Code, Outcome

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.mark.parametrize("reason", [*Code, *Outcome])
def test_every_reason_is_explained(reason: str) -> None:
    assert f"| `{reason}` |" in (DOCS / "reasons.md").read_text()


def test_every_module_of_the_engine_has_its_place_in_the_architecture() -> None:
    described = (DOCS / "architecture.md").read_text()
    modules = {path.name for path in (ROOT / "src/fairway/admission").rglob("*.py")} - {"__init__.py"}

    assert [name for name in sorted(modules) if f"`{name}`" not in described] == []


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_its_two_commands_and_the_makefile_has_them(command: str) -> None:
    assert command in (ROOT / "README.md").read_text()
    assert f"\n{command.removeprefix('make ')}: " in (ROOT / "Makefile").read_text()
