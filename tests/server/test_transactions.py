"""Transactions over HTTP: the same answers, rights and audit lines as for the requests that they stand for."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.server.access.roles import Binding, Role
from fairway.server.limits import Limits
from fuzz.world import Answer, World

GROUP = "/apis/fairway.dev/v1alpha1"
PATH = f"{GROUP}/namespaces/default/transactions"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


def transaction(*operations: Any, **more: Any) -> Manifest:
    return {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "Transaction",
        "spec": {"operations": list(operations)},
        **more,
    }


def config_map(name: str, namespace: str = "", **data: str) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def create(manifest: Manifest, **more: Any) -> Manifest:
    return {"verb": "create", "manifest": manifest, **more}


def patch(name: str, body: Any, **more: Any) -> Manifest:
    return {"verb": "patch", "apiVersion": "v1", "kind": "ConfigMap", "name": name, "patch": body, **more}


def delete(name: str, **more: Any) -> Manifest:
    return {"verb": "delete", "apiVersion": "v1", "kind": "ConfigMap", "name": name, **more}


def job(name: str = "", **spec: Any) -> Manifest:
    metadata = {"name": name} if name else {"generateName": "train-"}
    return {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ManagedJob",
        "metadata": metadata,
        "spec": {"tasks": [{"run": "python train.py", "resources": {"cpus": "1"}}], "queue": "research", **spec},
    }


def refusal(answer: Answer) -> tuple[int, str, str]:
    return answer.code, answer.json["reason"], answer.json["message"]


def names(world: World, path: str = MAPS) -> set[str]:
    return {item["metadata"]["name"] for item in world.ask("GET", path).json["items"]}


def audited(world: World) -> list[dict[str, Any]]:
    """The lines so far; nothing is recorded after that."""
    world.audit.close()
    return [json.loads(line) for line in (world.state / "audit.log").read_text().splitlines()]


def test_results_come_back_in_order(world: World) -> None:
    world.ask("POST", MAPS, config_map("there", color="red"))
    answer = world.ask(
        "POST",
        PATH,
        transaction(
            create(config_map("new")), patch("there", {"data": {"color": "blue"}}), delete("new"), create(job("train"))
        ),
    )

    assert answer.code == 201
    assert (answer.json["apiVersion"], answer.json["kind"]) == ("fairway.dev/v1alpha1", "Transaction")
    made, changed, gone, launched = answer.json["status"]["results"]
    assert made["metadata"]["name"] == "new"
    assert changed["data"] == {"color": "blue"}
    assert gone is None
    assert (launched["kind"], launched["metadata"]["namespace"]) == ("ManagedJob", "default")
    assert world.ask("GET", f"{MAPS}/there").json == changed
    assert "new" not in names(world)


def test_a_body_in_yaml_and_one_without_apiversion_are_taken(world: World) -> None:
    shared = {"labels": {"a": "b"}}
    body = transaction(
        create({**config_map("one"), "metadata": {"name": "one", **shared}}),
        create({**config_map("two"), "metadata": {"name": "two", **shared}}),
    )
    text = yaml.safe_dump(body, sort_keys=False)
    assert "&id001" in text  # an alias: both objects would be one if it were not written out
    assert world.ask("POST", PATH, text.encode(), content_type="application/yaml").code == 201
    assert names(world) >= {"one", "two"}
    assert world.ask("POST", PATH, {"spec": {"operations": [delete("one")]}}).code == 201


def test_a_dry_run_does_nothing(world: World) -> None:
    answer = world.ask(
        "POST", f"{PATH}?dryRun=All", transaction(create(config_map("a")), patch("a", {"data": {"x": "y"}}))
    )

    assert answer.code == 201
    assert answer.json["status"]["results"][1]["data"] == {"x": "y"}
    assert "a" not in names(world)


def test_operations_may_name_another_namespace(world: World) -> None:
    world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    answer = world.ask(
        "POST",
        PATH,
        transaction(
            create(config_map("a", namespace="team")),
            create(config_map("b"), namespace="team"),
            patch("a", {"data": {"x": "y"}}, namespace="team"),
            create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}),
        ),
    )

    assert answer.code == 201
    assert names(world, "/api/v1/namespaces/team/configmaps") >= {"a", "b"}
    assert "other" in names(world, "/api/v1/namespaces")


REFUSED = [
    pytest.param(create(config_map("there")), (409, "AlreadyExists", 'configmaps "there" already exists'), id="taken"),
    pytest.param(delete("nobody"), (404, "NotFound", 'configmaps "nobody" not found'), id="not there"),
    pytest.param(
        patch("there", {"data": {}}, resourceVersion="1"),
        (409, "Conflict", "the object has been modified"),
        id="changed meanwhile",
    ),
    pytest.param(
        delete("there", uid="another"), (409, "Conflict", "Precondition failed: UID"), id="another of that name"
    ),
    pytest.param(
        create(config_map("Bad Name")), (422, "Invalid", 'ConfigMap "Bad Name" is invalid'), id="against the rules"
    ),
    pytest.param(
        create({"apiVersion": "v1", "kind": "Robot"}), (404, "NotFound", "there is no kind Robot in v1"), id="no kind"
    ),
    pytest.param({"verb": "create"}, (400, "BadRequest", "missing required field `manifest`"), id="no manifest"),
    pytest.param({"verb": "watch"}, (400, "BadRequest", "Invalid value 'watch'"), id="no such verb"),
    pytest.param({}, (400, "BadRequest", "missing required field `verb`"), id="no verb"),
    pytest.param("create", (400, "BadRequest", "Expected `object`"), id="no operation at all"),
    pytest.param(
        delete("there", force=True), (400, "BadRequest", "contains unknown field `force`"), id="an unknown field"
    ),
    pytest.param(delete(""), (400, "BadRequest", "name: Required value"), id="no name"),
    pytest.param(create(config_map("a"), namespace="nowhere"), (404, "NotFound", '"nowhere" not found'), id="nowhere"),
    pytest.param(
        create(config_map("a", namespace="default"), namespace="kube-system"),
        (400, "BadRequest", "does not match the namespace"),
        id="two namespaces at once",
    ),
    pytest.param(create({"metadata": {"name": 7}, "kind": "ConfigMap", "apiVersion": "v1"}),
                 (400, "BadRequest", "must be strings"), id="a name that is none"),
    pytest.param(patch("there", {"metadata": "x"}, uid="x"), (400, "BadRequest", "metadata"), id="broken metadata"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "want"), REFUSED)
def test_one_that_is_refused_says_which_and_why_and_nothing_is_done(
    world: World, operation: Any, want: tuple[int, str, str]
) -> None:
    world.ask("POST", MAPS, config_map("there"))
    before = names(world)
    code, reason, message = refusal(
        world.ask("POST", PATH, transaction(create(config_map("new")), operation, create(config_map("later"))))
    )

    assert (code, reason) == want[:2]
    assert message.startswith("operation 2: ")
    assert want[2] in message
    assert names(world) == before


def test_a_refusal_keeps_its_details(world: World) -> None:
    answer = world.ask("POST", PATH, transaction(create(job("train", tasks=[]))))

    assert answer.json["details"]["causes"][0]["field"] == "spec.tasks"
    assert answer.json["details"]["kind"] == "ManagedJob"


@pytest.mark.parametrize(
    ("method", "path", "body", "want"),
    [
        pytest.param("POST", PATH, [], (400, "BadRequest"), id="a list"),
        pytest.param("POST", PATH, {}, (400, "BadRequest"), id="no operations"),
        pytest.param("POST", PATH, {"spec": {"operations": {}}}, (400, "BadRequest"), id="operations that are none"),
        pytest.param("POST", PATH, {"kind": "Job", "spec": {"operations": []}}, (400, "BadRequest"), id="another kind"),
        pytest.param("POST", PATH, transaction(*[{}] * 10_001), (400, "BadRequest"), id="too many"),
        pytest.param("POST", PATH, b"{", (400, "BadRequest"), id="no JSON"),
        pytest.param("GET", PATH, None, (405, "MethodNotAllowed"), id="nothing is kept to be read"),
        pytest.param("POST", f"{PATH}/name", {}, (404, "NotFound"), id="they have no names"),
        pytest.param("POST", f"{GROUP}/transactions", {}, (404, "NotFound"), id="they have a namespace"),
    ],
)
def test_what_is_no_transaction_is_refused(
    world: World, method: str, path: str, body: Any, want: tuple[int, str]
) -> None:
    assert refusal(world.ask(method, path, body))[:2] == want


def test_nothing_to_do_is_done(world: World) -> None:
    assert world.ask("POST", PATH, transaction()).json["status"] == {"results": []}


# Who may


@pytest.mark.parametrize(
    ("binding", "operation", "want"),
    [
        pytest.param(Binding(Role.EDITOR), create(job()), 201, id="an editor launches jobs"),
        pytest.param(Binding(Role.EDITOR, "default"), create(job()), 201, id="also one of this namespace"),
        pytest.param(
            Binding(Role.EDITOR, "default"), create(job(), namespace="kube-system"), 403, id="but not in another"
        ),
        pytest.param(Binding(Role.EDITOR, "kube-system"), create(job()), 403, id="an editor of another namespace"),
        pytest.param(Binding(Role.VIEWER), create(job()), 403, id="a viewer writes nothing"),
        pytest.param(
            Binding(Role.EDITOR),
            {"verb": "delete", "apiVersion": "v1", "kind": "Node", "name": "n"},
            403,
            id="what an editor may not delete alone",
        ),
        pytest.param(
            Binding(Role.EDITOR),
            create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}),
            403,
            id="what an editor may not create alone",
        ),
        pytest.param(
            Binding(Role.ADMIN),
            create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}),
            201,
            id="an admin may",
        ),
    ],
)
def test_every_operation_is_authorised_as_by_itself(
    world: World, binding: Binding, operation: Manifest, want: int
) -> None:
    token = world.add_user("ann", binding)
    before = world.objects.store.next_revision
    answer = world.ask("POST", PATH, transaction(create(config_map("mine")), operation), token=token)

    assert answer.code == want
    if want == 403:
        assert "cannot " in answer.json["message"]
        assert world.objects.store.next_revision == before


def test_nobody_without_a_token(world: World) -> None:
    assert world.ask("POST", PATH, transaction(create(config_map("a"))), token="").code == 403


# What is kept


def test_every_write_has_its_line(world: World) -> None:
    world.ask("POST", PATH, transaction(create(job()), create(config_map("a")), patch("a", {"data": {"b": "c"}})))
    world.ask("POST", PATH, transaction(delete("a"), delete("nobody")))
    world.ask("POST", f"{PATH}?dryRun=All", transaction(delete("a")))

    lines = [line for line in audited(world) if line["resource"] != "namespaces"]
    told = [(line["verb"], line["resource"], line.get("name", ""), line["code"]) for line in lines]
    launched = told[0][2]
    assert launched.startswith("train-")
    assert told == [
        ("create", "managedjobs", launched, 201),
        ("create", "configmaps", "a", 201),
        ("patch", "configmaps", "a", 200),
        ("create", "transactions", "", 201),
        ("delete", "configmaps", "nobody", 404),
        ("create", "transactions", "", 404),
        ("delete", "configmaps", "a", 200),
        ("create", "transactions", "", 201),
    ]
    assert {line["user"] for line in lines} == {"admin"}
    assert int(lines[1]["resourceVersion"]) == int(lines[0]["resourceVersion"]) + 1
    assert lines[6]["dryRun"] is True
    assert "resourceVersion" not in lines[6]


def test_metrics_count_them(world: World) -> None:
    world.ask("POST", PATH, transaction())
    text = world.ask("GET", "/metrics").body.decode()
    assert 'fairway_api_requests_total{code="201",resource="transactions",verb="create"} 1.0' in text


def test_methods_that_clients_make_up_are_one_series(world: World) -> None:
    for number in range(3):
        world.ask(f"FOO{number}", "/nowhere", token="")
    text = world.ask("GET", "/metrics").body.decode()
    assert "foo" not in text
    assert 'resource="",verb="other"} 3.0' in text


def test_unknown_fields_are_warned_of_with_the_operation_that_has_them(world: World) -> None:
    answer = world.ask("POST", PATH, transaction(create(config_map("a")), create({**config_map("b"), "colour": 1})))

    assert answer.code == 201
    assert b'299 - "operation 2: unknown field \\"colour\\""' in [value for _, value in answer.headers]
    strict = world.ask("POST", f"{PATH}?fieldValidation=Strict", transaction(create({**config_map("c"), "colour": 1})))
    assert refusal(strict)[:2] == (400, "BadRequest")


# Limits


def test_a_transaction_may_be_larger_than_another_request_but_not_without_end(tmp_path: Path) -> None:
    with World(tmp_path, limits=Limits(body_bytes=1000, transaction_bytes=20_000)) as world:
        fine = transaction(*(create(config_map(f"m{n}", text="x" * 500)) for n in range(10)))
        assert world.ask("POST", PATH, fine).code == 201
        large = transaction(*(create(config_map(f"n{n}", text="x" * 500)) for n in range(50)))
        assert refusal(world.ask("POST", PATH, large))[:2] == (413, "RequestEntityTooLarge")
        assert world.ask("POST", MAPS, config_map("alone", text="x" * 1000)).code == 413


def test_a_body_of_nothing_but_brackets_is_refused_before_it_is_read(world: World) -> None:
    """It would take thirty times its size in memory."""
    body = b'{"spec":{"operations":[' + b"[]," * 2_100_000 + b"[]]}}"
    answer = world.ask("POST", PATH, body)
    assert refusal(answer)[:2] == (413, "RequestEntityTooLarge")
    assert "send it in several parts" in answer.json["message"]


def test_so_many_at_a_time(tmp_path: Path) -> None:
    with World(tmp_path, limits=Limits(transactions=1)) as world:

        async def story() -> None:
            slow = world.begin("POST", PATH, pieces=[b'{"spec":'])
            slow.unfinished = True
            refused = await world.answer("POST", PATH, transaction())
            assert refusal(refused)[:2] == (429, "TooManyRequests")
            slow.hang_up()
            await slow.until_ended()
            assert (await world.answer("POST", PATH, transaction())).code == 201

        world.run(story())


def test_a_thousand_jobs_are_launched_in_a_moment(world: World) -> None:
    body = json.dumps(transaction(*(create(job(rank=rank, numJobs=1000)) for rank in range(1000)))).encode()
    began = time.thread_time()  # of the processor: others may have it meanwhile
    answer = world.ask("POST", PATH, body)
    took = time.thread_time() - began

    assert answer.code == 201
    assert len({one["metadata"]["name"] for one in answer.json["status"]["results"]}) == 1000
    assert took < 1.5


# Whatever comes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["verb", "manifest", "apiVersion", "kind", "name", "namespace", "patch", "uid", "resourceVersion",
     "propagationPolicy", "gracePeriodSeconds"]
)  # fmt: skip
VALUES = JSON | st.sampled_from(
    [
        "create",
        "patch",
        "delete",
        "v1",
        "ConfigMap",
        "default",
        "a",
        "Foreground",
        config_map("a"),
        {"data": {"a": None}},
    ]
)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.dictionaries(FIELDS, VALUES, max_size=7) | JSON, max_size=4))
def test_whatever_comes_is_answered(world: World, operations: list[Any]) -> None:
    before = world.objects.store.next_revision
    answer = world.ask("POST", PATH, transaction(*operations))

    assert answer.code == 201 or 400 <= answer.code < 500
    if answer.code != 201:
        assert world.objects.store.next_revision == before


KEY = "0123456789abcdef"


def keyed(*operations: Any, key: Any = KEY) -> Manifest:
    body = transaction(*operations)
    return {**body, "spec": {**body["spec"], "idempotencyKey": key}}


def test_a_transaction_that_is_sent_again_is_answered_and_not_carried_out_again(world: World) -> None:
    body = keyed(create(job()), create(job()), create(config_map("gone")), delete("gone"))

    first, second = world.ask("POST", PATH, body), world.ask("POST", PATH, body)

    assert (first.code, second.code) == (201, 200)
    jobs = first.json["status"]["results"][:2]
    assert second.json["status"]["results"] == [*jobs, None, None]
    assert len(names(world, f"{GROUP}/namespaces/default/managedjobs")) == 2
    world.ask("DELETE", f"{GROUP}/namespaces/default/managedjobs/{jobs[0]['metadata']['name']}")
    assert world.ask("POST", PATH, body).json["status"]["results"] == [None, jobs[1], None, None]
    assert [line["code"] for line in audited(world) if line.get("resource") == "managedjobs"].count(201) == 2


def test_a_key_belongs_to_one_request_of_one_user_in_one_namespace(world: World) -> None:
    assert world.ask("POST", PATH, keyed(create(config_map("one")))).code == 201

    assert refusal(world.ask("POST", PATH, keyed(create(config_map("two")))))[:2] == (422, "Invalid")
    assert "two" not in names(world)
    assert world.ask("POST", PATH.replace("default", "kube-system"), keyed(create(config_map("one")))).code == 201
    token = world.add_user("ann", Binding(Role.ADMIN))
    assert world.ask("POST", PATH, keyed(create(config_map("three"))), token=token).code == 201


def test_what_was_refused_or_tried_only_leaves_no_receipt(world: World) -> None:
    body = keyed(create(config_map("one")), create(config_map("two")))
    assert world.ask("POST", f"{PATH}?dryRun=All", body).code == 201
    world.ask("POST", MAPS, config_map("two"))
    assert world.ask("POST", PATH, body).code == 409
    world.ask("DELETE", f"{MAPS}/two")

    assert world.ask("POST", PATH, body).code == 201


@pytest.mark.parametrize("key", ["", "short", "x" * 129, 7, ["a"], "line\nbreak in the key"], ids=repr)
def test_a_key_that_is_none_is_refused(world: World, key: object) -> None:
    code, reason, message = refusal(world.ask("POST", PATH, keyed(create(config_map("one")), key=key)))

    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("spec.idempotencyKey: Invalid value")
