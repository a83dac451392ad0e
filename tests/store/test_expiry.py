"""Events go an hour after they last happened, and there are never too many of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from fairway.store.gc import EventExpiry
from fairway.testing.stores import LocalApi, OpenLog, local_api

from .manifests import config_map, event

HOUR = 3600.0


@asynccontextmanager
async def running(expiry: EventExpiry) -> AsyncIterator[None]:
    task = asyncio.create_task(expiry.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


Step = Callable[[LocalApi], Awaitable[object]]


def happens(name: str) -> Step:
    return lambda api: api.create("events", event(name))


def happens_again(name: str) -> Step:
    return lambda api: api.patch("events", name, {"count": 2})


def passes(seconds: float) -> Step:
    return lambda api: api.clock.run_for(seconds)


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        pytest.param([happens("e")], {"e"}, id="it is there at first"),
        pytest.param([happens("e"), passes(HOUR - 1)], {"e"}, id="and for an hour"),
        pytest.param([happens("e"), passes(HOUR)], set(), id="then it goes"),
        pytest.param([happens("a"), passes(1800), happens("b"), passes(1800)], {"b"}, id="each at its time"),
        pytest.param(
            [happens("e"), passes(3000), happens_again("e"), passes(3000)], {"e"}, id="what happens again stays longer"
        ),
        pytest.param([happens("e"), passes(3000), happens_again("e"), passes(HOUR)], set(), id="but not for ever"),
    ],
)
def test_an_event_goes_an_hour_after_it_last_happened(steps: list[Step], want: set[str]) -> None:
    async def story() -> None:
        async with local_api() as api:
            expiry = EventExpiry(api.objects)
            await api.create("configmaps", config_map())
            for step in steps:
                await step(api)
                await expiry.delete_due()
            assert api.names("events") == want
            assert api.names("configmaps") == {"settings"}

    asyncio.run(story())


def test_events_from_before_a_restart_go_by_the_time_that_they_were_made(open_log: OpenLog) -> None:
    async def before() -> None:
        async with local_api(open_log) as api:
            await api.create("events", event("old"))
            await api.clock.run_for(1800)
            await api.create("events", event("new"))

    async def after() -> None:
        async with local_api(open_log) as api:
            await api.clock.run_for(HOUR)
            await EventExpiry(api.objects).delete_due()
            assert api.names("events") == {"new"}

    asyncio.run(before())
    asyncio.run(after())


def test_of_too_many_events_the_oldest_go() -> None:
    async def story() -> None:
        async with local_api() as api:
            expiry = EventExpiry(api.objects, most=10)
            for number in range(25):
                await api.clock.run_for(1)
                await api.create("events", event(f"e-{number}"))
            await api.patch("events", "e-3", {"count": 2})  # has just happened again
            await expiry.delete_due()
            assert api.names("events") == {"e-3", *(f"e-{number}" for number in range(16, 25))}

    asyncio.run(story())


def test_too_many_events_are_noticed_when_they_come() -> None:
    async def story() -> None:
        async with local_api() as api, running(EventExpiry(api.objects, most=10)):
            await asyncio.gather(*(api.create("events", event(f"e-{number}")) for number in range(40)))
            await api.until(lambda: len(api.names("events")) == 10)

    asyncio.run(story())


def test_an_event_that_is_due_goes_by_itself() -> None:
    async def story() -> None:
        async with local_api() as api, running(EventExpiry(api.objects, lifetime=0.0)):
            await api.create("events", event("brief"))
            await api.until(lambda: api.names("events") == set())

    asyncio.run(story())


def test_an_event_that_somebody_else_deletes_is_no_concern() -> None:
    async def story() -> None:
        async with local_api() as api:
            expiry = EventExpiry(api.objects)
            await api.create("events", event("e"))
            await api.delete("events", "e")
            await api.create("events", event("e"))  # another one of that name, with its own hour
            await api.clock.run_for(HOUR - 1)
            await api.create("events", event("f"))
            await api.clock.run_for(1)
            await asyncio.gather(expiry.delete_due(), api.delete("events", "f"))
            assert api.names("events") == set()

    asyncio.run(story())
