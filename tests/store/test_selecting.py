"""Selectors: which objects a label or field selector means, and how a selection is watched."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.registry import default_registry
from fairway.errors import BadRequest
from fairway.store.entries import Change
from fairway.store.selectors import FieldTerm, Selection, field_terms, label_test
from fairway.store.verbs.reading import decoded
from fairway.testing.stores import LocalApi, local_api

from .manifests import config_map, job, pod

NOTHING: Mapping[str, str] = {}


@pytest.mark.parametrize(
    ("selector", "labels", "want"),
    [
        ("app=web", {"app": "web"}, True),
        ("app=web", {"app": "db"}, False),
        ("app=web", NOTHING, False),
        ("app==web", {"app": "web"}, True),
        ("app = web", {"app": "web"}, True),
        ("app!=web", {"app": "web"}, False),
        ("app!=web", {"app": "db"}, True),
        ("app!=web", NOTHING, True),
        ("app=", {"app": ""}, True),
        ("app=", NOTHING, False),
        ("app", {"app": ""}, True),
        ("app", NOTHING, False),
        ("!app", NOTHING, True),
        ("! app", {"app": "x"}, False),
        ("app in (web,db)", {"app": "db"}, True),
        ("app in ( web , db )", {"app": "db"}, True),
        ("app in (web)", NOTHING, False),
        ("app in (web,)", {"app": ""}, True),
        ("app notin (web,db)", {"app": "x"}, True),
        ("app notin (web,db)", {"app": "web"}, False),
        ("app notin (web)", NOTHING, True),
        ("app=web,tier in (a,b),!gone", {"app": "web", "tier": "b"}, True),
        ("app=web,tier in (a,b),!gone", {"app": "web", "tier": "b", "gone": ""}, False),
        ("kueue.x-k8s.io/queue-name=team-a", {"kueue.x-k8s.io/queue-name": "team-a"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("notin", {"notin": "1"}, True),
        ("a.b_c-d/e=1.2_3-4", {"a.b_c-d/e": "1.2_3-4"}, True),
    ],
)
def test_labels_are_matched(selector: str, labels: Mapping[str, str], want: bool) -> None:  # noqa: FBT001 - a column
    test = label_test(selector)
    assert test is not None
    assert test(labels) is want


@pytest.mark.parametrize("selector", ["", "  "])
def test_no_selector_means_everything(selector: str) -> None:
    assert label_test(selector) is None


@pytest.mark.parametrize(
    "selector",
    [
        ",", "a,", ",a", "a,,b", "a=b=c", "a b", "=", "=a", "!", "a in", "a in b", "a in (b", "a in b)", "a in ((b))",
        "a<1", "a>1", "-a=b", "a=b-", "a=-b", "a in (b,-)", "a~b", "ä=b", "a=ä", "a=b;c", "x" * 20_000, "a in (b) c",
    ],
)  # fmt: skip
def test_what_is_no_label_selector_is_refused(selector: str) -> None:
    with pytest.raises(BadRequest, match="label selector"):
        label_test(selector)


@given(st.text(max_size=40))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    for parse in (label_test, field_terms):
        with suppress(BadRequest):
            parse(text)


LABELS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "x"]))
DEMANDS = st.lists(
    st.tuples(
        st.sampled_from(["=", "!=", "in", "notin", "exists", "absent"]),
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.sampled_from(["1", "2", "x"]), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@given(LABELS, DEMANDS)
def test_demands_are_met_together_or_not_at_all(
    labels: dict[str, str], demands: list[tuple[str, str, list[str]]]
) -> None:
    written, met = [], []
    for operator, key, values in demands:
        if operator in {"=", "!="}:
            written.append(f"{key}{operator}{values[0]}")
            met.append((labels.get(key) == values[0]) == (operator == "="))
        elif operator in {"in", "notin"}:
            written.append(f"{key} {operator} ({','.join(values)})")
            met.append((key in labels and labels[key] in values) == (operator == "in"))
        else:
            written.append(key if operator == "exists" else f"!{key}")
            met.append((key in labels) == (operator == "exists"))
    test = label_test(",".join(written))
    assert test is not None
    assert test(labels) == all(met)


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("", ()),
        ("metadata.name=a", (FieldTerm("metadata.name", "a", equal=True),)),
        ("metadata.name==a", (FieldTerm("metadata.name", "a", equal=True),)),
        ("status.phase!=Running", (FieldTerm("status.phase", "Running", equal=False),)),
        ("a=b,c!=d", (FieldTerm("a", "b", equal=True), FieldTerm("c", "d", equal=False))),
        ("a=b=c", (FieldTerm("a", "b=c", equal=True),)),
        (r"a=b\,c\=d\\e", (FieldTerm("a", "b,c=d\\e", equal=True),)),
        ("a=", (FieldTerm("a", "", equal=True),)),
    ],
)
def test_field_selectors_are_understood(selector: str, want: tuple[FieldTerm, ...]) -> None:
    assert field_terms(selector) == want


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param("metadata.name", "can't understand 'metadata.name'", id="no value"),
        pytest.param("=a", "can't understand '=a'", id="no field"),
        pytest.param("spec.color=red", "field label not supported: spec.color .*metadata.name", id="an unknown field"),
        pytest.param("x" * 20_000, "longer than", id="too long"),
    ],
)
def test_what_is_no_field_selector_of_a_kind_is_refused(fields: str, message: str) -> None:
    kind = default_registry().by_name("configmaps")
    assert kind is not None
    with pytest.raises(BadRequest, match=message):
        Selection(kind, fields=fields)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ("spec.nodeName=n1", {"a"}),
        ("spec.nodeName=", {"b", "c"}),
        ("spec.nodeName!=n1", {"b", "c"}),
        ("status.phase=Pending", {"a", "b", "c"}),
        ("metadata.namespace=default,metadata.name!=a", {"b"}),
        ("metadata.namespace=kube-system", {"c"}),
    ],
)
def test_pods_are_selected_by_their_fields(fields: str, want: set[str]) -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("pods", pod("a", node="n1"))
            await api.create("pods", pod("b"))
            await api.create("pods", pod("c"), "kube-system")
            page = api.objects.page(Selection(api.kind("pods"), fields=fields))
            assert {entry.name for entry in page.entries} == want

    asyncio.run(story())


# Watching a selection


def seen(events: list[Change]) -> list[tuple[str, str]]:
    return [(event.type, event.entry.name) for event in events]


async def fleet(api: LocalApi) -> None:
    """The life of an object that moves in and out of a selection."""
    await api.create("managedjobs", job("a", labels={"team": "red"}))
    await api.create("managedjobs", job("b", labels={"team": "blue"}))
    await api.patch("managedjobs", "a", {"spec": {"priority": 2}})
    await api.patch("managedjobs", "a", {"metadata": {"labels": {"team": "blue"}}})
    await api.patch("managedjobs", "a", {"spec": {"priority": 3}})
    await api.patch("managedjobs", "a", {"metadata": {"labels": {"team": "red"}}})
    await api.delete("managedjobs", "a")
    await api.delete("managedjobs", "b")


@pytest.mark.parametrize(
    ("namespace", "labels", "fields", "want"),
    [
        pytest.param(
            "", "", "",
            ["ADDED a", "ADDED b", *["MODIFIED a"] * 4, "DELETED a", "DELETED b"],
            id="everything",
        ),
        pytest.param(
            "default", "team=red", "",
            ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a", "DELETED a"],
            id="what ceases to match vanishes and what begins to appears",
        ),
        pytest.param(
            "", "team=blue", "", ["ADDED b", "ADDED a", "MODIFIED a", "DELETED a", "DELETED b"], id="the other half"
        ),
        pytest.param("", "", "metadata.name=b", ["ADDED b", "DELETED b"], id="one name"),
        pytest.param("kube-system", "", "", [], id="another namespace"),
    ],
)  # fmt: skip
def test_a_watcher_sees_what_is_meant_as_if_nothing_else_were_there(
    namespace: str, labels: str, fields: str, want: list[str]
) -> None:
    async def story() -> None:
        async with local_api() as api:
            since = api.store.revision
            await fleet(api)
            events = api.objects.watch(Selection(api.kind("managedjobs"), namespace, labels, fields), since)
            assert [" ".join(one) for one in seen(await events.next())] == want

    asyncio.run(story())


def test_what_leaves_a_selection_is_told_as_the_watcher_knew_it_at_the_revision_that_took_it_away() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map("a", labels={"team": "red"}))
            events = api.objects.watch(Selection(api.kind("configmaps"), labels="team=red"), api.store.revision)
            await api.patch("configmaps", "a", {"metadata": {"labels": {"team": "blue"}}, "data": {"color": "blue"}})
            (event,) = await events.next()
            last = decoded(event.entry)
            assert event.type == "DELETED"
            assert last["metadata"]["labels"] == {"team": "red"}
            assert last["data"] == {"color": "red"}
            assert last["metadata"]["resourceVersion"] == str(api.store.revision)

    asyncio.run(story())
