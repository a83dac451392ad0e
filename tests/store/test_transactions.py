"""Transactions: several writes that happen together or not at all, each decided on top of the ones before it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    NotFound,
    OperationRefused,
    StorageFailed,
    TooLarge,
    ValidationError,
)
from fairway.store.entries import Key
from fairway.store.selectors import Selection
from fairway.store.verbs import DeleteOptions, PatchType, WriteOptions, Written, transacting
from fairway.store.verbs.reading import decoded
from fairway.store.verbs.transacting import CreateOperation, DeleteOperation, Operation, PatchOperation
from fairway.testing.stores import LocalApi, OpenLog, UnreliableLog, local_api, log_in_memory

from .manifests import config_map, job

MINE = "example.dev/mine"


def create(api: LocalApi, kind: str, manifest: Manifest, namespace: str = "default") -> CreateOperation:
    found = api.kind(kind)
    return CreateOperation(found, found.stored, namespace if found.namespaced else "", manifest)


def patch(api: LocalApi, kind: str, name: str, body: Any, namespace: str = "default") -> PatchOperation:
    found = api.kind(kind)
    return PatchOperation(found, found.stored, (namespace, name), body)


def delete(api: LocalApi, kind: str, name: str, **options: Any) -> DeleteOperation:
    return DeleteOperation(api.kind(kind), ("default", name), DeleteOptions(**options))


def test_all_is_done_in_one_commit_with_revisions_in_sequence(open_log: OpenLog) -> None:
    async def story() -> None:
        log = UnreliableLog(open_log())
        async with local_api(lambda: log) as api:
            kept = await api.create("configmaps", config_map("kept"))
            await api.create("configmaps", config_map("gone"))
            batches, before = len(log.batches), api.store.revision
            written = await api.objects.transact(
                [
                    create(api, "configmaps", config_map("new")),
                    patch(api, "configmaps", "kept", {"data": {"color": "blue"}}),
                    delete(api, "configmaps", "gone"),
                ]
            )

            assert len(log.batches) == batches + 1
            assert [one.entry.revision for one in written] == [before + 1, before + 2, before + 3]
            assert [(one.created, one.removed) for one in written] == [(True, False), (False, False), (False, True)]
            assert api.names("configmaps") == {"new", "kept"}
            assert decoded(written[1].entry) == api.get("configmaps", "kept")
            assert decoded(written[1].entry)["metadata"]["uid"] == kept["metadata"]["uid"]

    asyncio.run(story())


def test_what_is_stored_is_there_after_a_restart(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            await api.objects.transact([create(api, "managedjobs", job(f"train-{n}")) for n in range(50)])
            revision = api.store.revision
        async with local_api(open_log) as api:
            assert api.names("managedjobs") == {f"train-{n}" for n in range(50)}
            assert api.store.revision == revision

    asyncio.run(story())


def test_operations_on_one_object_build_on_each_other(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            events = api.objects.watch(Selection(api.kind("configmaps")), api.store.revision)
            made, changed, gone, again = await api.objects.transact(
                [
                    create(api, "configmaps", config_map("a")),
                    patch(api, "configmaps", "a", {"data": {"size": "7"}}),
                    delete(api, "configmaps", "a"),
                    create(api, "configmaps", config_map("a")),
                ]
            )

            assert decoded(changed.entry)["data"] == {"color": "red", "size": "7"}
            assert gone.removed
            uids = [one.entry.meta.uid for one in (made, changed, gone, again)]
            assert uids[0] == uids[1] == uids[2] != uids[3]
            assert [event.type for event in await events.next()] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
            assert api.get("configmaps", "a") == decoded(again.entry)

    asyncio.run(story())


def test_what_a_transaction_makes_can_be_used_in_it() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.objects.transact(
                [
                    create(api, "namespaces", {"metadata": {"name": "team"}}),
                    create(api, "configmaps", config_map("a"), "team"),
                ]
            )
            assert api.get("configmaps", "a", "team") is not None

    asyncio.run(story())


REFUSED = [
    pytest.param("create", AlreadyExists, 'configmaps "there" already exists', id="it is there already"),
    pytest.param("twice", AlreadyExists, 'configmaps "new" already exists', id="made in the same transaction"),
    pytest.param("patch", NotFound, 'configmaps "nobody" not found', id="it is not there"),
    pytest.param("stale", Conflict, "the object has been modified", id="it has changed"),
    pytest.param("delete", NotFound, 'configmaps "nobody" not found', id="nothing to delete"),
    pytest.param("invalid", ValidationError, "metadata.name: Invalid value", id="it breaks the rules of its kind"),
    pytest.param("namespace", NotFound, 'namespaces "nowhere" not found', id="a namespace that is not there"),
    pytest.param("body", BadRequest, "the body must be a ConfigMap object", id="no object at all"),
]


def refused(api: LocalApi, what: str) -> Operation:
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}}
    operations: dict[str, Operation] = {
        "create": create(api, "configmaps", config_map("there")),
        "twice": create(api, "configmaps", config_map("new")),
        "patch": patch(api, "configmaps", "nobody", {"data": {"a": "b"}}),
        "stale": patch(api, "configmaps", "there", stale),
        "delete": delete(api, "configmaps", "nobody"),
        "invalid": create(api, "configmaps", config_map("No Name")),
        "namespace": create(api, "configmaps", config_map("x"), "nowhere"),
        "body": create(api, "configmaps", {}),
    }
    operation = operations[what]
    return operation._replace(manifest=["no", "object"]) if what == "body" else operation  # type: ignore[call-arg]


@pytest.mark.parametrize(("what", "cause", "words"), REFUSED)
def test_one_that_is_refused_is_named_and_nothing_is_done(what: str, cause: type[Exception], words: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            there = await api.create("configmaps", config_map("there"))
            before = api.store.next_revision
            operations = [
                create(api, "configmaps", config_map("new")),
                delete(api, "configmaps", "there") if what not in {"create", "stale"} else patch(
                    api, "configmaps", "there", {"data": {"touched": "yes"}}
                ),
                refused(api, what),
                create(api, "configmaps", config_map("never")),
            ]  # fmt: skip
            with pytest.raises(OperationRefused) as raised:
                await api.objects.transact(operations)

            assert (raised.value.number, type(raised.value.cause)) == (3, cause)
            assert str(raised.value).startswith("operation 3: ")
            assert words in str(raised.value)
            assert api.store.next_revision == before
            assert api.names("configmaps") == {"there"}
            assert api.get("configmaps", "there") == there
            await api.create("configmaps", config_map("new"))  # as if nothing had been asked for

    asyncio.run(story())


def test_a_dry_run_tells_everything_and_does_nothing() -> None:
    async def story() -> None:
        async with local_api() as api:
            there = await api.create("configmaps", config_map("there"))
            before = api.store.next_revision
            made, patched, changed, gone = await api.objects.transact(
                [
                    create(api, "configmaps", config_map("new")),
                    patch(api, "configmaps", "new", {"data": {"size": "7"}}),
                    patch(api, "configmaps", "there", {"data": {"size": "8"}}),
                    delete(api, "configmaps", "there"),
                ],
                WriteOptions(dry_run=True),
            )

            assert api.store.next_revision == before
            assert [one.entry.revision for one in (made, patched, changed, gone)] == [0, 0, 0, 0]
            assert "resourceVersion" not in decoded(patched.entry)["metadata"]
            assert decoded(patched.entry)["data"] == {"color": "red", "size": "7"}
            revision = there["metadata"]["resourceVersion"]
            assert decoded(changed.entry)["metadata"]["resourceVersion"] == revision
            assert gone.removed
            assert api.names("configmaps") == {"there"}

    asyncio.run(story())


def test_watchers_hear_of_all_of_it_after_the_commit_and_of_nothing_before() -> None:
    async def story() -> None:
        log = UnreliableLog(log_in_memory()())
        async with local_api(lambda: log) as api:
            events = api.objects.watch(Selection(api.kind("configmaps")), api.store.revision)
            transaction = asyncio.ensure_future(
                api.objects.transact([create(api, "configmaps", config_map(f"m{n}")) for n in range(3)])
            )
            await asyncio.sleep(0)
            assert not events.is_behind
            assert api.names("configmaps") == set()
            await transaction
            assert [event.entry.name for event in await events.next()] == ["m0", "m1", "m2"]

    asyncio.run(story())


def test_a_disk_that_fails_takes_all_of_it_back() -> None:
    async def story() -> None:
        log = UnreliableLog(log_in_memory()())
        async with local_api(lambda: log) as api:
            await api.create("configmaps", config_map("there"))
            operations: list[Operation] = [create(api, "configmaps", config_map("new"))]
            operations.append(delete(api, "configmaps", "there"))
            log.failing = True
            with pytest.raises(StorageFailed):
                await api.objects.transact(operations)
            log.failing = False
            assert api.names("configmaps") == {"there"}
            await api.objects.transact(
                [create(api, "configmaps", config_map("new")), delete(api, "configmaps", "there")]
            )
            assert api.names("configmaps") == {"new"}

    asyncio.run(story())


def test_transactions_and_single_writes_at_the_same_time_are_decided_in_their_order() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map("counter"))

            def counted(number: int) -> list[Operation]:
                made = create(api, "configmaps", config_map(f"m{number}"))
                return [made, patch(api, "configmaps", "counter", {"data": {f"n{number}": "1"}})]

            await asyncio.gather(
                *(api.objects.transact(counted(number)) for number in range(20)),
                *(api.patch("configmaps", "counter", {"data": {f"s{number}": "1"}}) for number in range(20)),
            )
            counter = api.get("configmaps", "counter")
            assert counter is not None
            assert len(counter["data"]) == 41
            assert len(api.names("configmaps")) == 21

    asyncio.run(story())


def test_nothing_to_do_is_done_at_once() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map("there"))
            before = api.store.next_revision
            assert await api.objects.transact([]) == []
            (same,) = await api.objects.transact([patch(api, "configmaps", "there", {"data": {"color": "red"}})])
            assert api.store.next_revision == before
            assert decoded(same.entry) == api.get("configmaps", "there")

    asyncio.run(story())


def test_there_are_at_most_so_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transacting, "MOST_OPERATIONS", 3)

    async def story() -> None:
        async with local_api() as api:
            with pytest.raises(BadRequest, match="Too many: 4: a transaction has at most 3 operations"):
                await api.objects.transact([create(api, "configmaps", config_map(f"m{n}")) for n in range(4)])
            await api.objects.transact([create(api, "configmaps", config_map(f"m{n}")) for n in range(3)])

    asyncio.run(story())


@pytest.mark.parametrize("change", [lambda n: {"data": {"n": str(n)}}, lambda _: {}], ids=["some", "none"])
def test_small_patches_do_not_make_a_transaction_that_never_ends(
    change: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that change nothing took as long, and the answer told of the object for each of them."""
    monkeypatch.setattr(transacting, "MOST_BYTES", 100_000)

    async def story() -> None:
        async with local_api() as api:
            large = {"metadata": {"name": "large"}, "data": {"x": "y" * 30_000}}
            await api.create("configmaps", large)
            patches = [patch(api, "configmaps", "large", change(n)) for n in range(10)]
            with pytest.raises(OperationRefused, match=r"operation 4: .* more than 100000 bytes") as raised:
                await api.objects.transact(patches)
            assert isinstance(raised.value.cause, TooLarge)
            assert (api.get("configmaps", "large") or {})["data"] == large["data"]

    asyncio.run(story())


def test_one_that_must_finish_first_is_marked_and_not_gone() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map("held", finalizers=[MINE]))
            (marked,) = await api.objects.transact([delete(api, "configmaps", "held")])
            assert not marked.removed
            assert decoded(marked.entry)["metadata"]["deletionTimestamp"]

    asyncio.run(story())


# The same as one by one


NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["red", "blue", "green"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, VALUES),
        st.tuples(st.just("patch"), NAMES, VALUES),
        st.tuples(st.just("guarded"), NAMES, VALUES),
        st.tuples(st.just("hold"), NAMES, VALUES),
        st.tuples(st.just("delete"), NAMES, VALUES),
    ),
    max_size=8,
)
Step = tuple[str, str, str]


def operation(api: LocalApi, step: Step) -> Operation:
    verb, name, value = step
    match verb:
        case "create":
            return create(api, "configmaps", {"metadata": {"name": name}, "data": {"color": value}})
        case "patch":
            return patch(api, "configmaps", name, {"data": {"color": value}})
        case "guarded":
            return patch(api, "configmaps", name, {"metadata": {"resourceVersion": "9"}, "data": {"size": value}})
        case "hold":
            return patch(api, "configmaps", name, {"metadata": {"finalizers": [MINE]}})
        case _:
            return delete(api, "configmaps", name)


async def alone(api: LocalApi, made: Operation) -> Written:
    """The same write by itself."""
    return (await api.objects.transact([made]))[0]


def state(api: LocalApi) -> dict[str, Manifest]:
    """Everything but the identities, which are drawn."""
    found = {}
    for name in api.names("configmaps"):
        manifest = api.get("configmaps", name)
        assert manifest is not None
        manifest["metadata"].pop("uid")
        found[name] = manifest
    return found


async def one_by_one(api: LocalApi, steps: Sequence[Step]) -> tuple[int, type[Exception]] | None:
    """Plain requests, until one is refused: which, and why."""
    kind: Kind = api.kind("configmaps")
    for number, step in enumerate(steps, 1):
        made = operation(api, step)
        try:
            if isinstance(made, CreateOperation):
                await api.objects.create(kind, kind.stored, "default", made.manifest)
            elif isinstance(made, PatchOperation):
                key: Key = made.key
                await api.patch("configmaps", key[1], made.patch)
            else:
                await api.objects.delete(kind, made.key, made.options)
        except (ApiError, ValidationError) as error:
            return number, type(error)
    return None


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS, OPERATIONS)
def test_a_transaction_is_the_same_writes_one_by_one_or_nothing(before: list[Step], steps: list[Step]) -> None:
    async def story() -> None:
        async with local_api() as api, local_api() as other:
            for each in (api, other):
                for step in before:
                    try:
                        await alone(each, operation(each, step))
                    except OperationRefused:
                        continue
            start, revision = state(api), api.store.revision
            assert start == state(other)
            expected = await one_by_one(other, steps)
            transaction = [operation(api, step) for step in steps]
            if expected is None:
                await api.objects.transact(transaction)
                assert state(api) == state(other)
                assert api.store.revision == other.store.revision
            else:
                with pytest.raises(OperationRefused) as refused:
                    await api.objects.transact(transaction)
                assert (refused.value.number, type(refused.value.cause)) == expected
                assert state(api) == start
                assert api.store.revision == revision

    asyncio.run(story())


# Decided in slices: what others write meanwhile counts


def sliced(api: LocalApi) -> None:
    """Pause after every operation."""
    api.objects.slices.seconds = 0.0


@pytest.mark.parametrize("count", [1, 2, 20])
def test_a_patch_is_decided_on_what_others_wrote_meanwhile(count: int) -> None:
    async def story() -> None:
        async with local_api(log_in_memory()) as api:
            sliced(api)
            for number in range(count):
                await api.create("configmaps", config_map(f"m{number}"))
            operations = [patch(api, "configmaps", f"m{n}", {"data": {"mine": "1"}}) for n in range(count)]
            transacting_all = asyncio.create_task(api.objects.transact([*operations, *operations]))
            others = [(0, "first"), (count - 1, "last")]
            for number, value in others:
                await asyncio.sleep(0)
                await api.objects.patch(*_merge(api, f"m{number}", {"data": {"theirs": value}}))
            written = await transacting_all
            for number in range(count):
                assert (api.get("configmaps", f"m{number}") or {})["data"]["mine"] == "1"
            assert (api.get("configmaps", f"m{count - 1}") or {})["data"]["theirs"] == "last"
            changed = [one.entry for one in written if one.durable is None and one.entry.revision]
            for entry in changed:
                assert decoded(entry)["metadata"]["resourceVersion"] == str(entry.revision)

    asyncio.run(story())


def _merge(api: LocalApi, name: str, body: Any) -> tuple[Any, ...]:
    kind = api.kind("configmaps")
    return kind, kind.stored, ("default", name), PatchType.MERGE, body


def test_the_first_of_two_that_create_the_same_wins() -> None:
    async def story() -> None:
        async with local_api(log_in_memory()) as api:
            sliced(api)
            creates = [create(api, "configmaps", config_map(f"m{number}")) for number in range(20)]
            task = asyncio.create_task(api.objects.transact(creates))
            await asyncio.sleep(0)
            await api.create("configmaps", config_map("m3"))
            with pytest.raises(OperationRefused) as refused:
                await task
            assert refused.value.number == 4
            assert isinstance(refused.value.cause, AlreadyExists)
            assert api.names("configmaps") == {"m3"}

    asyncio.run(story())


def test_a_namespace_that_ends_meanwhile_takes_nothing_more() -> None:
    async def story() -> None:
        async with local_api(log_in_memory()) as api:
            await api.create("namespaces", {"metadata": {"name": "team"}})
            sliced(api)
            creates = [create(api, "configmaps", config_map(f"m{number}"), "team") for number in range(20)]
            task = asyncio.create_task(api.objects.transact(creates))
            await asyncio.sleep(0)
            await api.objects.delete(api.kind("namespaces"), ("", "team"))
            with pytest.raises(OperationRefused):
                await task
            assert api.names("configmaps") == set()

    asyncio.run(story())


def test_a_condition_on_the_revision_holds_at_the_end() -> None:
    async def story() -> None:
        async with local_api(log_in_memory()) as api:
            made = await api.create("configmaps", config_map("m"))
            sliced(api)
            known = made["metadata"]["resourceVersion"]
            mine = patch(api, "configmaps", "m", {"metadata": {"resourceVersion": known}, "data": {"mine": "1"}})
            fill = [create(api, "configmaps", config_map(f"m{number}")) for number in range(20)]
            task = asyncio.create_task(api.objects.transact([mine, *fill]))
            await asyncio.sleep(0)
            await api.objects.patch(*_merge(api, "m", {"data": {"theirs": "1"}}))
            with pytest.raises(OperationRefused) as refused:
                await task
            assert refused.value.number == 1
            assert isinstance(refused.value.cause, Conflict)
            assert api.names("configmaps") == {"m"}

    asyncio.run(story())


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["patch", "delete", "create"])), max_size=12))
def test_revisions_stay_in_sequence_whatever_others_do(theirs: list[tuple[int, str]]) -> None:
    async def story() -> None:
        async with local_api(log_in_memory()) as api:
            for number in range(3):
                await api.create("configmaps", config_map(f"m{number}"))
            sliced(api)
            events = api.objects.watch(Selection(api.kind("configmaps")), api.store.revision)
            mine = [patch(api, "configmaps", f"m{n % 3}", {"data": {f"k{n}": "1"}}) for n in range(12)]
            task = asyncio.create_task(api.objects.transact(mine))
            for number, verb in theirs:
                await asyncio.sleep(0)
                try:
                    await _act(api, f"m{number}", verb)
                except ApiError:
                    continue
            try:
                await task
            except OperationRefused:
                entries = api.store.collection("configmaps").entries.values()
                assert not any("k0" in (one.get("data") or {}) for one in map(decoded, entries))
            revisions = []
            while events.is_behind:
                for event in await events.next():
                    revisions.append(event.revision)
                    assert decoded(event.entry)["metadata"]["resourceVersion"] == str(event.revision)
            assert revisions == sorted(set(revisions))

    asyncio.run(story())


async def _act(api: LocalApi, name: str, verb: str) -> None:
    if verb == "patch":
        await api.objects.patch(*_merge(api, name, {"data": {"theirs": name}}))
    elif verb == "delete":
        await api.objects.delete(api.kind("configmaps"), ("default", name))
    else:
        await api.create("configmaps", config_map(name))
