"""Every number that counts something is a link to the list of it, and that list has as many rows."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, expect

from page import scene
from page.conftest import PageServer, Stage, Visit, visiting
from page.test_pages import named

ROWS = {
    "jobs": ".vt .line",
    "attempts": "[aria-label='Attempts'] tbody tr, .steps > li",
    "queues": ".tree .node",
    "nodes": "[aria-label^='Node ']",
    "pods": "[aria-label^='Node '] tbody tr",
}
"""The rows of the lists that numbers lead to. No list of the scene is longer than the screen."""

LISTS = {"queue": "jobs", "history": "attempts", "quota": "queues", "nodes": "nodes"}
COLUMNS = {"Attempts", "Succeeded", "Failed", "Preempted", "Jobs"}
NOUN = (
    "jobs?|attempts?|queues?|nodes?|pods?|preemptions?"
    "|running|waiting|ended|started|succeeded|failed|preempted|evicted|lost|not ready"
)
FIND_TEXTS = """([main, noun]) => {
  const found = [];
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (parentElement.closest("a, pre, code, svg, select, .logbox, .pill, .hidden")) continue;
    const counts = new RegExp(`([0-9][0-9,]*) (${noun})\\\\b`, "g");
    for (const [, number, what] of data.matchAll(counts)) found.push([number, what]);
  }
  return found;
}"""
FIND_CELLS = """(main, columns) => [...main.querySelectorAll("td")].filter((cell) => {
  const label = cell.closest("table").querySelectorAll("th")[cell.cellIndex].textContent;
  return columns.includes(label) && !cell.querySelector("a") && cell.textContent !== "0";
}).map((cell) => cell.textContent)"""
Open = Callable[..., Visit]


class CountLink(NamedTuple):
    """A number on a page, and the address that it leads to."""

    value: int
    address: str

    @property
    def rows(self) -> str:
        return "pods" if "nodes?node=" in self.address else LISTS[re.split(r"[/?]", self.address)[1]]


def whole(text: str) -> int | None:
    """The number that a text begins with, if it counts: `3`, `9,996 waiting`; no `50%`, no `4 / 8`."""
    found = re.fullmatch(r"([\d,]+)( [a-z ]+)?", text.strip())
    return int(found[1].replace(",", "")) if found else None


def links(page: Page) -> set[CountLink]:
    texts = page.locator("main a.count, main a.number").evaluate_all(
        "all => all.map((one) => [one.innerText, one.getAttribute('href')])"
    )
    return {CountLink(value, address) for text, address in texts if (value := whole(text)) is not None}


def check_all_are_links(page: Page) -> None:
    """What is no link counts the rows of a list on the same page."""
    main = page.locator("main").element_handle()
    for number, what in page.evaluate(FIND_TEXTS, [main, NOUN]):
        rows = ROWS.get(what if what.endswith("s") else f"{what}s", "")
        assert rows, f"{number} {what} on {page.url} is no link"
        expect(page.locator(rows)).to_have_count(int(number.replace(",", "")))
    assert [text for text in page.locator("main span.number").all_inner_texts() if whole(text)] == []
    assert page.evaluate(f"([main, columns]) => ({FIND_CELLS})(main, columns)", [main, sorted(COLUMNS)]) == []


def test_every_number_that_counts_something_leads_to_a_list_of_as_many_rows(visit: Open, stage: Stage) -> None:
    seen = visit(viewport={"width": 1440, "height": 2000})
    job = f"jobs/vision/{named(stage.server, 'vision', 'sweep-lr')}"
    pages = ["overview", "queue", "queue?state=all", "quota", "nodes", "users", job, "history?range=day"]
    found: set[CountLink] = set()
    for path in [*pages, "history?range=day&by=team", "history?range=week&by=flavor"]:
        page = seen.go(path)
        expect(page.get_by_text("Loading …")).to_have_count(0)
        expect(page.locator("#live")).to_have_text("Live")
        if path == "overview":
            expect(page.get_by_text("all ready")).to_be_visible()
        check_all_are_links(page)
        found |= links(page)

    assert {link.rows for link in found} == set(ROWS)
    for link in sorted(found):
        seen.page.goto("about:blank")
        page = seen.go(link.address.removeprefix("#/"))
        expect(page.locator("main h1")).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.locator(ROWS[link.rows]), f"{link}").to_have_count(link.value)


def test_the_numbers_of_a_played_future_show_the_jobs_that_they_count(visit: Open) -> None:
    page = visit().go("whatif", "What if")
    page.get_by_role("button", name="Play it").click()
    jobs = page.get_by_label("Jobs", exact=True)
    expect(jobs).to_be_visible(timeout=60_000)
    check_all_are_links(page)
    counts = page.locator("main a.count, main a.number")

    for index in range(counts.count()):
        value = whole(counts.nth(index).inner_text())
        assert value is not None
        counts.nth(index).click()
        expect(jobs.locator("tbody tr")).to_have_count(value)

    assert counts.count() > 3
    assert "jobs=" in page.url or "queue=" in page.url
    jobs.get_by_role("link", name="All jobs").click()
    expect(jobs).to_contain_text("nightly-export")


def test_attempts_beyond_the_first_fifty_are_shown_on_demand(browser: Browser, tmp_path: Path) -> None:
    with PageServer(tmp_path / "state", "--cpus", "8", jobs=True) as server:
        for _ in range(53):
            scene.job(server, "default", "many", "true", cpus=0.1)
        usage = f"{scene.JOBS}/usage"
        scene.until(lambda: server.call("GET", usage).body["total"]["succeeded"] == 53)
        with visiting(browser, server, server.token) as seen:
            page = seen.go("history?range=day&outcome=Succeeded", "History")
            attempts = page.get_by_label("Attempts", exact=True)
            expect(attempts).to_contain_text("the last 50 of 53")
            expect(attempts.locator("tbody tr")).to_have_count(50)

            page.get_by_role("button", name="Show more").click()

            expect(attempts.locator("tbody tr")).to_have_count(53)
            expect(page.get_by_role("button", name="Show more")).to_have_count(0)
