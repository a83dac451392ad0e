"""Managed jobs, transactions, archives and waiting jobs with anything in them: an answer comes, and those who work on
jobs are not thrown off by what was accepted."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fuzz.effort import examples
from fuzz.managed import ManagedWorld
from fuzz.manifests import KINDS, NAMESPACE, collection, valid
from fuzz.strategies import (
    ACCEPTS,
    BODIES,
    CONTENT_TYPES,
    JUNK,
    METHODS,
    NAMES,
    QUERIES,
    SCALARS,
    VALUES,
    WORDS,
    spoilt,
)

GROUP: Final = "/apis/fairway.dev/v1alpha1"
JOBS: Final = f"{GROUP}/namespaces/{NAMESPACE}/managedjobs"
KIND: Final = next(kind for kind in KINDS if kind.kind == "ManagedJob")
DIGEST: Final = hashlib.sha256(b"files").hexdigest()

TASK: Final[Manifest] = {
    "name": "train",
    "num_nodes": 2,
    "envs": {"A": "1", "HOME": "/x"},
    "secrets": ["TOKEN"],
    "files": [{"archive": DIGEST, "path": "data"}, {"archive": DIGEST, "path": "~/x"}],
    "setup": "true",
    "run": "echo $A",
    "max_duration": 60,
    "resources": {
        "cpus": 1,
        "memory": "1GB",
        "disk_size": 10,
        "labels": {"team": "a"},
        "image_id": "img",
        "priority": 5,
        "any_of": [
            {"infra": "k8s"},
            {"infra": "k8s/lab", "accelerators": {"T4": 1}},
            {"accelerators": ["T4:2", "V100"]},
        ],
        "job_recovery": {"max_restarts_on_errors": 3, "recover_on_exit_codes": [33, 34]},
    },
    "config": {
        "kubernetes": {
            "provision_timeout": 10,
            "remote_identity": "trainer",
            "kueue": {"local_queue_name": "lq"},
            "pod_config": {
                "metadata": {"labels": {"x": "y"}, "annotations": {"a": "b"}},
                "spec": {
                    "nodeSelector": {"disk": "ssd"},
                    "containers": [{"env": [{"name": "B", "value": "2"}], "resources": {"limits": {"cpu": "2"}}}],
                    "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
                },
            },
        }
    },
}
FULL: Final[Manifest] = {
    "apiVersion": "fairway.dev/v1alpha1",
    "kind": "ManagedJob",
    "metadata": {"generateName": "train-", "labels": {"a": "b"}},
    "spec": {
        "name": "train",
        "queue": "lq",
        "priority": 3,
        "priorityClass": "high",
        "aging": {"step": 1, "cap": 2},
        "array": "sweep",
        "rank": 0,
        "numJobs": 2,
        "provisionTimeoutSeconds": -1,
        "secretName": "secret",
        "podConfig": {"spec": {"tolerations": [{"operator": "Exists"}]}},
        "tasks": [TASK, {"run": "true"}],
    },
}
SMALL: Final[Manifest] = {
    "apiVersion": "fairway.dev/v1alpha1",
    "kind": "ManagedJob",
    "metadata": {"generateName": "small-"},
    "spec": {"queue": "lq", "tasks": [{"run": "true", "resources": {"cpus": "1"}}]},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedWorld]:
    with ManagedWorld(tmp_path_factory.mktemp("state")) as world:
        world.place_canary()
        world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        quota = {"name": "cpu", "nominalQuota": "3"}
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}]
        spec: Manifest = {"namespaceSelector": {}, "resourceGroups": groups}
        kueue = "/apis/kueue.x-k8s.io/v1beta2"
        for path, manifest in (
            ("resourceflavors", {"metadata": {"name": "default"}}),
            ("clusterqueues", {"metadata": {"name": "cq"}, "spec": spec}),
            (f"namespaces/{NAMESPACE}/localqueues", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}}),
        ):
            assert world.ask("POST", f"{kueue}/{path}", manifest).code == 201
        for _ in range(5):
            assert world.ask("POST", JOBS, SMALL).code == 201
        world.let_them_work()
        yield world


def launch(world: ManagedWorld, manifest: Any) -> None:
    """Launch a job, look at it from all sides, change it, and delete it."""
    made = world.ask("POST", JOBS, manifest)
    world.let_them_work()
    if made.code != 201:
        return
    name = made.json["metadata"]["name"]
    assert made.json["spec"]["user"] == "admin" or isinstance(manifest["spec"].get("user"), str)
    seen = world.ask("GET", f"{JOBS}/{name}").json
    assert seen["status"]["phase"]
    world.ask("GET", f"{JOBS}/{name}/log")
    waiting = f"{GROUP}/namespaces/{NAMESPACE}/waitingjobs"
    world.ask("GET", waiting)
    if workload := seen["status"].get("workload"):
        world.ask("GET", f"{waiting}/{workload}")
    for change in ({"hold": True}, {"priority": 7, "hold": False}, {"cancel": True}):
        world.ask("PATCH", f"{JOBS}/{name}", {"spec": change}, content_type="application/merge-patch+json")
        world.let_them_work()
    world.ask("DELETE", f"{JOBS}/{name}")
    world.let_them_work()


def test_the_jobs_that_are_spoilt_are_good_ones(world: ManagedWorld) -> None:
    for manifest in (FULL, SMALL):
        assert world.ask("POST", f"{JOBS}?dryRun=All&fieldValidation=Strict", manifest).code == 201
        launch(world, manifest)


def test_applying_the_same_job_again_changes_nothing(world: ManagedWorld) -> None:
    applied = {**FULL, "metadata": {"name": "applied"}, "spec": {**FULL["spec"], "hold": True}}
    answers = []
    for _ in range(2):
        target = f"{JOBS}/applied?fieldManager=a"
        answers.append(world.ask("PATCH", target, applied, content_type="application/apply-patch+yaml"))
        world.let_them_work()
    before, after = (world.ask("GET", f"{JOBS}/applied").json for _ in range(2))

    assert [answer.code for answer in answers] == [201, 200]
    assert answers[1].json == before == after
    assert (after["spec"]["user"], after["spec"]["id"] > 0) == ("admin", True)
    world.ask("DELETE", f"{JOBS}/applied")


@examples(120)
@given(spoilt(FULL, KIND.schemas[KIND.stored]()) | spoilt(SMALL, KIND.schemas[KIND.stored]()))
def test_any_job(world: ManagedWorld, manifest: Any) -> None:
    launch(world, manifest)
    world.check_canary()


@examples(60)
@given(st.sampled_from(sorted(TASK)), st.sampled_from([*sorted(TASK["resources"]), "", "ordered", "infra"]), JUNK)
def test_any_value_of_any_field_of_a_task(world: ManagedWorld, field: str, inner: str, value: Any) -> None:
    task = {**TASK, field: value}
    if field == "resources" and inner:
        task = {**TASK, "resources": {**TASK["resources"], inner: value}}
    launch(world, {**SMALL, "spec": {**SMALL["spec"], "tasks": [task]}})


@examples(60)
@given(st.sampled_from(["task", "attempt", "rank", "container", "follow", "tailLines"]), VALUES, VALUES)
def test_any_question_for_the_log_of_a_job_that_runs(world: ManagedWorld, name: str, value: str, other: str) -> None:
    for item in world.ask("GET", f"{JOBS}?limit=3").json["items"]:
        world.ask("GET", f"{JOBS}/{item['metadata']['name']}/log?{name}={value}&rank={other}")


TARGETS: Final = st.sampled_from(
    [(kind.api_version(kind.stored), kind.kind) for kind in KINDS if kind.kind != "Namespace"]
)
PLACES: Final = st.sampled_from([NAMESPACE, "", "nowhere", "..", "a/b"])


@st.composite
def operations(draw: st.DrawFn) -> Any:
    """Something that is nearly an operation of a transaction."""
    api_version, kind = draw(TARGETS)
    verb = draw(st.sampled_from(["create", "create", "patch", "delete", "update", "get"]) | SCALARS)
    found = next(one for one in KINDS if one.kind == kind)
    name = draw(st.sampled_from(["made", "base"]) | WORDS)
    manifest = draw(st.just(valid(found)) | spoilt(valid(found), found.schemas[found.stored](), most=1) | JUNK)
    if isinstance(manifest, dict) and isinstance(manifest.get("metadata"), dict):
        manifest["metadata"]["name"] = name
    if verb == "create":
        operation: Any = {"verb": verb, "manifest": manifest}
    else:
        operation = {"verb": verb, "apiVersion": api_version, "kind": kind, "name": name}
        if verb == "patch":
            operation["patch"] = draw(JUNK | st.just({}) | st.just({"metadata": {"labels": {"a": "b"}}}))
    more = st.fixed_dictionaries(
        {},
        optional={
            "namespace": PLACES | JUNK,
            "uid": SCALARS,
            "resourceVersion": SCALARS,
            "propagationPolicy": SCALARS,
            "gracePeriodSeconds": SCALARS,
            "nope": JUNK,
        },
    )
    return {**operation, **draw(st.just({}) | more)} if draw(st.integers(0, 9)) else draw(JUNK)


@examples(120)
@given(st.lists(operations(), max_size=4), QUERIES, PLACES)
def test_any_transaction(world: ManagedWorld, steps: list[Any], query: str, namespace: str) -> None:
    target = f"{GROUP}/namespaces/{namespace or NAMESPACE}/transactions?{query}"
    world.ask("POST", target, {"spec": {"operations": steps}})
    world.let_them_work()
    world.check_canary()


@examples(60)
@given(
    st.sampled_from(["transactions", "waitingjobs", "archives"]),
    PLACES | NAMES,
    st.lists(NAMES | st.just(DIGEST), max_size=2),
    METHODS,
    QUERIES,
    BODIES,
    st.tuples(CONTENT_TYPES | st.just("application/gzip"), ACCEPTS),
)
def test_any_request_for_what_is_not_stored(
    world: ManagedWorld,
    resource: str,
    namespace: str,
    names: list[str],
    method: str,
    query: str,
    body: bytes,
    types: tuple[str, str],
) -> None:
    inside = f"/namespaces/{namespace}" if namespace else ""
    target = f"{GROUP}{inside}/{'/'.join([resource, *names])}?{query}".encode("latin-1", "replace")
    headers = [(b"accept", types[1].encode("latin-1"))]
    world.ask(method, target, body, headers=headers, content_type=types[0])
    kept = list((world.state / "archives").rglob("*")) if (world.state / "archives").exists() else []
    assert [one.name for one in kept if one.is_file() and not one.name.startswith(DIGEST)] == []
    world.check_canary()


def test_every_line_of_the_audit_log_can_be_read(world: ManagedWorld) -> None:
    world.audit.close()
    lines = [json.loads(line) for line in (world.state / "audit.log").read_text().splitlines()]
    assert {"create", "patch", "delete"} <= {line["verb"] for line in lines}
    assert all(line["user"] for line in lines)


def test_paths_are_those_of_the_table() -> None:
    assert collection(KIND, KIND.stored) == JOBS
