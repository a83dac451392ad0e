"""Logging in and out, and a server that ends and comes back under an open page."""

import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from fairway.testing.servers import Server
from page import scene
from page.conftest import PageServer, Stage, Visit, visiting


def test_the_address_of_dashboard_logs_in_once_and_keeps_no_secret(browser: Browser, stage: Stage) -> None:
    command = [sys.executable, "-m", "fairway.cli.main", "dashboard", "--no-open", "-o", "json"]
    made = subprocess.run(  # noqa: S603 - our own command
        [*command, "--state", str(stage.server.state)], capture_output=True, text=True, check=True, timeout=60
    )
    url = json.loads(made.stdout)["url"]
    assert stage.server.token not in url
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()

    page.goto(url)

    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert page.url.endswith("/page/#/overview")
    cookies = context.cookies()
    assert [(one["httpOnly"], one["sameSite"], one["secure"]) for one in cookies] == [(True, "Strict", True)]
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert context.cookies() == []
    page.goto(url)
    expect(page.get_by_text("was used or has expired")).to_be_visible()
    context.close()


def test_a_wrong_token_is_refused_in_plain_words(browser: Browser, stage: Stage) -> None:
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(f"{stage.server.url}/")

    page.get_by_label("token").fill("fw_nothing")
    page.get_by_role("button", name="Log in").click()

    expect(page.get_by_text("This token is not known here, or has expired.")).to_be_visible()
    context.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Server:
    return PageServer(tmp_path / "state", "--cpus", "2", jobs=True)


def test_a_page_survives_a_killed_server_and_shows_what_happened_since(browser: Browser, own_server: Server) -> None:
    with own_server as server:
        first = scene.job(server, "default", "before", "sleep 600", cpus=2)
        scene.until(lambda: scene.phase(server, "default", first) == "RUNNING")
        with visiting(browser, server, server.token) as seen:
            page = seen.go("queue", "Queue")
            expect(page.locator(".vt .line", has_text="before")).to_have_count(1)
            server.kill()
            expect(page.locator("#live")).to_have_text("Reconnecting")
            server.start(port=urlsplit(page.url).port or 0)

            scene.job(server, "default", "after", "sleep 600", cpus=2)

            expect(page.locator("#live")).to_have_text("Live", timeout=40_000)
            expect(page.locator(".vt .line", has_text="after")).to_have_count(1)
            expect(page.locator(".vt .line", has_text="before")).to_contain_text("Running")
            _check_refused_connections(seen)


def _check_refused_connections(seen: Visit) -> None:
    """The browser prints that the server did not answer, and nothing else."""
    assert all("Failed to load resource: net::ERR" in one for one in seen.complaints), seen.complaints
    seen.complaints.clear()


def test_ten_thousand_jobs_are_shown_at_once_and_updated_at_once(browser: Browser, own_server: Server) -> None:
    """The times are generous here, because the machine may be busy; `python -m bench.page` measures them."""
    with own_server as server:
        scene.many_jobs(server, 10_000)
        with visiting(browser, server, server.token) as seen:
            begun = time.monotonic()
            page = seen.go("queue", "Queue")
            expect(page.locator(".vt .line").nth(10)).to_be_visible()
            assert time.monotonic() - begun < 20
            expect(page.get_by_text("10,000 jobs")).to_be_visible(timeout=60_000)
            assert page.locator(".vt .line").count() < 100
            page.locator(".vt .rows").evaluate("element => { element.scrollTop = element.scrollHeight }")
            expect(page.locator(".vt .line", has_text="sweep")).not_to_have_count(0)
            page.get_by_label("Search jobs").fill("sweep-777")
            expect(page.locator(".vt .line")).to_have_count(11)
            scene.patched(server, "default", "sweep-7770", hold=True)
            expect(page.locator(".vt .line", has_text="Held")).to_have_count(1)
