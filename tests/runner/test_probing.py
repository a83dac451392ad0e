"""Probes: what running containers are asked, and what follows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairway.runner.probing import ProbeFailure, ask
from fairway.runner.processes import ProcessSpec

from .worlds import World, a_world, container, play, pod

LAUNCH = ProcessSpec(id="u/a/0", argv=("true",), env={"PATH": "/usr/bin:/bin", "V": "7"}, cwd="/", log="/dev/null")


@asynccontextmanager
async def a_server(answer: bytes) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def probe(**action: Any) -> dict[str, Any]:
    return {"timeoutSeconds": 1, **action}


def outcome(action: dict[str, Any], part: dict[str, Any] | None = None) -> str:
    async def asked() -> str:
        try:
            await ask(action, part or {}, LAUNCH)
        except ProbeFailure as failure:
            return str(failure)
        return "passed"

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param(["sh", "-c", 'test "$V" = 7'], "passed", id="with the container's environment"),
        pytest.param(["sh", "-c", "exit 3"], "command 'sh' ended with 3", id="a failure"),
        pytest.param(["/no/such/program"], "No such file", id="no such program"),
        pytest.param(["sleep", "60"], "no response within 0.05 s", id="one that takes too long"),
    ],
)
def test_a_command_is_run(command: list[str], want: str) -> None:
    assert want in outcome({"exec": {"command": command}, "timeoutSeconds": 0.05 if command[0] == "sleep" else 5})


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", "passed", id="an answer"),
        pytest.param(b"HTTP/1.1 302 Found\r\n\r\n", "passed", id="a redirection"),
        pytest.param(b"HTTP/1.1 500 Oops\r\n\r\n", "HTTP probe failed with statuscode: 500", id="an error"),
        pytest.param(b"nonsense\r\n", "HTTP probe failed with statuscode: 0", id="no HTTP"),
    ],
)
def test_a_url_is_asked(answer: bytes, want: str) -> None:
    async def story() -> None:
        async with a_server(answer) as port:
            part = {"ports": [{"name": "web", "containerPort": port}]}
            try:
                await ask(probe(httpGet={"port": "web", "path": "/healthz"}), part, LAUNCH)
                found = "passed"
            except ProbeFailure as failure:
                found = str(failure)
            assert found == want
            await ask(probe(tcpSocket={"port": port}), part, LAUNCH)

    play(story())


def test_nobody_listens() -> None:
    assert "Connect call failed" in outcome(probe(tcpSocket={"port": 1}))
    assert outcome(probe(tcpSocket={"port": "web"})) == "the container has no port 'web'"
    assert outcome(probe(grpc={"port": 1})) == "passed", "taken as passed"


class Patient:
    """A container's health, as its probes find it."""

    def __init__(self) -> None:
        self.well = False
        self.port = 0
        self._asked = asyncio.Event()

    def probe(self, **fields: int) -> dict[str, Any]:
        return {"httpGet": {"port": self.port}, "periodSeconds": 10, "failureThreshold": 2, **fields}

    async def asked_again(self, world: World) -> None:
        """Let the next question be asked, and its answer be heard."""
        self._asked.clear()
        await world.pass_time(10)
        await self._asked.wait()
        await world.pass_time(0.1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" if self.well else b"HTTP/1.1 503 Ill\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        self._asked.set()


@asynccontextmanager
async def a_patient() -> AsyncIterator[Patient]:
    patient = Patient()
    server = await asyncio.start_server(patient.serve, "127.0.0.1", 0)
    async with server:
        patient.port = server.sockets[0].getsockname()[1]
        yield patient


def test_readiness_follows_the_probe(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_patient() as patient, a_world(tmp_path) as world, world.running():
            await world.create(pod("p", container("main", readinessProbe=patient.probe())))
            await world.until(lambda: world.phase() == "Running")
            assert world.state_of()["ready"] is False
            patient.well = True
            await patient.asked_again(world)
            await world.until(lambda: world.state_of()["ready"])
            patient.well = False
            await patient.asked_again(world)
            assert world.state_of()["ready"] is True, "one failure is not enough"
            await patient.asked_again(world)
            await world.until(lambda: not world.state_of()["ready"])
            assert world.supervision.stops == []

    play(story())


def test_a_container_that_is_not_alive_is_stopped_and_started_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_patient() as patient, a_world(tmp_path) as world, world.running():
            patient.well = True
            main = container("main", livenessProbe=patient.probe())
            await world.create(pod("p", main, restartPolicy="Always", terminationGracePeriodSeconds=9))
            await world.until(lambda: world.phase() == "Running")
            await patient.asked_again(world)
            patient.well = False
            await patient.asked_again(world)
            assert world.supervision.stops == []
            await patient.asked_again(world)
            await world.until(lambda: world.supervision.stops == [(world.id("p"), 9.0)])
            world.supervision.end(world.id("p"), None, signal=15)
            await world.until(lambda: world.id("p", number=1) in world.supervision.running())

    play(story())


def test_other_probes_wait_for_the_startup_probe(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_patient() as patient, a_world(tmp_path) as world, world.running():
            main = container(
                "main", startupProbe=patient.probe(failureThreshold=9), livenessProbe=patient.probe(failureThreshold=1)
            )
            await world.create(pod("p", main))
            await world.until(lambda: world.phase() == "Running")
            await patient.asked_again(world)
            assert world.state_of()["started"] is False
            patient.well = True
            await patient.asked_again(world)
            await world.until(lambda: world.state_of()["started"] and world.state_of()["ready"])
            assert world.supervision.stops == []

    play(story())
