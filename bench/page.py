"""``python -m bench.page``: the web page with 10 000 jobs, and what 100 open pages cost the server.

Two parts. In a real Chromium: from the address to the first rows of the queue, and from a change on the server to the
row that shows it. And 100 pages as the server sees them (three watches each, and the question who waits after every
change, at most as often as the page asks): its CPU time while jobs change, with and without them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import ssl
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import psutil

from fairway.testing.servers import Server

JOBS, PAGES, SECONDS, CHANGES_A_SECOND = 10_000, 100, 15.0, 4
_API = "/apis/fairway.dev/v1alpha1"
_WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
_ASKED_EVERY = 0.7
_CHUNK = 500


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
    while _waiting(server) < count - 10:
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
        self._changed = asyncio.Event()
        self.bytes = 0

    async def _request(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port, tls = self._where
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=64 << 20)
        writer.write(f"GET {path} HTTP/1.1\r\nConnection: close\r\n{self._head}".encode())
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    async def _read(self, path: str) -> None:
        reader, writer = await self._request(path)
        while data := await reader.read(1 << 18):
            self.bytes += len(data)
        writer.close()

    async def _watch(self, path: str, revision: str) -> None:
        reader, _ = await self._request(f"{path}watch=1&allowWatchBookmarks=true&resourceVersion={revision}")
        while data := await reader.read(1 << 18):
            self.bytes += len(data)
            self._changed.set()

    async def run(self, revision: str) -> None:
        """Watch as the queue does, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for path in (f"{_API}/managedjobs?", f"{_WORKLOADS}?labelSelector=%21fairway.dev%2Fjob&", f"{_QUEUES}?"):
                group.create_task(self._watch(path, revision))
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._read(f"{_API}/waitingjobs?limit=200")
                await asyncio.sleep(_ASKED_EVERY)


async def load(server: Server, pages: int, seconds: float) -> tuple[float, float]:
    """CPU seconds of the server a second while jobs change and so many pages are open, and MB a second sent to them."""
    target = urlsplit(server.url)
    revision = server.call("GET", f"{_API}/managedjobs?limit=1").body["metadata"]["resourceVersion"]
    opened = [OpenPage(target.hostname or "", target.port or 0, server.token, server.tls()) for _ in range(pages)]
    tasks = [asyncio.create_task(page.run(revision)) for page in opened]
    await asyncio.sleep(min(10.0, 1 + pages / 10))
    process = psutil.Process(server.pid)
    begun, sent = _cpu(process), sum(page.bytes for page in opened)
    start = time.monotonic()
    number = 0
    while time.monotonic() - start < seconds:
        number += 1
        await asyncio.to_thread(change, server, 5000 + number % 50, hold=number // 50 % 2 == 0)
        await asyncio.sleep(1 / CHANGES_A_SECOND)
    took = time.monotonic() - start
    used = (_cpu(process) - begun) / took
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return used, (sum(page.bytes for page in opened) - sent) / took / 1e6


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def in_chromium(server: Server, chromium: str) -> dict[str, float]:
    """Seconds to the first rows, and milliseconds from the arrival of a change to the row that shows it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the extra `page`

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_context(ignore_https_errors=True).new_page()
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
        page.wait_for_selector("text=10,000 jobs", timeout=120_000)
        whole = page.evaluate("performance.now()") / 1000
        page.evaluate(_OBSERVE)
        for number in range(20):
            change(server, number + 10, hold=True)
            page.wait_for_timeout(300)
        took = page.evaluate("window.took")
        browser.close()
    return {"first": median(firsts), "whole": whole, "update": median(took), "slowest": max(took)}


_OBSERVE = """() => {
  window.took = [];
  const parse = JSON.parse;
  JSON.parse = (text) => {
    const found = parse(text);
    if (found.type === "MODIFIED") window.came ??= performance.now();
    return found;
  };
  const seen = () => {
    if (window.came) window.took.push(performance.now() - window.came);
    window.came = undefined;
  };
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(seen).observe(document.querySelector(".vt"), all);
}"""
"""From the parsing of an event of a watch to the next change of the table."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    found: dict[str, Any] = {"jobs": given.jobs, "pages": given.pages}
    with (
        tempfile.TemporaryDirectory(prefix="fairway-bench-page-") as folder,
        Server(Path(folder) / "state", "--cpus", "8", jobs=True) as server,
    ):
        fill(server, given.jobs)
        alone, _ = asyncio.run(load(server, 0, given.seconds))
        used, sent = asyncio.run(load(server, given.pages, given.seconds))
        found |= {"cpu_alone": round(alone, 3), "cpu_with_pages": round(used, 3), "mb_per_second": round(sent, 2)}
        found["rss_mb"] = psutil.Process(server.pid).memory_info().rss >> 20
        print(json.dumps(found), flush=True)
        if chromium := shutil.which("chromium"):
            found |= {name: round(value, 3) for name, value in in_chromium(server, chromium).items()}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
