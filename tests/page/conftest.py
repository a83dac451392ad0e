"""A real Chromium on a real server. Every test fails on an error in the console of the browser."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from fairway.testing.servers import Server
from page import scene

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
EXPECTED = ("waitingjobs/",)
"""A job may be admitted between the list and the question why it waits: that answer is a 404, which browsers print."""

expect.set_options(timeout=20_000)


class PageServer(Server):
    """A server whose jobs can be ended beside Playwright, which keeps an event loop in this thread."""

    def end_jobs(self) -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(super().end_jobs).result()


class Stage(NamedTuple):
    """A server with the scene of `scene.ten_jobs`."""

    server: Server
    tokens: dict[str, str]

    def token(self, user: str) -> str:
        return self.server.token if user == "admin" else self.tokens[user]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "the tests of the page need Chromium: sudo apt-get install chromium (or set CHROMIUM to its path)"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with PageServer(tmp_path_factory.mktemp("stage") / "state", *scene.SERVER_OPTIONS, jobs=True) as server:
        yield Stage(server, scene.ten_jobs(server))


class Visit:
    """A page of a user, and what the browser complained about."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server
        self.complaints: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._on_request)

    def _on_console(self, message: Any) -> None:
        where = message.location.get("url", "")
        if message.type == "error" and not any(part in where for part in EXPECTED):
            self.complaints.append(f"console: {message.text} {where}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.complaints.append(f"a request to elsewhere: {request.url}")

    def log_in(self, token: str) -> None:
        """With a token, in the form."""
        self.page.goto(f"{self.server.url}/page/")
        self.page.get_by_label("token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("heading", name="Overview")).to_be_visible()

    def go(self, path: str, heading: str = "") -> Page:
        self.page.goto(f"{self.server.url}/page/#/{path}")
        if heading:
            expect(self.page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        return self.page


@contextmanager
def visiting(browser: Browser, server: Server, token: str, **options: Any) -> Iterator[Visit]:
    """A browser of its own; at its end there must have been no complaint."""
    context: BrowserContext = browser.new_context(ignore_https_errors=True, **options)
    visit = Visit(context.new_page(), server)
    try:
        visit.log_in(token)
        yield visit
        assert visit.complaints == []
    finally:
        context.close()


@pytest.fixture
def visit(browser: Browser, stage: Stage) -> Iterator[Callable[..., Visit]]:
    """Visits of users of the stage."""
    opened = []

    def open_for(user: str = "admin", **options: Any) -> Visit:
        manager = visiting(browser, stage.server, stage.token(user), **options)
        opened.append(manager)
        return manager.__enter__()

    yield open_for
    for manager in reversed(opened):
        manager.__exit__(None, None, None)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures go: `make pictures` puts them in docs/images."""
    found = Path(os.environ.get("FAIRWAY_PICTURES") or tmp_path)
    found.mkdir(parents=True, exist_ok=True)
    return found
