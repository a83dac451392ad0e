"""A picture of each page: `make pictures` writes those of README and docs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from page.conftest import Stage, Visit
from page.test_pages import PAGES, named

_MOST_BYTES = 200_000


@pytest.mark.parametrize("theme", ["light", "dark"])  # of the dark ones the docs show the overview
def test_a_picture_of_each_page(visit: Callable[..., Visit], stage: Stage, pictures: Path, theme: str) -> None:
    seen = visit(viewport={"width": 1440, "height": 900}, color_scheme=theme)
    job = f"jobs/vision/{named(stage.server, 'vision', 'sweep-lr')}"

    for path, heading in {"overview": "Overview"}.items() if theme == "dark" else {**PAGES, job: "sweep-lr"}.items():
        page = seen.go(path, heading)
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.get_by_text("Loading …")).to_have_count(0)
        name = "job" if path == job else path
        picture = pictures / f"page-{name}{'-dark' if theme == 'dark' else ''}.png"
        page.screenshot(path=picture, scale="css")
        assert 5_000 < picture.stat().st_size < _MOST_BYTES
