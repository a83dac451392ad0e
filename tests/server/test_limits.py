"""How much one server takes on: beyond it requests are refused with a word, and nothing is buffered without bound.

Also what watches and lists promise about revisions, because that is what a client falls back on when it is let go.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairway.server.limits import Limits
from fairway.store.store import History
from fuzz.world import Answer, Exchange, World

MAPS = "/api/v1/namespaces/default/configmaps"
Worlds = Callable[..., World]


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Worlds]:
    """Makes a world with limits of its own."""
    opened: list[World] = []

    def opening(history: History | None = None, **limits: Any) -> World:
        world = World(tmp_path, limits=Limits(**limits), history=history)
        opened.append(world)
        return world.__enter__()

    yield opening
    for world in opened:
        world.__exit__(None, None, None)


async def put(world: World, name: str, **data: str) -> str:
    """A new object's revision."""
    answer = await world.answer("POST", MAPS, {"metadata": {"name": name}, "data": data})
    assert answer.code == 201
    return str(answer.json["metadata"]["resourceVersion"])


async def change(world: World, name: str, value: str) -> str:
    patch = {"data": {"v": value}}
    answer = await world.answer("PATCH", f"{MAPS}/{name}", patch, content_type="application/merge-patch+json")
    assert answer.code == 200
    return str(answer.json["metadata"]["resourceVersion"])


def reason(answer: Answer) -> tuple[int, str]:
    return answer.code, answer.json["reason"]


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


def told(exchange: Exchange) -> list[tuple[str, str]]:
    """Of a watch: the type of each event and the name of its object."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in exchange.events()]


@asynccontextmanager
async def watching(world: World, query: str = "") -> AsyncIterator[Exchange]:
    exchange = world.begin("GET", f"{MAPS}?watch=1{query}")
    await exchange.until_begun()
    try:
        yield exchange
    finally:
        exchange.read_again()
        exchange.hang_up()
        await exchange.until_ended()


def test_a_body_may_be_as_large_as_the_limit_and_not_larger(worlds: Worlds) -> None:
    world = worlds(body_bytes=200)
    body = b'{"metadata":{"name":"a"},"data":{"v":"%s"}}'
    fits = body % (b"x" * (200 - len(body) + 2))

    assert len(fits) == 200
    assert world.ask("POST", MAPS, pieces=[fits[:50], fits[50:]]).code == 201
    assert reason(world.ask("POST", MAPS, fits + b" ")) == (413, "RequestEntityTooLarge")
    assert reason(world.ask("POST", MAPS, pieces=[fits, b" "])) == (413, "RequestEntityTooLarge")
    assert reason(world.ask("POST", MAPS, headers=[(b"content-length", b"201")])) == (413, "RequestEntityTooLarge")


def test_a_body_that_does_not_come_is_not_waited_for(worlds: Worlds) -> None:
    world = worlds(body_seconds=0.05)

    async def story() -> None:
        slow = world.begin("POST", MAPS, pieces=[b'{"metadata":'])
        slow.unfinished = True
        await slow.until_ended()

        assert slow.code == 400
        assert b"did not arrive" in slow.sent
        assert world.api.metrics.in_flight == 0

    world.run(story())
    world.check_calm()


def test_a_client_that_hangs_up_in_its_body_writes_nothing(worlds: Worlds) -> None:
    world = worlds()

    async def story() -> None:
        revision = world.store.revision
        for pieces in ([b'{"metadata":{"name":"half"}}'], [b'{"metadata":', b'{"name":"half"}}'], [b""]):
            half = world.begin("POST", MAPS, pieces=pieces)
            half.unfinished = True
            half.hang_up()
            await half.until_ended()
        assert world.store.revision == revision
        assert world.api.metrics.in_flight == 0

    world.run(story())
    world.check_calm()


def test_too_many_requests_at_once_are_told_to_come_back(worlds: Worlds) -> None:
    world = worlds(requests=2)

    async def story() -> None:
        slow = [world.begin("POST", MAPS, pieces=[b"{"]) for _ in range(2)]
        for one in slow:
            one.unfinished = True
        await asyncio.sleep(0)
        async with watching(world):  # which does not count
            refused = await world.answer("GET", MAPS)
            assert reason(refused) == (429, "TooManyRequests")
            assert refused.header(b"retry-after") == b"1"
            assert refused.json["details"]["retryAfterSeconds"] == 1
            assert (await world.answer("GET", "/readyz")).code == 200
        slow[0].hang_up()
        await slow[0].until_ended()

        assert (await world.answer("GET", MAPS)).code == 200
        slow[1].hang_up()
        await slow[1].until_ended()

    world.run(story())


def test_large_bodies_count_for_more_than_small_ones(worlds: Worlds) -> None:
    world = worlds(requests=100, body_bytes=1 << 20, requests_bytes=2 << 20)

    async def story() -> None:
        slow = [world.begin("POST", MAPS, pieces=[b"{"]) for _ in range(2)]  # of unknown length, so of a megabyte each
        for one in slow:
            one.unfinished = True
        await asyncio.sleep(0)
        refused = await world.answer(
            "POST", MAPS, pieces=[b'{"metadata":{"name":"a"}}'], headers=[(b"content-length", b"25")]
        )
        assert reason(refused) == (429, "TooManyRequests")
        assert "bodies of 2 MiB" in refused.json["message"]
        assert (await world.answer("GET", MAPS)).code == 200
        for one in slow:
            one.hang_up()
            await one.until_ended()

        assert (await world.answer("POST", MAPS, pieces=[b'{"metadata":{"name":"a"}}'])).code == 201

    world.run(story())


def test_too_many_watches_are_refused_until_one_ends(worlds: Worlds) -> None:
    world = worlds(watches=2)

    async def story() -> None:
        async with watching(world):
            async with watching(world):
                assert reason(await world.answer("GET", f"{MAPS}?watch=1")) == (429, "TooManyRequests")
                assert (await world.answer("GET", MAPS)).code == 200
                assert world.api.metrics.watches == 2
            async with watching(world) as another:
                assert another.code == 200
        assert world.api.metrics.watches == 0

    world.run(story())


def test_a_list_that_is_too_long_comes_in_pages_only(worlds: Worlds) -> None:
    world = worlds(list_objects=3)
    for number in range(4):
        world.run(put(world, f"a{number}"))

    refused = world.ask("GET", MAPS)
    assert reason(refused) == (413, "RequestEntityTooLarge")
    assert "limit" in refused.json["message"]
    page = world.ask("GET", f"{MAPS}?limit=3")
    assert names(page) == ["a0", "a1", "a2"]
    assert names(world.ask("GET", f"{MAPS}?limit=3&continue={page.json['metadata']['continue']}")) == ["a3"]


# Slow watchers


def test_a_watcher_that_takes_nothing_is_cut_off_and_others_do_not_notice(worlds: Worlds) -> None:
    world = worlds(send_seconds=0.1)

    async def story() -> None:
        async with watching(world) as slow, watching(world) as other:
            await put(world, "a")
            await slow.until_said(b'"ADDED"')
            slow.stop_reading()
            for number in range(300):
                await change(world, "a", f"{number:03}")
            await other.until_said(b'"v":"299"')
            await slow.until_ended()

            assert slow.cut_off
            assert not slow.complete
            assert told(slow) == [("ADDED", "a")]
            assert told(other) == [("ADDED", "a")] + [("MODIFIED", "a")] * 300
            assert not other.cut_off
            assert world.api.metrics.watches == 1

    world.run(story())
    world.check_calm()


def test_a_watcher_that_was_away_for_too_long_is_told_to_list_again(worlds: Worlds) -> None:
    world = worlds(history=History(changes=20))

    async def story() -> None:
        async with watching(world) as slow:
            await put(world, "a")
            await slow.until_said(b'"ADDED"')
            slow.stop_reading()
            for number in range(100):
                await change(world, "a", str(number))
            slow.read_again()
            await slow.until_ended()

            last = slow.events()[-1]
            assert last["type"] == "ERROR"
            assert (last["object"]["code"], last["object"]["reason"]) == (410, "Expired")
            assert slow.complete

    world.run(story())
    world.check_calm()


def test_what_waits_for_a_slow_watcher_is_bounded(worlds: Worlds) -> None:
    """A thousand changes of a large object used to be joined into one piece of hundreds of megabytes."""
    world = worlds()

    async def story() -> None:
        await put(world, "large", text="x" * 100_000)
        async with watching(world) as slow:
            await slow.until_said(b'"ADDED"')
            slow.stop_reading()
            for number in range(60):
                await change(world, "large", str(number))
            slow.read_again()
            await slow.until_said(b'"v":"59"')

            assert sum(slow.sizes) > 6_000_000
            assert max(slow.sizes) < 500_000

    world.run(story())


# How watches begin, go on and end


def test_a_watch_ends_when_its_time_is_over(worlds: Worlds) -> None:
    world = worlds(watch_seconds=0.02)

    async def story() -> None:
        for query, want in {"": [], "&timeoutSeconds=0": [], "&allowWatchBookmarks=true": ["BOOKMARK"]}.items():
            exchange = world.begin("GET", f"{MAPS}?watch=1{query}")
            await exchange.until_ended()
            assert exchange.complete
            assert [event["type"] for event in exchange.events()] == want

        asked = world.begin("GET", f"{MAPS}?watch=1&timeoutSeconds=1")
        began = asyncio.get_running_loop().time()
        await asked.until_ended()
        assert 0.9 < asyncio.get_running_loop().time() - began < 5
        assert asked.complete

    world.run(story())
    assert reason(world.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=-1")) == (400, "BadRequest")


def test_bookmarks_tell_how_far_a_quiet_watch_has_come(worlds: Worlds) -> None:
    world = worlds(bookmark_seconds=0.02)

    async def story() -> None:
        async with watching(world, "&allowWatchBookmarks=true") as marked, watching(world) as unmarked:
            await world.answer("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
            revision = str(world.store.revision)
            await marked.until_said(f'"resourceVersion":"{revision}"'.encode())
            await put(world, "a")
            await unmarked.until_said(b'"ADDED"')

            marks = [event["object"] for event in marked.events() if event["type"] == "BOOKMARK"]
            assert revision in [mark["metadata"]["resourceVersion"] for mark in marks]
            assert {mark["kind"] for mark in marks} == {"ConfigMap"}
            assert [event["type"] for event in unmarked.events()] == ["ADDED"]

    world.run(story())


def test_a_watch_can_begin_with_what_is_there(worlds: Worlds) -> None:
    world = worlds()
    query = f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

    async def story() -> None:
        await put(world, "a")
        await put(world, "b")
        revision = str(world.store.revision)
        async with watching(
            world, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        ) as exchange:
            await exchange.until_said(b"initial-events-end")
            await put(world, "c")
            await exchange.until_said(b'"name":"c"')

            assert told(exchange) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", ""), ("ADDED", "c")]
            mark = exchange.events()[2]["object"]["metadata"]
            assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert mark["resourceVersion"] == revision

    world.run(story())
    assert [event["type"] for event in lines(world.ask("GET", query))] == ["ADDED"] * 3
    assert reason(world.ask("GET", f"{MAPS}?watch=1&sendInitialEvents=true")) == (400, "BadRequest")
    assert reason(world.ask("GET", f"{MAPS}?watch=1&resourceVersionMatch=NotOlderThan")) == (400, "BadRequest")


def lines(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.body.splitlines()]


def test_where_a_watch_begins(worlds: Worlds) -> None:
    world = worlds()
    first = world.run(put(world, "a"))
    second = world.run(change(world, "a", "1"))
    world.run(put(world, "b"))

    def seen(query: str) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"]["name"]) for event in lines(world.ask("GET", query))]

    assert seen(f"{MAPS}?watch=1") == [("ADDED", "a"), ("ADDED", "b")]
    assert seen(f"{MAPS}?watch=1&resourceVersion=0") == [("ADDED", "a"), ("ADDED", "b")]
    assert seen(f"{MAPS}/a?watch=1") == [("ADDED", "a")]

    async def after(revision: str, want: list[tuple[str, str]]) -> None:
        async with watching(world, f"&resourceVersion={revision}") as exchange:
            await exchange.until_said(b'"name":"b"')
            assert told(exchange) == want

    world.run(after(first, [("MODIFIED", "a"), ("ADDED", "b")]))
    world.run(after(second, [("ADDED", "b")]))


# Revisions of lists


def test_what_a_list_says_about_revisions(worlds: Worlds) -> None:
    world = worlds()
    first = world.run(put(world, "a"))
    last = world.run(put(world, "b"))
    table = {
        "": (["a", "b"], last),
        "?resourceVersion=0": (["a", "b"], last),
        f"?resourceVersion={first}": (["a", "b"], last),
        f"?resourceVersion={first}&resourceVersionMatch=NotOlderThan": (["a", "b"], last),
        f"?resourceVersion={first}&resourceVersionMatch=Exact": (["a"], first),
        f"?resourceVersion={last}&resourceVersionMatch=Exact": (["a", "b"], last),
        f"?resourceVersion={first}&limit=5": (["a"], first),
    }
    for query, want in table.items():
        answer = world.ask("GET", MAPS + query)
        assert (names(answer), answer.json["metadata"]["resourceVersion"]) == want, query

    ahead = int(last) + 1
    for path in (f"{MAPS}?", f"{MAPS}?watch=1&", f"{MAPS}/a?"):
        assert reason(world.ask("GET", f"{path}resourceVersion={ahead}")) == (504, "Timeout")


def test_pages_are_of_one_moment(worlds: Worlds) -> None:
    world = worlds()
    for name in "abcde":
        world.run(put(world, name))
    first = world.ask("GET", f"{MAPS}?limit=2")
    world.run(put(world, "aa"))
    assert world.ask("DELETE", f"{MAPS}/d").code == 200
    second = world.ask("GET", f"{MAPS}?limit=2&continue={first.json['metadata']['continue']}")
    third = world.ask("GET", f"{MAPS}?limit=2&continue={second.json['metadata']['continue']}")

    assert [names(one) for one in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert [one.json["metadata"].get("remainingItemCount") for one in (first, second, third)] == [3, 1, None]
    assert len({one.json["metadata"]["resourceVersion"] for one in (first, second, third)}) == 1
    assert "continue" not in third.json["metadata"]
    assert names(world.ask("GET", MAPS)) == ["a", "aa", "b", "c", "e"]


def test_what_is_forgotten_is_gone(worlds: Worlds) -> None:
    world = worlds(history=History(changes=10))
    world.run(put(world, "a"))
    old = world.run(put(world, "b"))
    page = world.ask("GET", f"{MAPS}?limit=1").json["metadata"]["continue"]
    for number in range(40):
        world.run(change(world, "a", str(number)))

    for query in (
        f"?watch=1&resourceVersion={old}",
        f"?resourceVersion={old}&resourceVersionMatch=Exact",
        f"?limit=1&continue={page}",
    ):
        assert reason(world.ask("GET", MAPS + query)) == (410, "Expired"), query
    assert names(world.ask("GET", f"{MAPS}?resourceVersion={old}")) == ["a", "b"]
    assert names(world.ask("GET", MAPS)) == ["a", "b"]


def test_a_continue_token_from_the_future_is_refused(worlds: Worlds) -> None:
    world = worlds()
    for name in "ab":
        world.run(put(world, name))
    token = base64.urlsafe_b64encode(b'{"revision":999999,"namespace":"default","name":"a"}').decode().rstrip("=")

    assert reason(world.ask("GET", f"{MAPS}?limit=1&continue={token}")) == (400, "BadRequest")


# What is followed for long


def test_a_followed_log_ends_with_its_pod_even_if_the_pod_changed_long_ago(worlds: Worlds) -> None:
    """The end of a pod used to be missed if its last change was already forgotten."""
    world = worlds(history=History(changes=10))

    async def story() -> None:
        await run_pod(world)
        for number in range(40):
            await put(world, f"a{number}")
        log = world.begin("GET", f"{PODS}/p/log?follow=true")
        await log.until_begun()
        ended = {"status": {"containerStatuses": [container({"terminated": {"exitCode": 0}})]}}
        merge = "application/merge-patch+json"
        assert (await world.answer("PATCH", f"{PODS}/p/status", ended, content_type=merge)).code == 200
        await log.until_ended()

        assert (log.code, log.complete) == (200, True)

    world.run(story())
    world.check_calm()


PODS = "/api/v1/namespaces/default/pods"


def container(state: dict[str, Any]) -> dict[str, Any]:
    return {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": state}


async def run_pod(world: World) -> None:
    spec = {"nodeName": "here", "containers": [{"name": "c", "image": "i"}]}
    made = await world.answer("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    status = {"phase": "Running", "containerStatuses": [container({"running": {}})]}
    assert (await world.answer("PUT", f"{PODS}/p/status", {**made.json, "status": status})).code == 200


# What cannot be counted without bound


def test_made_up_names_do_not_fill_the_metrics(worlds: Worlds) -> None:
    world = worlds()
    for number in range(20):
        world.ask("POST", f"/apis/authorization.k8s.io/v1/made-up-{number}", {}, token="")
        world.ask("GET", f"/apis/visibility.kueue.x-k8s.io/v1beta2/made-up-{number}/a/b", token="")
        world.ask("GET", f"/apis/made-up-{number}/v1/made-up", token="")

    assert "made-up" not in world.ask("GET", "/metrics").body.decode()


def test_only_what_can_be_deleted_together_is(worlds: Worlds) -> None:
    world = worlds()
    world.run(put(world, "a"))

    assert reason(world.ask("DELETE", "/api/v1/namespaces")) == (405, "MethodNotAllowed")
    assert reason(world.ask("DELETE", "/api/v1/configmaps")) == (405, "MethodNotAllowed")
    assert world.ask("DELETE", MAPS).code == 200
    assert names(world.ask("GET", MAPS)) == []


def test_an_object_cannot_grow_without_end(worlds: Worlds) -> None:
    world = worlds()
    templates = "/api/v1/namespaces/default/podtemplates"
    spec = {"containers": [{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]}
    assert world.ask("POST", templates, {"metadata": {"name": "a"}, "template": {"spec": spec}}).code == 201
    more = [{"op": "add", "path": "/template/spec/containers/0/livenessProbe/exec/command", "value": ["x" * 1_000_000]}]
    codes = []
    for _ in range(12):
        codes.append(world.ask("PATCH", f"{templates}/a", more, content_type="application/json-patch+json").code)
        more[0]["path"] = "/template/spec/containers/0/livenessProbe/exec/command/-"
        more[0]["value"] = "x" * 1_000_000

    assert codes == [200] * 3 + [413] * 9
    assert world.ask("DELETE", f"{templates}/a").code == 200


HEAVY: dict[str, tuple[str, str, Any]] = {
    "finalizers": ("configmaps", "/metadata/finalizers/0", [f"a.b/f{number}" for number in range(15_000)]),
    "tolerations": (
        "pods",
        "/spec/tolerations/0",
        [{"key": f"k{number}", "operator": "Exists"} for number in range(4000)],
    ),
}


@pytest.mark.parametrize(("plural", "path", "value"), HEAVY.values(), ids=HEAVY)
def test_long_lists_take_time_in_proportion(worlds: Worlds, plural: str, path: str, value: Any) -> None:
    """To delete an object of a hundred thousand finalizers used to take minutes."""
    world = worlds()
    objects = f"/api/v1/namespaces/default/{plural}"
    manifest: dict[str, Any] = {"metadata": {"name": "long"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    _, holder, name, _ = path.split("/")
    manifest[holder][name] = value
    began = time.process_time()
    assert world.ask("POST", objects, manifest).code == 201
    assert world.ask("DELETE", f"{objects}/long?propagationPolicy=Foreground").code == 200
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    world.ask("PATCH", f"{objects}/long", patch, content_type="application/json-patch+json")

    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("count", "size", "turns"),
    [pytest.param(100, 2_000, 0, id="many small events"), pytest.param(3, 300_000, 3, id="large ones")],
)
def test_a_watch_that_is_behind_takes_a_turn_for_large_objects_only(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, count: int, size: int, turns: int
) -> None:
    world = worlds()
    taken = 0

    async def turn() -> None:
        nonlocal taken
        taken += 1
        await asyncio.sleep(0)

    async def story() -> None:
        since = world.store.revision
        for number in range(count):
            await put(world, f"m{number}", v="x" * size)
        slices = world.api.objects.slices
        monkeypatch.setattr(slices, "seconds", 1e6)
        monkeypatch.setattr(slices, "turn", turn)
        async with watching(world, f"&resourceVersion={since}") as behind:
            while behind.sent.count(b'"type":"ADDED"') < count:  # noqa: ASYNC110 - nothing says so
                await asyncio.sleep(0)
        assert taken == turns

    world.run(story())
