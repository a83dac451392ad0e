"""Nothing public is undocumented: reasons, events, instructions and configuration must be named in the docs."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from fairway.admission.reasons import Code, Outcome
from fairway.apis.registry import default_registry

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.mark.parametrize("reason", [*Code, *Outcome])
def test_every_reason_is_explained(reason: str) -> None:
    assert f"| `{reason}` |" in (DOCS / "use/reasons.md").read_text()


def test_every_module_of_the_engine_has_its_place_in_the_architecture() -> None:
    described = (DOCS / "develop/architecture.md").read_text()
    modules = {path.name for path in (ROOT / "src/fairway/admission").rglob("*.py")} - {"__init__.py"}

    assert [name for name in sorted(modules) if f"`{name}`" not in described] == []


@pytest.mark.parametrize("package", ["store", "server"])
def test_every_module_and_folder_of_the_api_has_its_place_in_the_architecture(package: str) -> None:
    described = (DOCS / "develop/architecture.md").read_text()
    folder = ROOT / "src/fairway" / package
    names = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    names |= {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}

    assert [name for name in sorted(names) if f"`{name}`" not in described] == []


def test_every_group_that_is_served_is_documented() -> None:
    documented = (DOCS / "develop/api.md").read_text()

    assert [kind.kind for kind in default_registry().kinds if kind.kind not in documented] == []
    assert [kind.group for kind in default_registry().kinds if kind.group not in documented] == []


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_its_two_commands_and_the_makefile_has_them(command: str) -> None:
    assert command in (ROOT / "README.md").read_text()
    assert f"\n{command.removeprefix('make ')}: " in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))], ids=str)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target, fragment in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
        to = page.parent / target if target else page
        assert to.exists(), f"{page.relative_to(ROOT)} links to {target}"
        if fragment:
            headings = re.findall(r"^#+ (.*)$", to.read_text(), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert fragment in anchors, f"{page.relative_to(ROOT)} links to {target}#{fragment}"


def test_the_example_of_the_library_prints_what_its_page_says() -> None:
    page = (DOCS / "develop/library.md").read_text()
    program, printed = re.findall(r"^```(?:python)?\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    output = io.StringIO()

    with contextlib.redirect_stdout(output):
        exec(compile(program, "library.md", "exec"), {})  # noqa: S102 - the page is ours

    assert output.getvalue() == printed
