"""Who waits in a queue, asked of whoever decides, or worked out from what is stored."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from fairway.errors import BadRequest, NotFound
from fairway.server.http import Exchange
from fairway.server.requests import Request
from fairway.server.routes import ResourcePath
from fairway.server.virtual import StoreView
from fairway.server.visibility import GROUP, PendingSource, pending_workloads
from fairway.testing.stores import LocalApi, local_api

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": True}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}


class Record(NamedTuple):
    """A workload as an engine knows it."""

    name: str
    local_queue_name: str = "red"
    priority: int = 0
    namespace: str = "default"


QUEUE = [Record("a", "red", 9), Record("b", "blue", 5), Record("c", "blue"), Record("d", "red"), Record("e", "blue")]


def told(queue: list[Record] | None) -> PendingSource:
    """A decider that knows this order."""

    async def pending(_: str) -> list[Record] | None:
        return queue

    return pending


async def ask(api: LocalApi, queue: str, query: str = "", source: PendingSource | None = None) -> list[dict[str, Any]]:
    """`queue` is `cq` or a LocalQueue."""
    cluster = queue in {"cq", "missing"}
    place = ResourcePath(
        GROUP,
        "v1beta2",
        "" if cluster else "default",
        "clusterqueues" if cluster else "localqueues",
        queue,
        "pendingworkloads",
    )
    request = Request(Exchange("GET", b"/", query.encode(), [], ""))
    summary = await pending_workloads(StoreView(api.objects), request, place, source)
    items: list[dict[str, Any]] = summary["items"]
    return items


def brief(items: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(one["metadata"]["name"], one["positionInClusterQueue"], one["positionInLocalQueue"]) for one in items]


def with_queues(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    async def run() -> None:
        async with local_api() as api:
            await api.create("clusterqueues", {"metadata": {"name": "cq"}, "spec": {}})
            for name in ("red", "blue"):
                await api.create("localqueues", {"metadata": {"name": name}, "spec": {"clusterQueue": "cq"}})
            for one in QUEUE:
                await api.create(
                    "workloads",
                    {
                        "metadata": {"name": one.name, "ownerReferences": [OWNER]},
                        "spec": {
                            "queueName": one.local_queue_name,
                            "priority": one.priority,
                            "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}],
                        },
                    },
                )
            await story(api)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("queue", "query", "want"),
    [
        pytest.param("cq", "", [("a", 0, 0), ("b", 1, 0), ("c", 2, 1), ("d", 3, 1), ("e", 4, 2)], id="everybody"),
        pytest.param("cq", "offset=2&limit=2", [("c", 2, 1), ("d", 3, 1)], id="a part of the queue"),
        pytest.param("cq", "limit=0", [], id="nobody"),
        pytest.param("cq", "offset=9", [], id="beyond the end"),
        pytest.param("blue", "", [("b", 1, 0), ("c", 2, 1), ("e", 4, 2)], id="a LocalQueue with places in both queues"),
        pytest.param("blue", "offset=1&limit=1", [("c", 2, 1)], id="a part of a LocalQueue"),
    ],
)
def test_those_who_are_asked_for(queue: str, query: str, want: list[tuple[str, int, int]]) -> None:
    async def story(api: LocalApi) -> None:
        assert brief(await ask(api, queue, query, told(QUEUE))) == want
        names = {name for name, _, _ in brief(await ask(api, queue, source=told(None)))}
        assert names == {one.name for one in QUEUE if queue in {"cq", one.local_queue_name}}

    with_queues(story)


def test_what_is_told_of_one() -> None:
    async def story(api: LocalApi) -> None:
        (first,) = await ask(api, "cq", "limit=1", told(QUEUE))
        stored = api.get("workloads", "a")
        assert stored is not None
        assert first == {
            "metadata": {
                "name": "a",
                "namespace": "default",
                "creationTimestamp": stored["metadata"]["creationTimestamp"],
                "ownerReferences": [{name: OWNER[name] for name in ("apiVersion", "kind", "name", "uid")}],
            },
            "priority": 9,
            "localQueueName": "red",
            "positionInClusterQueue": 0,
            "positionInLocalQueue": 0,
        }

    with_queues(story)


def test_the_order_is_that_of_whoever_decides() -> None:
    async def story(api: LocalApi) -> None:
        other_way_round = list(reversed(QUEUE))
        assert [name for name, _, _ in brief(await ask(api, "cq", source=told(other_way_round)))] == list("edcba")

    with_queues(story)


def test_one_that_was_deleted_a_moment_ago_is_not_shown() -> None:
    async def story(api: LocalApi) -> None:
        await api.delete("workloads", "b")
        assert brief(await ask(api, "cq", "limit=3", told(QUEUE))) == [("a", 0, 0), ("c", 2, 1)]

    with_queues(story)


def test_refusals() -> None:
    async def story(api: LocalApi) -> None:
        with pytest.raises(NotFound):
            await ask(api, "missing", source=told(QUEUE))
        with pytest.raises(BadRequest):
            await ask(api, "cq", "offset=-1", told(QUEUE))

    with_queues(story)


def test_only_those_who_are_shown_are_looked_up() -> None:
    """Ten thousand wait; a page of them must not cost ten thousand reads."""

    async def story(api: LocalApi) -> None:
        looked_up: list[tuple[str, str]] = []
        get = api.store.get

        def counted(resource: str, key: tuple[str, str]) -> Any:
            looked_up.append(key)
            return get(resource, key)

        api.store.get = counted  # type: ignore[method-assign]
        many = [*QUEUE, *(Record(f"w{number}") for number in range(10_000))]
        assert len(await ask(api, "cq", "limit=3", told(many))) == 3
        assert len(looked_up) == 4

    with_queues(story)
