"""Probes: whether a running container has started, is ready, and is still alive.

`exec`, `httpGet` and `tcpSocket` are asked as a kubelet asks them; a `grpc` probe is taken as passed. Each attempt of a
container is watched by one task, from its start to its end, which reports changes of the result.
"""

import asyncio
import contextlib
import os
import signal
import ssl
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from fairway.runner.pods.fields import ADDRESS
from fairway.runner.pods.planning import Health
from fairway.runner.processes import ProcessSpec
from fairway.runtime.clock import Clock

PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_MOST_HEADER_BYTES: Final = 8192


class ProbeFailure(Exception):
    """A probe that was not passed, and why."""


class Watched(Struct, frozen=True):
    """One attempt of a container that has probes."""

    container: Mapping[str, Any]
    launch: ProcessSpec
    started_at: float
    tell: Callable[[Health], None]
    fail: Callable[[str, float | None], Awaitable[None]]
    """Hears which probe failed for good, and how many seconds the container has to end, if the probe says so."""

    warn: Callable[[str, str], None]
    """Called for every failure, with the probe and the reason."""


def has_probes(container: Mapping[str, Any]) -> bool:
    return any(container.get(name) for name in PROBES)


def first_health(container: Mapping[str, Any]) -> Health:
    """What is assumed of a container before any probe was asked."""
    started = not container.get("startupProbe")
    return Health(started=started, ready=started and not container.get("readinessProbe"))


class Probing:
    """The tasks that watch containers, by process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def watches(self, process_id: str) -> bool:
        return process_id in self._tasks

    def watch(self, watched: Watched) -> None:
        self._tasks[watched.launch.id] = asyncio.create_task(self._watch(watched))

    def end(self, process_id: str) -> None:
        """The process has ended, or is to end: there is nothing more to ask."""
        task = self._tasks.pop(process_id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, watched: Watched) -> None:
        startup = watched.container.get("startupProbe")
        if startup and not await self._passes(watched, "Startup", startup):
            return
        ready = not watched.container.get("readinessProbe")
        watched.tell(Health(started=True, ready=ready))
        async with asyncio.TaskGroup() as group:
            if readiness := watched.container.get("readinessProbe"):
                group.create_task(self._follow_readiness(watched, readiness))
            if liveness := watched.container.get("livenessProbe"):
                group.create_task(self._follow_liveness(watched, liveness))

    async def _passes(self, watched: Watched, name: str, probe: Mapping[str, Any]) -> bool:
        """Ask until the probe is passed once; whether it was before it failed for good."""
        failures = 0
        await self._delay(watched, probe)
        while True:
            try:
                await ask(probe, watched.container, watched.launch)
            except ProbeFailure as failure:
                failures += 1
                watched.warn(name, str(failure))
                if failures >= probe["failureThreshold"]:
                    await watched.fail(name, probe.get("terminationGracePeriodSeconds"))
                    return False
            else:
                return True
            await self._clock.sleep(probe["periodSeconds"])

    async def _follow_readiness(self, watched: Watched, probe: Mapping[str, Any]) -> None:
        ready, streak = False, 0
        await self._delay(watched, probe)
        while True:
            try:
                await ask(probe, watched.container, watched.launch)
                passed = True
            except ProbeFailure as failure:
                passed = False
                watched.warn("Readiness", str(failure))
            streak = 0 if passed == ready else streak + 1
            if streak >= probe["successThreshold" if passed else "failureThreshold"]:
                ready, streak = passed, 0
                watched.tell(Health(started=True, ready=ready))
            await self._clock.sleep(probe["periodSeconds"])

    async def _follow_liveness(self, watched: Watched, probe: Mapping[str, Any]) -> None:
        failures = 0
        await self._delay(watched, probe)
        while True:
            try:
                await ask(probe, watched.container, watched.launch)
                failures = 0
            except ProbeFailure as failure:
                failures += 1
                watched.warn("Liveness", str(failure))
                if failures >= probe["failureThreshold"]:
                    await watched.fail("Liveness", probe.get("terminationGracePeriodSeconds"))
                    return
            await self._clock.sleep(probe["periodSeconds"])

    async def _delay(self, watched: Watched, probe: Mapping[str, Any]) -> None:
        wait = watched.started_at + (probe.get("initialDelaySeconds") or 0) - self._clock.now().timestamp()
        if wait > 0:
            await self._clock.sleep(wait)


async def ask(probe: Mapping[str, Any], container: Mapping[str, Any], launch: ProcessSpec) -> None:
    """Ask once; `ProbeFailure` if it is not passed."""
    seconds = probe["timeoutSeconds"]
    try:
        async with asyncio.timeout(seconds):
            if probe.get("exec"):
                await _run(probe["exec"].get("command") or [], launch)
            elif probe.get("tcpSocket"):
                await _connect(probe["tcpSocket"], container)
            elif probe.get("httpGet"):
                await _get(probe["httpGet"], container)
    except TimeoutError:
        raise ProbeFailure(f"no response within {seconds} s") from None
    except OSError as error:
        raise ProbeFailure(str(error)) from error


async def _run(command: list[str], launch: ProcessSpec) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, env=launch.env, cwd=launch.cwd, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    if code:
        raise ProbeFailure(f"command {command[0]!r} ended with {code}")


async def _connect(action: Mapping[str, Any], container: Mapping[str, Any]) -> None:
    _, writer = await asyncio.open_connection(action.get("host") or ADDRESS, _port(action["port"], container))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _get(action: Mapping[str, Any], container: Mapping[str, Any]) -> None:
    host, port = action.get("host") or ADDRESS, _port(action["port"], container)
    context = None
    if action.get("scheme") == "HTTPS":  # like a kubelet: the certificate is not verified
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_MOST_HEADER_BYTES)
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/fairway", "Accept": "*/*", "Connection": "close"}
        headers |= {one["name"]: one.get("value") or "" for one in action.get("httpHeaders") or ()}
        lines = [f"GET {action.get('path') or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        answer = (await reader.readline()).split()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    status = int(answer[1]) if len(answer) > 1 and answer[1].isdigit() else 0
    if not 200 <= status < 400:
        raise ProbeFailure(f"HTTP probe failed with statuscode: {status}")


def _port(port: int | str, container: Mapping[str, Any]) -> int:
    if isinstance(port, int):
        return port
    if port.isdecimal():
        return int(port)
    for known in container.get("ports") or ():
        if known.get("name") == port:
            return int(known["containerPort"])
    raise ProbeFailure(f"the container has no port {port!r}")
