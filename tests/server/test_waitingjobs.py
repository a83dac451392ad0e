"""Why jobs wait, over HTTP: who may look, in which form, and what is said where there is nothing to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.admission.plays import Play, manifest_of, play
from fairway.apis.machinery.schemas.definitions import definition
from fairway.apis.machinery.schemas.walk import inspect
from fairway.server.access.audit import AuditLog
from fairway.server.access.roles import Binding, Role
from fairway.server.access.users import Users
from fairway.server.app import Api
from fairway.testing.builders import cluster_queue, flavor, local_queue, workload
from fuzz.world import Answer, Exchange, World, check

GROUP = "/apis/fairway.dev/v1alpha1"
HERE = f"{GROUP}/namespaces/default/waitingjobs"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
QUEUES = (flavor(), cluster_queue("cq", cpu=4, within="LowerPriority"), local_queue("lq", "cq"))


class Asking:
    """An API on the store of a play."""

    def __init__(self, on_stage: Play, state: Path) -> None:
        self.users = Users(state)
        self.on_stage = on_stage
        self.audit = AuditLog(state)
        self.api = Api(on_stage.api.objects, self.users, self.audit, state)
        self.api.explainer = on_stage.waiting
        self.admin = self.users.add("admin", (Binding(Role.ADMIN),))

    async def __call__(self, path: str, *, method: str = "GET", accept: str = "", token: str = "") -> Answer:
        headers = [(b"authorization", f"Bearer {token or self.admin}".encode())]
        if accept:
            headers.append((b"accept", accept.encode()))
        exchange = Exchange(method, path.encode(), headers, ())
        await exchange.ask(self.api)
        answer = Answer(exchange.code, exchange.headers, bytes(exchange.sent))
        check(answer, method)
        return answer


@asynccontextmanager
async def asking(state: Path) -> AsyncIterator[Asking]:
    """One that holds everything in `default`, one that waits there and one that waits in `team`."""
    async with play(*QUEUES) as on_stage:
        await on_stage.submit(workload("holder", queue="lq", cpu=4, priority=9), workload("w", queue="lq", cpu=2))
        await on_stage.api.create("namespaces", {"metadata": {"name": "team"}})
        for made in (local_queue("lq", "cq"), workload("theirs", queue="lq", cpu=3)):
            manifest = manifest_of(made)
            manifest["metadata"]["namespace"] = "team"
            await on_stage.api.create(f"{made.KIND.lower()}s", manifest, "team")
        await on_stage.rest()
        asked = Asking(on_stage, state)
        try:
            yield asked
        finally:
            asked.audit.close()


def story(tmp_path: Path, told: Callable[[Asking], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with asking(tmp_path) as ask:
            await told(ask)

    asyncio.run(scenario())


def names(answer: Answer) -> list[str]:
    assert answer.code == 200, answer
    return [item["metadata"]["name"] for item in answer.json["items"]]


def test_everywhere_in_one_namespace_and_one(tmp_path: Path) -> None:
    async def told(ask: Asking) -> None:
        everywhere = await ask(f"{GROUP}/waitingjobs")
        assert (everywhere.json["kind"], everywhere.json["apiVersion"]) == ("WaitingJobList", "fairway.dev/v1alpha1")
        assert sorted(names(everywhere)) == ["theirs", "w"]
        assert names(await ask(HERE)) == ["w"]
        one = (await ask(f"{HERE}/w")).json
        assert (one["kind"], one["apiVersion"]) == ("WaitingJob", "fairway.dev/v1alpha1")
        assert one["message"] == "needs 2 CPUs, 0 free in default"
        assert one["hints"][0].endswith("when workload holder (4 CPUs, priority 9) ends")
        (holder,) = one["shortages"][0]["holders"]
        assert holder["workload"] == "default/holder"

    story(tmp_path, told)


def test_what_kubectl_explains_is_what_is_told(tmp_path: Path) -> None:
    schema = definition("dev.fairway.v1alpha1.WaitingJob")

    async def told(ask: Asking) -> None:
        one = (await ask(f"{HERE}/w")).json
        for item in (one, *(await ask(HERE)).json["items"]):
            found = inspect(schema, item)
            assert (found.errors, found.unknown) == ([], [])
        assert one.keys() == schema.properties.keys()

    story(tmp_path, told)


@pytest.mark.parametrize(
    ("binding", "path", "want"),
    [
        pytest.param(Binding(Role.VIEWER), f"{GROUP}/waitingjobs", 200, id="a viewer sees all"),
        pytest.param(Binding(Role.VIEWER, "default"), HERE, 200, id="one of a namespace sees that"),
        pytest.param(Binding(Role.VIEWER, "default"), f"{HERE}/w", 200, id="and each one in it"),
        pytest.param(Binding(Role.VIEWER, "default"), f"{GROUP}/waitingjobs", 403, id="but not all"),
        pytest.param(
            Binding(Role.VIEWER, "default"),
            f"{GROUP}/namespaces/team/waitingjobs/theirs",
            403,
            id="nor those of others",
        ),
        pytest.param(Binding(Role.EDITOR, "team"), HERE, 403, id="nor an editor of another"),
    ],
)
def test_who_may_look(tmp_path: Path, binding: Binding, path: str, want: int) -> None:
    async def told(ask: Asking) -> None:
        token = ask.users.add("ann", (binding,))
        assert (await ask(path, token=token)).code == want

    story(tmp_path, told)


def test_the_names_of_others_are_for_those_who_may_read_them(tmp_path: Path) -> None:
    async def told(ask: Asking) -> None:
        path = f"{GROUP}/namespaces/team/waitingjobs/theirs"
        token = ask.users.add("ann", (Binding(Role.VIEWER, "team"),))
        hidden = await ask(path, token=token)
        assert b"holder (" not in hidden.body
        (holder,) = hidden.json["shortages"][0]["holders"]
        assert (holder["workload"], holder["shown"]) == (None, "a job of another team")
        assert (await ask(path)).json["shortages"][0]["holders"][0]["workload"] == "default/holder"

    story(tmp_path, told)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("holder", "the Workload holder does not wait", id="it is admitted"),
        pytest.param("nobody", "there is no Workload nobody", id="there is none"),
    ],
)
def test_who_does_not_wait_is_not_found(tmp_path: Path, name: str, words: str) -> None:
    async def told(ask: Asking) -> None:
        answer = await ask(f"{HERE}/{name}")
        assert (answer.code, answer.json["reason"]) == (404, "NotFound")
        assert words in answer.json["message"]

    story(tmp_path, told)


def test_kubectl_gets_a_table(tmp_path: Path) -> None:
    async def told(ask: Asking) -> None:
        table = (await ask(HERE, accept=TABLE)).json
        assert table["kind"] == "Table"
        assert [column["name"] for column in table["columnDefinitions"]] == [
            "Name", "Owner", "Queue", "ClusterQueue", "Position", "Priority", "Expected-Start", "Message", "Age",
        ]  # fmt: skip
        (row,) = table["rows"]
        assert row["cells"][0] == "w"
        assert row["cells"][2:4] == ["lq", "cq"]
        assert row["cells"][7] == "needs 2 CPUs, 0 free in default"
        assert row["object"]["metadata"]["namespace"] == "default"
        assert len((await ask(f"{HERE}/w", accept=TABLE)).json["rows"]) == 1

    story(tmp_path, told)


@pytest.mark.parametrize(
    ("accept", "path", "check_it"),
    [
        pytest.param(
            "application/yaml", HERE, lambda a: yaml.safe_load(a.body)["kind"] == "WaitingJobList", id="as YAML"
        ),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            HERE,
            lambda a: a.json["items"][0]["metadata"]["name"] == "w" and "message" not in a.json["items"][0],
            id="the metadata of many",
        ),
        pytest.param(
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            f"{HERE}/w",
            lambda a: a.json["kind"] == "PartialObjectMetadata",
            id="the metadata of one",
        ),
    ],
)
def test_other_forms(tmp_path: Path, accept: str, path: str, check_it: Callable[[Answer], bool]) -> None:
    async def told(ask: Asking) -> None:
        answer = await ask(path, accept=accept)
        assert answer.code == 200
        assert check_it(answer)

    story(tmp_path, told)


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        pytest.param("POST", HERE, 405, id="they are not made"),
        pytest.param("DELETE", f"{HERE}/w", 405, id="nor deleted"),
        pytest.param("GET", f"{HERE}?watch=true", 400, id="they are not watched"),
        pytest.param("GET", f"{HERE}?labelSelector=a%3Db", 400, id="they have no labels"),
        pytest.param("GET", f"{HERE}/w/status", 404, id="they have no parts"),
        pytest.param("GET", f"{GROUP}/waitingjobs/w", 404, id="each has its namespace"),
        pytest.param("HEAD", HERE, 200, id="whether there is an answer may be asked"),
        pytest.param("GET", f"{HERE}?limit=500", 200, id="as kubectl asks"),
    ],
)
def test_what_can_be_asked(tmp_path: Path, method: str, path: str, want: int) -> None:
    async def told(ask: Asking) -> None:
        assert (await ask(path, method=method)).code == want

    story(tmp_path, told)


def test_where_nobody_decides_nobody_waits(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer: Any = world.ask("GET", f"{GROUP}/waitingjobs").json
        assert (answer["kind"], answer["items"]) == ("WaitingJobList", [])
        assert world.ask("GET", f"{HERE}/w").code == 404
