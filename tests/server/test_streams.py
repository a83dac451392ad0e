"""Watches and followed logs end with the right to them: with the token, the user, the role, and the longest life."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from apis.extensions import samples
from fairway.apis.extensions import definitions
from fairway.apis.machinery.kind import Manifest
from fairway.runtime.clock import SystemClock
from fairway.server.access.roles import Binding, Role
from fairway.server.limits import Limits
from fairway.server.logs.reading import log_path
from fuzz.world import Exchange, World

WATCH = "/api/v1/namespaces/default/configmaps?watch=1"
LOG = "/api/v1/namespaces/default/pods/one/log?follow=true"
VIEWER = (Binding(Role.VIEWER),)
POD = {"metadata": {"name": "one"}, "spec": {"nodeName": "here", "containers": [{"name": "main", "image": "busybox"}]}}

RUNNING = {"name": "main", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


async def follow(world: World, path: str, token: str) -> Exchange:
    """A stream that is open and has said something."""
    if path == LOG:
        pod = (await world.answer("POST", "/api/v1/namespaces/default/pods", POD)).json
        status = {"phase": "Running", "containerStatuses": [RUNNING]}
        where, patch = "/api/v1/namespaces/default/pods/one/status", "application/merge-patch+json"
        assert (await world.answer("PATCH", where, {"status": status}, content_type=patch)).code == 200
        file = log_path(world.state, "default", pod["metadata"]["uid"], "main", 0)
        file.parent.mkdir(parents=True)
        file.write_text("2026-01-01T00:00:00.000000000Z stdout F ready\n")
    else:
        made = {"metadata": {"generateName": "ready-"}}
        assert (await world.answer("POST", path.partition("?")[0], made)).code == 201
    exchange = world.begin("GET", path, token=token)
    await exchange.until_said(b"ready")
    return exchange


def add(world: World, expires_in: float | None = None) -> str:
    expires = None if expires_in is None else SystemClock().now() + timedelta(seconds=expires_in)
    return world.users.add("somebody", VIEWER, expires=expires)


async def expiry(_: World) -> None:
    """The token of this test expires by itself."""


async def removal(world: World) -> None:
    world.users.remove("somebody")


async def revocation(world: World) -> None:
    account = world.users.get("somebody")
    assert account is not None
    world.users.revoke("somebody", account.tokens[0].id)


async def another_role(world: World) -> None:
    world.users.change("somebody", bindings=(Binding(Role.EDITOR, "elsewhere"),))


@pytest.mark.parametrize("path", [WATCH, LOG])
@pytest.mark.parametrize("event", [expiry, removal, revocation, another_role])
def test_a_stream_ends_when_its_user_may_no_longer_have_it(
    world: World, path: str, event: Callable[[World], Awaitable[None]]
) -> None:
    async def story() -> Exchange:
        stream = await follow(world, path, add(world, expires_in=1.0 if event is expiry else None))
        await event(world)
        await stream.until_ended()
        return stream

    stream = world.run(story())
    assert stream.code == 200
    assert stream.complete == (path == WATCH), "a watch ends regularly"
    assert stream.cut_off == (path == LOG), "the end of a log would mean that its container has ended"
    world.check_calm()


@pytest.mark.parametrize("after", [None, samples.crontabs(samples.version("v2"))], ids=["the kind", "the version"])
def test_a_watch_ends_when_what_it_watches_is_no_longer_served(world: World, after: Manifest | None) -> None:
    registry = world.objects.registry

    async def story() -> tuple[Exchange, Exchange]:
        registry.put(definitions.kind_of(samples.crontabs()))
        path = "/apis/stable.example.com/v1/namespaces/default/crontabs?watch=1"
        watch, other = await follow(world, path, world.token), await follow(world, WATCH, world.token)
        registry.remove(samples.CRONTABS) if after is None else registry.put(definitions.kind_of(after))
        await watch.until_ended()
        return watch, other

    watch, other = world.run(story())
    assert (watch.code, watch.complete, other.complete) == (200, True, False)


@pytest.mark.parametrize("path", [WATCH, LOG])
def test_other_streams_go_on(world: World, path: str) -> None:
    async def story() -> None:
        token = world.users.add("other", VIEWER)
        theirs = await follow(world, WATCH, add(world))
        ours = await follow(world, path, token)
        world.users.change("other", bindings=(Binding(Role.ADMIN),))
        world.users.remove("somebody")
        await theirs.until_ended()
        await asyncio.sleep(0)
        assert ours.task is not None
        assert not ours.task.done()
        ours.hang_up()
        await ours.until_ended()

    world.run(story())


def test_a_client_that_takes_nothing_is_cut_off(world: World) -> None:
    async def story() -> Exchange:
        stream = await follow(world, WATCH, add(world))
        stream.stop_reading()
        world.users.remove("somebody")
        await stream.until_ended()
        return stream

    assert world.run(story()).cut_off


@pytest.mark.parametrize("path", [WATCH, f"{WATCH}&timeoutSeconds=86400", LOG])
def test_no_stream_lasts_for_ever(tmp_path: Path, path: str) -> None:
    limits = Limits(longest_watch_seconds=0.2, log_seconds=0.2)
    with World(tmp_path, limits=limits) as world:

        async def story() -> Exchange:
            stream = await follow(world, path, world.token)
            await stream.until_ended()
            return stream

        stream = world.run(story())
    assert stream.complete == (path != LOG)
    assert stream.cut_off == (path == LOG)


def test_no_timer_is_left_when_no_stream_is(world: World) -> None:
    async def story() -> None:
        stream = await follow(world, WATCH, world.token)
        assert len(world.api._streams) == 1
        stream.hang_up()
        await stream.until_ended()
        assert len(world.api._streams) == 0
        world.api._streams._check()
        assert world.api._streams._timer is None

    world.run(story())
