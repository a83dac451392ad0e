"""Leader election in virtual time: one leads at a time, whatever the API does meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.election import LEASE_SECONDS, RENEW_SECONDS, LeaderElection, LostLeaseError
from fairway.client.local import LocalClient
from fairway.errors import TooManyRequests
from fairway.settings import SYSTEM_NAMESPACE as NAMESPACE
from fairway.testing.clock import VirtualClock, settle
from fairway.testing.stores import LocalApi, local_api

NAME = "fairway-controller"


class Cut(LocalClient):
    """A client that can be cut off, and counts its requests."""

    cut = False

    def __init__(self, api: LocalApi) -> None:
        super().__init__(api.objects, "fairway")
        self.requests: Counter[str] = Counter()

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        self._count("get")
        return await super().get(kind, namespace, name)

    async def update(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        self._count("update")
        return await super().update(kind, manifest, subresource)

    def _count(self, verb: str) -> None:
        self.requests[verb] += 1
        if self.cut:
            raise TooManyRequests("cut off")


class Candidate:
    def __init__(self, api: LocalApi, clock: VirtualClock, identity: str, ended: str = "") -> None:
        self.client = Cut(api)
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
            assert RENEW_SECONDS - 1 <= stopped < began <= LEASE_SECONDS + 2

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


def test_a_renewal_is_one_request_and_somebody_elses_edit_does_not_end_a_term() -> None:
    async def told() -> None:
        async with candidates("a") as (api, clock, (a,), _):
            a.client.requests.clear()
            await pass_time(clock, api, 10)
            assert a.client.requests["get"] == 0
            assert 9 <= a.client.requests["update"] <= 11
            await api.patch("leases", NAME, {"metadata": {"labels": {"seen": "yes"}}}, namespace=NAMESPACE)
            await pass_time(clock, api, 10)
            assert a.leads
            assert api.get("leases", NAME, NAMESPACE)["metadata"]["labels"] == {"seen": "yes"}

    story(told)


def test_writes_are_stopped_before_another_may_lead() -> None:
    async def told() -> None:
        async with candidates("a", "b") as (api, clock, (a, b), _):
            a.election.check_leading()
            with pytest.raises(LostLeaseError):
                b.election.check_leading()
            await pass_time(clock, api, 3)
            a.client.cut = True
            last = clock.monotonic()
            for _ in range(2 * LEASE_SECONDS + 4):
                await pass_time(clock, api, 0.5)
                if b.leads:
                    break
                last = clock.monotonic() if writes(a) else last
            assert b.leads
            assert not writes(a)
            assert writes(b)
            assert clock.monotonic() - last >= LEASE_SECONDS - RENEW_SECONDS - 0.5

    story(told)


def writes(candidate: Candidate) -> bool:
    try:
        candidate.election.check_leading()
    except LostLeaseError:
        return False
    return True


def test_an_outage_of_the_api_that_is_shorter_than_the_deadline_does_not_end_a_term() -> None:
    async def told() -> None:
        async with candidates("a", "b") as (api, clock, (a, b), _):
            for _ in range(5):
                await pass_time(clock, api, 3)
                a.client.cut = b.client.cut = True
                await pass_time(clock, api, RENEW_SECONDS - 1.5)
                a.client.cut = b.client.cut = False
            await pass_time(clock, api, 2)
            assert (a.leads, b.leads, a.lost) == (True, False, "")

    story(told)
