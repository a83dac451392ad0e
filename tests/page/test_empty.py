"""A server without jobs: every page says what to do next, and the commands that it teaches work as they are written."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from fairway.testing.servers import Server
from page.conftest import PageServer, visiting
from page.test_pages import PAGES, check_accessible, check_fits


@pytest.fixture(scope="module")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with PageServer(tmp_path_factory.mktemp("empty") / "state", "--cpus", "2", jobs=True) as server:
        yield server


def taught(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".empty pre").all_inner_texts()]


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_pages_without_jobs_are_whole(browser: Browser, empty_server: Server, width: int) -> None:
    size = {"width": width, "height": 844}
    with visiting(browser, empty_server, empty_server.token, viewport=size, bypass_csp=True) as seen:
        for path, heading in PAGES.items():
            page = seen.go(path, heading)
            expect(page.locator("#live")).to_have_text("Live")
            expect(page.get_by_text("Loading …")).to_have_count(0)
            check_accessible(page)
            check_fits(page)


def test_the_commands_that_empty_pages_teach_work(browser: Browser, empty_server: Server, tmp_path: Path) -> None:
    with visiting(browser, empty_server, empty_server.token) as seen:
        commands = set()
        for path, heading in PAGES.items():
            page = seen.go(path, heading)
            expect(page.get_by_text("Loading …")).to_have_count(0)
            commands |= set(taught(page))
            if path in {"overview", "queue", "history", "whatif"}:
                assert taught(page), f"{path} teaches nothing"
        environment = os.environ | {"KUBECONFIG": str(empty_server.kubeconfig), "HOME": str(tmp_path)}
        for command in sorted(commands):
            name, *arguments = shlex.split(command)
            assert name == "fairway", command
            done = subprocess.run(  # noqa: S603 - our own command
                [sys.executable, "-m", "fairway.cli.main", *arguments, "--state", str(empty_server.state)],
                capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stderr)
        page = seen.go("queue?state=all", "Queue")
        expect(page.locator(".vt .line").first).to_be_visible()


def test_pages_are_reached_by_keys_and_the_keys_are_told(browser: Browser, empty_server: Server) -> None:
    with visiting(browser, empty_server, empty_server.token) as seen:
        page = seen.page
        for key, heading in {"h": "History", "q": "Queue", "w": "What if", "u": "Quota", "o": "Overview"}.items():
            page.keyboard.press("g")
            page.keyboard.press(key)
            expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Move in a table")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
