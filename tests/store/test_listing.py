"""Lists: order, pages that fit together whatever is written meanwhile, and lists as of an earlier revision."""

import asyncio
import base64
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import BadRequest, Expired
from fairway.store.selectors import Selection
from fairway.store.store import History
from fairway.store.verbs.listing import ListPage, Paging, TooNewError
from fairway.testing.stores import LocalApi, OpenLog, local_api, log_in_memory, log_on_a_file

from .manifests import config_map


def listed(api: LocalApi, namespace: str = "", labels: str = "", fields: str = "", **paging: Any) -> ListPage:
    selection = Selection(api.kind("configmaps"), namespace, labels, fields)
    return api.objects.page(selection, Paging(**paging))


def keys(page: ListPage) -> list[str]:
    return ["/".join(entry.key) for entry in page.entries]


async def fill(api: LocalApi, count: int = 10) -> None:
    for number in reversed(range(count)):
        labels = {"parity": "odd" if number % 2 else "even"}
        await api.create("configmaps", config_map(f"c{number:02}", labels=labels))


def test_a_list_is_in_the_order_of_namespace_and_name(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            for namespace, name in (("kube-system", "a"), ("default", "b"), ("default", "a"), ("kube-public", "z")):
                await api.create("configmaps", config_map(name), namespace)
            assert keys(listed(api)) == ["default/a", "default/b", "kube-public/z", "kube-system/a"]
            assert keys(listed(api, "default")) == ["default/a", "default/b"]
            assert keys(listed(api, "kube")) == []
            assert listed(api).revision == api.store.revision

    async def again() -> None:
        async with local_api(open_log) as api:
            assert keys(listed(api)) == ["default/a", "default/b", "kube-public/z", "kube-system/a"]
            await api.create("configmaps", config_map("aa"))
            assert keys(listed(api, "default")) == ["default/a", "default/aa", "default/b"]

    asyncio.run(story())
    asyncio.run(again())


@pytest.mark.parametrize("limit", [1, 3, 5, 9, 10, 11])
def test_pages_together_are_the_list_of_the_first_pages_moment(open_log: OpenLog, limit: int) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            await fill(api)
            whole = listed(api, "default")
            page = listed(api, "default", limit=limit)
            pages = [page]
            while page.token:
                name = page.entries[-1].name
                await api.delete("configmaps", name)
                await api.create("configmaps", config_map(f"{name}-new"))
                await api.patch("configmaps", "c09", {"data": {"after": name}})
                page = listed(api, "default", limit=limit, token=page.token)
                pages.append(page)
            together = [entry for one in pages for entry in one.entries]
            assert [(one.key, one.data) for one in together] == [(one.key, one.data) for one in whole.entries]
            assert {one.revision for one in pages} == {whole.revision}
            left = [10 - limit * (number + 1) for number in range(len(pages) - 1)]
            assert [one.remaining for one in pages] == [*left, None]

    asyncio.run(story())


def test_pages_of_a_selection_do_not_say_how_much_is_left() -> None:
    async def story() -> None:
        async with local_api() as api:
            await fill(api)
            first = listed(api, "default", "parity=even", limit=3)
            assert keys(first) == ["default/c00", "default/c02", "default/c04"]
            assert first.remaining is None
            second = listed(api, "default", "parity=even", limit=3, token=first.token)
            assert (keys(second), second.token) == (["default/c06", "default/c08"], "")
            exact = listed(api, "default", "parity=even", limit=5)
            assert (len(exact.entries), exact.token) == (5, "")

    asyncio.run(story())


def test_a_list_by_name_is_that_object_alone() -> None:
    async def story() -> None:
        async with local_api() as api:
            await fill(api)
            await api.create("configmaps", config_map("c03"), "kube-system")
            assert keys(listed(api, "default", fields="metadata.name=c03")) == ["default/c03"]
            assert keys(listed(api, fields="metadata.name=c03")) == ["default/c03", "kube-system/c03"]
            assert keys(listed(api, "default", "parity=even", "metadata.name=c03")) == []
            assert keys(listed(api, "default", fields="metadata.name=missing")) == []
            assert keys(listed(api, "default", fields="metadata.name=c03,metadata.name=c04")) == []

    asyncio.run(story())


def test_a_list_may_be_of_an_earlier_revision_exactly_or_of_a_newer_one(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            await fill(api, 3)
            then = api.store.revision
            await api.delete("configmaps", "c01")
            await api.create("configmaps", config_map("late"))
            assert keys(listed(api, revision=then, exact=True)) == ["default/c00", "default/c01", "default/c02"]
            assert listed(api, revision=then, exact=True).revision == then
            assert keys(listed(api, "default", fields="metadata.name=c01", revision=then, exact=True)) == [
                "default/c01"
            ]
            newer = listed(api, revision=then)
            assert keys(newer) == ["default/c00", "default/c02", "default/late"]
            assert newer.revision == api.store.revision
            with pytest.raises(TooNewError, match="Too large resource version: 999"):
                listed(api, revision=999)

    asyncio.run(story())


def test_a_page_of_a_moment_that_is_forgotten_is_refused(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log, history=History(changes=5)) as api:
            await fill(api)
            then, page = api.store.revision, listed(api, limit=3)
            for number in range(30):
                await api.patch("configmaps", "c05", {"data": {"n": str(number)}})
            with pytest.raises(Expired, match="continue parameter is too old"):
                listed(api, limit=3, token=page.token)
            with pytest.raises(Expired):
                listed(api, revision=then, exact=True)
            assert len(listed(api, revision=then).entries) == 10

    asyncio.run(story())


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("nonsense", id="no token"),
        pytest.param("ünicode", id="other letters"),
        pytest.param(base64.urlsafe_b64encode(b'{"revision":"1"}').decode(), id="a token of another make"),
        pytest.param(base64.urlsafe_b64encode(b"[1,2,3]").decode(), id="a list"),
        pytest.param(
            base64.urlsafe_b64encode(b'{"revision":99999,"namespace":"a","name":"b"}').decode(), id="from the future"
        ),
        pytest.param("A" * 100_000, id="very long"),
    ],
)
def test_a_token_that_no_page_gave_is_refused(token: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            with pytest.raises(BadRequest, match="continue key is not valid"):
                listed(api, token=token)

    asyncio.run(story())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abcdef"), st.sampled_from("xy"))),
    st.integers(1, 4),
)
def test_every_list_of_the_past_is_what_it_was_page_by_page(steps: list[tuple[str, str, str]], limit: int) -> None:
    async def story(open_log: OpenLog) -> None:
        async with local_api(open_log) as api:
            states = {api.store.revision: dict[str, str]()}
            now: dict[str, str] = {}
            for step, name, label in steps:
                if step == "delete" and name in now:
                    await api.delete("configmaps", name)
                    del now[name]
                elif step == "put" and name in now:
                    await api.patch("configmaps", name, {"metadata": {"labels": {"l": label}}})
                    now[name] = label
                elif step == "put":
                    await api.create("configmaps", config_map(name, labels={"l": label}))
                    now[name] = label
                states[api.store.revision] = dict(now)
            for revision, state in states.items():
                for labels, meant in (("", "xy"), ("l=x", "x")):
                    found: list[str] = []
                    page = listed(api, labels=labels, revision=revision, exact=True, limit=limit)
                    found += [entry.name for entry in page.entries]
                    while page.token:
                        assert len(page.entries) == limit
                        page = listed(api, labels=labels, token=page.token, limit=limit)
                        found += [entry.name for entry in page.entries]
                    assert found == sorted(name for name, label in state.items() if label in meant)

    with TemporaryDirectory() as directory:
        asyncio.run(story(log_on_a_file(Path(directory) / "fairway.db")))
    asyncio.run(story(log_in_memory()))
