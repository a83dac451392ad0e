"""``python -m bench.page``: the web page with 10 000 jobs, and what 100 open pages cost the server.

Two parts. In a real Chromium: from the address to the first rows of the queue, and from a change on the server to the
row that shows it. And 100 pages as the server sees them (three watches each, and the question who waits, as often as
the page asks while jobs change): its CPU time for a change, with and without them, and for a question.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import shutil
import ssl
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from bench.table import Line, main
from fairway.testing.servers import Server

JOBS, PAGES, CHANGES, CHANGES_A_SECOND = 10_000, 100, 40, 4
GOAL_FIRST_SECONDS, GOAL_UPDATE_MS = 1.0, 100.0
_API = "/apis/fairway.dev/v1alpha1"
_WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
_ASKED_EVERY_SECONDS = 2.0
_PATIENCE_SECONDS = 300.0
_CHUNK = 500
_CHANGED_FROM = 500


def fill(server: Server, count: int) -> None:
    """So many jobs of one launch; most of them wait."""
    for start in range(0, count, _CHUNK):
        operations = [
            {
                "verb": "create",
                "manifest": {
                    "apiVersion": "fairway.dev/v1alpha1",
                    "kind": "ManagedJob",
                    "metadata": {"name": f"sweep-{number}", "namespace": "default"},
                    "spec": {"name": "sweep", "tasks": [{"resources": {"cpus": 2}, "run": "sleep 3600"}]},
                },
            }
            for number in range(start, min(count, start + _CHUNK))
        ]
        server.call(
            "POST",
            f"{_API}/namespaces/default/transactions",
            {"kind": "Transaction", "spec": {"operations": operations}},
        )
    until = time.monotonic() + _PATIENCE_SECONDS
    while _waiting(server) < count - 10:
        if time.monotonic() > until:
            raise TimeoutError(f"{_waiting(server)} of {count} jobs wait")
        time.sleep(0.5)


def _waiting(server: Server) -> int:
    queues = server.call("GET", _QUEUES).body["items"]
    return sum((queue.get("status") or {}).get("pendingWorkloads") or 0 for queue in queues)


def change(server: Server, number: int, *, hold: bool) -> None:
    path = f"{_API}/namespaces/default/managedjobs/sweep-{number}"
    server.call("PATCH", path, {"spec": {"hold": hold}}, content_type="application/merge-patch+json")


class OpenPage:
    """What one page asks of the server, without drawing it."""

    def __init__(self, host: str, port: int, token: str, tls: ssl.SSLContext | None) -> None:
        self._where = host, port, tls
        self._head = f"Host: {host}:{port}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\r\n"
        self._watches: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._readers: list[asyncio.Task[None]] = []

    async def _request(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port, tls = self._where
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=64 << 20)
        writer.write(f"GET {path} HTTP/1.1\r\nConnection: close\r\n{self._head}".encode())
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    async def open(self, revision: str) -> None:
        """Begin to watch what the queue shows; return when the server has answered."""
        for path in (f"{_API}/managedjobs?", f"{_WORKLOADS}?labelSelector=%21fairway.dev%2Fjob&", f"{_QUEUES}?"):
            watch = await self._request(f"{path}watch=1&allowWatchBookmarks=true&resourceVersion={revision}")
            self._watches.append(watch)
        self._readers = [asyncio.create_task(_read(reader)) for reader, _ in self._watches[1:]]

    async def sees(self, name: str, phase: bytes) -> None:
        """Read until the watch of the jobs has shown this job in this state."""
        while True:
            event = await self._watches[0][0].readuntil(b"\n")
            if f'"name":"{name}"'.encode() in event and phase in event:
                return

    def close(self) -> None:
        for task in self._readers:
            task.cancel()
        for _, writer in self._watches:
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 18):
        pass


class ServerCost(NamedTuple):
    """CPU seconds of the server: for a change that all pages see, and for a question of one of them."""

    change: float
    ask: float

    def load(self, pages: int) -> float:
        """The part of a core that the pages keep busy while jobs change, computed from these times."""
        return CHANGES_A_SECOND * self.change + pages * self.ask / _ASKED_EVERY_SECONDS


async def cost(server: Server, pages: int, changes: int) -> ServerCost:
    """What so many open pages cost. CPU times, so that it matters little what else runs on the machine."""
    target = urlsplit(server.url)
    revision = server.call("GET", f"{_API}/managedjobs?limit=1").body["metadata"]["resourceVersion"]
    opened = [OpenPage(target.hostname or "", target.port or 0, server.token, server.tls()) for _ in range(pages)]
    for page in opened:
        await page.open(revision)
    process = psutil.Process(server.pid)
    begun = _cpu(process)
    for number in range(changes):
        await asyncio.to_thread(change, server, _CHANGED_FROM + number, hold=True)
        await asyncio.gather(*(page.sees(f"sweep-{_CHANGED_FROM + number}", b'"hold":true') for page in opened))
    used = (_cpu(process) - begun) / changes
    asked = await asyncio.to_thread(_asked, server, process) if pages else 0.0
    for page in opened:
        page.close()
    for number in range(changes):
        change(server, _CHANGED_FROM + number, hold=False)
    return ServerCost(used, asked)


def _asked(server: Server, process: psutil.Process) -> float:
    """CPU seconds for the question who waits, on one connection, as browsers keep it."""
    target = urlsplit(server.url)
    connection = http.client.HTTPSConnection(target.hostname or "", target.port, context=server.tls())
    begun = _cpu(process)
    for _ in range(PAGES):
        connection.request("GET", f"{_API}/waitingjobs?limit=200", headers={"Authorization": f"Bearer {server.token}"})
        connection.getresponse().read()
    connection.close()
    return (_cpu(process) - begun) / PAGES


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class Seen(NamedTuple):
    """What a browser shows, and when."""

    first: float
    """Seconds from the address to the first rows."""

    whole: float
    """Seconds to all rows."""

    update_ms: float
    """Milliseconds from the request that changes a job to the row that shows it."""

    slowest_ms: float


def in_chromium(server: Server, chromium: str, jobs: int) -> Seen:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the extra `page`

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(_PATIENCE_SECONDS * 1000)
        page.goto(f"{server.url}/page/")
        page.get_by_label("token").fill(server.token)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_selector(".stat")
        firsts = []
        for _ in range(5):
            page.goto(f"{server.url}/page/#/queue")
            page.reload(wait_until="commit")
            page.locator(".vt .line").nth(10).wait_for()
            firsts.append(page.evaluate("performance.now()") / 1000)
        page.wait_for_selector(f"text={jobs:,} jobs")
        whole = page.evaluate("performance.now()") / 1000
        page.evaluate(_OBSERVE)
        took = []
        for number in range(20):
            sent = time.time()
            change(server, number + 10, hold=True)
            while len(shown := page.evaluate("window.shown")) <= number:
                page.wait_for_timeout(20)
            took.append(shown[number] - sent * 1e3)
            page.wait_for_timeout(200)
        browser.close()
    return Seen(median(firsts), whole, median(took), max(took))


_OBSERVE = """() => {
  window.shown = [];
  const parse = JSON.parse;
  let came = "";
  JSON.parse = (text) => {
    const found = parse(text);
    if (found.type === "MODIFIED" && found.object.spec.hold) came = found.object.metadata.name;
    return found;
  };
  const seen = new Set();
  const look = () => {
    if (!came || seen.has(came)) return;
    seen.add(came);
    window.shown.push(performance.timeOrigin + performance.now());
  };
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(look).observe(document.querySelector(".vt"), all);
}"""
"""When the table changed after the first event of a watch that says that a job is held."""


def _server_lines(server: Server, pages: int) -> list[Line]:
    alone = asyncio.run(cost(server, 0, CHANGES))
    found = asyncio.run(cost(server, pages, CHANGES))
    change_ms = f"{found.change * 1e3:.1f} ms of CPU, {alone.change * 1e3:.1f} without them"
    load = f"{found.load(pages):.0%} of a core, {alone.load(0):.0%} without"
    memory = psutil.Process(server.pid).memory_info().rss / 1e6
    return [
        Line(f"a change of a job, seen by {pages} pages", change_ms, "", None, memory),
        Line("  who waits, 200 of them", f"{found.ask * 1e3:.1f} ms of CPU", "", None, 0),
        Line(f"  {pages} pages while {CHANGES_A_SECOND} jobs change a second", load, "", None, 0),
    ]


def _browser_lines(server: Server, jobs: int) -> list[Line]:
    chromium = shutil.which("chromium")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        return [Line("the page in a browser", "not measured: make test-page gets Chromium", "", None, 0)]
    seen = in_chromium(server, chromium, jobs)
    figure = f"{seen.first:.2f} s, all rows {seen.whole:.1f} s"
    update = f"median {seen.update_ms:.0f} ms, at most {seen.slowest_ms:.0f}"
    first_met, update_met = seen.first < GOAL_FIRST_SECONDS, seen.update_ms < GOAL_UPDATE_MS
    return [
        Line(f"first rows of {jobs} jobs in Chromium", figure, f"{GOAL_FIRST_SECONDS:.0f} s", first_met, 0),
        Line("  from a change to its row", update, f"{GOAL_UPDATE_MS:.0f} ms", update_met, 0),
    ]


def lines(scale: int) -> list[Line]:
    """The lines of the table."""
    jobs, pages = JOBS // scale, PAGES // scale
    with (
        tempfile.TemporaryDirectory(prefix="fairway-bench-page-") as folder,
        Server(Path(folder) / "state", "--cpus", "8", jobs=True) as server,
    ):
        fill(server, jobs)
        return [*_server_lines(server, pages), *_browser_lines(server, jobs)]


if __name__ == "__main__":
    sys.exit(main("bench.page", __doc__, lines))
