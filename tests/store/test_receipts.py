"""Receipts of transactions: written with them, found after a restart, and never too many."""

import asyncio
from pathlib import Path

import pytest

from fairway.errors import Invalid, StorageFailed
from fairway.store.verbs.receipts import RESOURCE, Once, ReceiptLimits, Receipts, Repeated
from fairway.store.verbs.transacting import CreateOperation
from fairway.testing.clock import VirtualClock
from fairway.testing.stores import LocalApi, UnreliableLog, local_api, log_in_memory, log_on_a_file

from .manifests import config_map


async def carried_out(api: LocalApi, number: int) -> None:
    kind = api.kind("ConfigMap")
    operation = CreateOperation(kind, kind.stored, "default", config_map(f"map-{number}"))
    await api.objects.transact([operation], once=Once(f"receipt-{number}", f"digest-{number}"))


def kept(api: LocalApi) -> set[str]:
    return {name for _, name in api.store.collection(RESOURCE).entries}


def test_a_receipt_names_what_the_transaction_led_to_also_after_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        async with local_api(log_on_a_file(tmp_path / "db")) as api:
            await carried_out(api, 1)
            before = api.objects.receipts.results(Once("receipt-1", "digest-1"))
            assert before is not None
            assert before[0] is not None
            assert before[0][:2] == ("default", "map-1")
        async with local_api(log_on_a_file(tmp_path / "db")) as api:
            assert api.objects.receipts.results(Once("receipt-1", "digest-1")) == before
            assert api.objects.receipts.results(Once("receipt-2", "digest-2")) is None
            with pytest.raises(Invalid):
                api.objects.receipts.results(Once("receipt-1", "another"))

    asyncio.run(play())


@pytest.mark.parametrize(
    "limits", [ReceiptLimits(number=3), ReceiptLimits(data_bytes=600), ReceiptLimits(seconds=10)], ids=str
)
def test_there_are_never_too_many(limits: ReceiptLimits) -> None:
    async def play() -> None:
        clock = VirtualClock()
        async with local_api(clock=clock) as api:
            api.objects.receipts = Receipts(api.store, clock.now, limits)
            for number in range(20):
                await carried_out(api, number)
                clock.advance(4)
            assert "receipt-19" in kept(api)
            assert "receipt-0" not in kept(api)
            assert len(kept(api)) <= 4

    asyncio.run(play())


def test_a_commit_that_fails_leaves_no_receipt_and_takes_none_away() -> None:
    async def play() -> None:
        log = UnreliableLog(log_in_memory()())
        async with local_api(lambda: log) as api:
            api.objects.receipts = Receipts(api.store, api.objects.now, ReceiptLimits(number=1))
            await carried_out(api, 1)
            log.failing = True
            with pytest.raises(StorageFailed):
                await carried_out(api, 2)
            log.failing = False
            assert kept(api) == {"receipt-1"}
            assert api.objects.receipts.results(Once("receipt-2", "digest-2")) is None
            await carried_out(api, 3)
            assert kept(api) == {"receipt-3"}

    asyncio.run(play())


def test_of_two_at_the_same_time_one_is_carried_out() -> None:
    async def play() -> None:
        async with local_api() as api:
            kind = api.kind("ConfigMap")
            once = Once("receipt", "digest")

            def new() -> CreateOperation:
                manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "map-"}}
                return CreateOperation(kind, kind.stored, "default", manifest)

            both = [api.objects.transact([new()], once=once) for _ in range(2)]
            ended = await asyncio.gather(*both, return_exceptions=True)
            assert sum(isinstance(one, Repeated) for one in ended) == 1
            made = [key for key in api.store.collection("configmaps").entries if key[1].startswith("map-")]
            assert len(made) == 1

    asyncio.run(play())
