"""Leader election in virtual time: one leads at a time, whatever the API does meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.election import LEASE_SECONDS, NAMESPACE, RENEW_SECONDS, LeaderElection, LostLeaseError
from fairway.client.local import LocalClient
from fairway.errors import TooManyRequests
from fairway.testing.clock import VirtualClock, settle
from fairway.testing.stores import LocalApi, local_api

NAME = "fairway-controller"


class Cut(LocalClient):
    """A client that can be cut off."""

    cut = False

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        if self.cut:
            raise TooManyRequests("cut off")
        return await super().get(kind, namespace, name)


class Candidate:
    def __init__(self, api: LocalApi, clock: VirtualClock, identity: str, ended: str = "") -> None:
        self.client = Cut(api.objects, "fairway")
        lease = api.objects.registry.by_name("leases.coordination.k8s.io")
        assert lease is not None
        self.election = LeaderElection(self.client, lease, clock, NAME, identity, ended=ended)
        self.leads = False
        self.lost = ""

    async def run(self) -> None:
        async with self.election.leading() as lease:
            self.leads = True
            try:
                await lease
            except LostLeaseError as error:
                self.lost = str(error)
            finally:
                self.leads = False


@asynccontextmanager
async def candidates(*identities: str, ended: str = "") -> Any:
    clock = VirtualClock()
    async with local_api(clock=clock, keepers=False) as api:
        made = [Candidate(api, clock, identity, ended) for identity in identities]
        tasks: list[asyncio.Task[None]] = []
        for one in made:
            tasks.append(asyncio.create_task(one.run()))
            await pass_time(clock, api, 0.1)
        try:
            yield api, clock, made, tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def pass_time(clock: VirtualClock, api: LocalApi, seconds: float) -> None:
    for _ in range(max(1, round(seconds / 0.5))):
        await clock.run_for(min(seconds, 0.5))
        for _ in range(3):
            await api.store.settled()
            await settle()


def story(told: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(told())  # type: ignore[arg-type]


def test_the_first_leads_and_the_second_waits_until_the_first_has_ended() -> None:
    async def told() -> None:
        async with candidates("a", "b") as (api, clock, (a, b), tasks):
            await pass_time(clock, api, 60)
            assert (a.leads, b.leads) == (True, False)
            tasks[0].cancel()  # a clean end releases the lease
            await pass_time(clock, api, 3)
            assert (a.leads, b.leads) == (False, True)
            lease = api.get("leases", NAME, NAMESPACE)
            assert lease["spec"]["holderIdentity"] == "b"
            assert lease["spec"]["leaseTransitions"] == 1

    story(told)


def test_a_leader_that_is_cut_off_stops_before_another_begins() -> None:
    async def told() -> None:
        async with candidates("a", "b") as (api, clock, (a, b), _):
            a.client.cut = True
            stopped = began = None
            for step in range(120):
                await pass_time(clock, api, 0.5)
                assert not (a.leads and b.leads)
                stopped = step / 2 if stopped is None and not a.leads else stopped
                began = step / 2 if began is None and b.leads else began
            assert stopped is not None
            assert began is not None
            assert "could not be renewed" in a.lost
            assert RENEW_SECONDS <= stopped < began <= LEASE_SECONDS + 5

    story(told)


@pytest.mark.parametrize(
    ("ended", "at_once"),
    [pytest.param("here_", True, id="a former process of this directory"), pytest.param("", False, id="anybody else")],
)
def test_a_killed_process_is_followed(ended: str, *, at_once: bool) -> None:
    async def told() -> None:
        async with candidates("here_1") as (api, clock, (first,), tasks):
            first.client.cut = True  # killed: it releases nothing
            tasks[0].cancel()
            await pass_time(clock, api, 0.5)
            second = Candidate(api, clock, "here_2", ended)
            task = asyncio.create_task(second.run())
            await pass_time(clock, api, 1)
            assert second.leads is at_once
            await pass_time(clock, api, LEASE_SECONDS + 4)
            assert second.leads
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    story(told)


def test_a_leader_whose_lease_was_taken_steps_down() -> None:
    async def told() -> None:
        async with candidates("a") as (api, clock, (a,), _):
            await api.patch("leases", NAME, {"spec": {"holderIdentity": "thief"}}, namespace=NAMESPACE)
            await pass_time(clock, api, 5)
            assert not a.leads
            assert "another process has taken" in a.lost

    story(told)
