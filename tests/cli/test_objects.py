"""`fairway apply`, `get`, `describe` and `delete` on a real server, for people without kubectl."""

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairway.cli import get as getting
from fairway.cli.resources import APIResources, NoSuchKindError, Resource
from fairway.cli.session import open_session
from fairway.testing.servers import Server

from .looking import PAPER, Here

QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: default-flavor
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: team-a
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: ["cpu"]
    flavors:
    - name: default-flavor
      resources:
      - name: cpu
        nominalQuota: 9
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata:
  name: user-queue
spec:
  clusterQueue: team-a
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("objects") / "state") as server:
        yield server


@pytest.fixture
def fairway(server: Server, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(server.state, capsys)


@pytest.fixture
def queues(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return file


def config_map(server: Server, name: str, **metadata: object) -> None:
    body = {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}
    assert server.call("POST", "/api/v1/namespaces/default/configmaps", body).code == 201


def test_applied_once_it_is_created_then_unchanged_then_configured(fairway: Here, queues: Path) -> None:
    names = ["resourceflavor.kueue.x-k8s.io/default-flavor", "clusterqueue.kueue.x-k8s.io/team-a"]
    names.append("localqueue.kueue.x-k8s.io/user-queue")

    assert fairway("apply", "-f", str(queues)).splitlines() == [f"{name} created" for name in names]
    assert fairway("apply", "-f", str(queues)).splitlines() == [f"{name} unchanged" for name in names]
    queues.write_text(QUEUES.replace("nominalQuota: 9", "nominalQuota: 10"))
    assert fairway("apply", "-f", str(queues)).splitlines()[1] == f"{names[1]} configured"
    assert fairway("delete", "-f", str(queues)).splitlines() == [
        'localqueue.kueue.x-k8s.io "user-queue" deleted',
        'clusterqueue.kueue.x-k8s.io "team-a" deleted',
        'resourceflavor.kueue.x-k8s.io "default-flavor" deleted',
    ]


def test_a_dry_run_changes_nothing(fairway: Here, queues: Path) -> None:
    assert fairway("apply", "--dry-run", "-f", str(queues)).count("created (dry run)") == 3
    assert fairway.tried("get", "rf").output == ""


def test_from_standard_input_and_with_a_name_that_the_server_gives(
    fairway: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "given-"}}'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    said = fairway("apply", "-f", "-")

    assert said.startswith("configmap/given-")
    assert said.endswith(" created\n")


def test_what_is_refused_is_said_with_its_place_and_the_rest_is_done(fairway: Here, tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n---\n"
        "apiVersion: v1\nkind: Konfig\nmetadata: {name: other}\n---\n"
        "apiVersion: v1\nkind: ClusterQueue\nmetadata: {name: other}\n"
    )

    code, output, errors = fairway.tried("apply", "-f", str(file))

    assert (code, output) == (1, "configmap/fine created\n")
    first, second, third = errors.splitlines()
    assert first.startswith(f"error: {file}: ConfigMap ")
    assert "Not_A_Name" in first
    assert second == f"error: {file}:9: the server has no kind 'Konfig'; did you mean configmaps?"
    assert third.startswith(f"error: {file}:13: v1 has no ClusterQueue; it is in kueue.x-k8s.io/")


def test_fields_of_others_are_not_taken_without_being_told_to(server: Server, fairway: Here, tmp_path: Path) -> None:
    config_map(server, "shared")
    file = tmp_path / "shared.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {key: mine}\n")

    refused = fairway.refused("apply", "-f", str(file))

    assert "conflict" in refused
    assert refused.endswith("; --force-conflicts takes the fields over")
    assert fairway("apply", "--force-conflicts", "-f", str(file)) == "configmap/shared configured\n"


def test_a_file_that_is_wrong_is_not_sent_at_all(fairway: Here, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n")

    assert fairway.refused("apply", "-f", str(tmp_path)) == (
        f"error: {tmp_path}/bad.yaml: metadata.name is missing: the ConfigMap needs a name"
    )


@pytest.mark.parametrize("kind", ["configmaps", "configmap", "cm", "ConfigMap", "cm,namespaces"])
def test_a_kind_goes_by_many_names(server: Server, fairway: Here, kind: str) -> None:
    if server.call("GET", "/api/v1/namespaces/default/configmaps/named").code == 404:
        config_map(server, "named")

    assert "named" in fairway("get", kind)


def test_get_prints_what_the_server_prints(server: Server, fairway: Here) -> None:
    config_map(server, "labelled", labels={"team": "a"})

    header, line = fairway("get", "cm", "-l", "team=a").splitlines()
    assert header.split() == ["NAME", "DATA", "AGE"]
    assert line.split()[:2] == ["labelled", "1"]
    header, line = fairway("get", "cm", "-A", "-l", "team=a").splitlines()
    assert (header.split()[0], line.split()[0]) == ("NAMESPACE", "default")
    assert fairway("get", "cm", "-l", "team=a", "-o", "name") == "configmap/labelled\n"
    assert fairway.tried("get", "pods", "-l", "team=a") == (0, "", "No pods in default.\n")
    assert fairway.json("get", "cm", "labelled")["data"] == {"key": "value"}
    assert fairway.json("get", "cm", "-l", "team=a")["kind"] == "List"
    assert "managedFields" not in fairway.json("get", "configmap/labelled")["metadata"]
    assert yaml.safe_load(fairway("get", "cm", "labelled", "-o", "yaml"))["data"] == {"key": "value"}


def test_several_kinds_are_told_apart(fairway: Here) -> None:
    found = fairway("get", "cm,ns", "-o", "wide").split("\n\n")

    assert len(found) == 2
    assert "namespace/default" in found[1]


@pytest.mark.parametrize(
    ("words", "code", "want"),
    [
        (["get", "pots"], 1, "error: the server has no kind 'pots'; did you mean pods?"),
        (["get", "cm", "absent"], 1, 'error: configmaps "absent" not found'),
        (["get", "cm/x", "y"], 2, "'y': mixes KIND/NAME with KIND NAME; use one form"),
        (["get", "cm", "x", "-A"], 2, "a name cannot be combined with --all-namespaces"),
        (["get", "cm", "a", "b", "-w"], 2, "--watch follows one kind, or one object, at a time"),
        (["delete"], 2, "say what to delete"),
        (["delete", "cm"], 2, "which configmaps? give names, --selector, or --all for all of them"),
        (["delete", "cm", "x", "--all"], 2, "names cannot be combined with --selector or --all"),
        (["delete", "cm", "absent"], 1, 'error: configmaps "absent" not found'),
        (["describe", "cm", "absent"], 1, 'error: configmaps "absent" not found'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done(fairway: Here, words: list[str], code: int, want: str) -> None:
    assert want in fairway.refused(*words, code=code)


def test_describe_tells_what_is_what_and_what_happened(server: Server, fairway: Here) -> None:
    config_map(server, "described", labels={"team": "a"}, annotations={"why": "so"})
    made = server.call("GET", "/api/v1/namespaces/default/configmaps/described").body
    event = {
        "metadata": {"name": "described.1"},
        "involvedObject": {
            "kind": "ConfigMap",
            "name": "described",
            "namespace": "default",
            "uid": made["metadata"]["uid"],
        },
        "reason": "Looked",
        "message": "somebody looked",
        "type": "Normal",
        "count": 3,
        "lastTimestamp": made["metadata"]["creationTimestamp"],
        "source": {"component": "tests"},
    }
    assert server.call("POST", "/api/v1/namespaces/default/events", event).code == 201

    lines = fairway("describe", "configmap", "described").splitlines()

    facts = dict(line.split(":", 1) for line in lines[:6])
    assert {name: value.strip() for name, value in facts.items()} == {
        "Name": "described",
        "Namespace": "default",
        "Kind": "ConfigMap (v1)",
        "Labels": "team=a",
        "Annotations": "why=so",
        "Created": facts["Created"].strip(),
    }
    assert "ago)" in facts["Created"]
    assert lines[6:9] == ["Data:", "  key: value", "Events:"]
    assert lines[10].split()[:2] == ["Normal", "Looked"]
    assert "(x3)" in lines[10]
    assert lines[10].endswith("tests  somebody looked")


def test_secrets_are_described_by_their_length(server: Server, fairway: Here) -> None:
    body = {"metadata": {"name": "token"}, "stringData": {"password": "correct horse"}}
    assert server.call("POST", "/api/v1/namespaces/default/secrets", body).code == 201

    said = fairway("describe", "secret", "token")

    assert "password: 13 bytes" in said
    assert "correct horse" not in said
    assert "Y29ycmVjdCBob3JzZQ" not in said


def test_delete_by_name_by_label_and_all(server: Server, fairway: Here) -> None:
    for name in ("gone-1", "gone-2", "gone-3"):
        config_map(server, name, labels={"gone": "yes"})

    assert fairway("delete", "cm/gone-1") == 'configmap "gone-1" deleted\n'
    assert fairway("delete", "cm", "gone-1", "--ignore-not-found") == ""
    assert fairway("delete", "configmaps", "-l", "gone=yes").splitlines() == [
        'configmap "gone-2" deleted',
        'configmap "gone-3" deleted',
    ]
    assert fairway.tried("delete", "lq", "--all") == (0, "", "Nothing to delete.\n")


def test_a_watch_prints_what_is_there_and_what_comes(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    config_map(server, "before", labels={"watched": "yes"})
    resource = Resource("", "v1", "ConfigMap", "configmaps", "configmap", namespaced=True)
    with open_session(state=server.state) as session:
        query = {"labelSelector": "watched=yes", "fieldSelector": None}
        watching = threading.Thread(target=_watch_until_hung_up, args=(session, resource, query))
        watching.start()
        seen = _until(capsys, "before")
        config_map(server, "during", labels={"watched": "yes"})
        seen += _until(capsys, "during")
        session.rest.abort()
        watching.join(30)

    lines = [line.split()[:2] for line in seen.splitlines()]
    assert lines == [["NAME", "DATA"], ["before", "1"], ["during", "1"]]


def _watch_until_hung_up(session: object, resource: Resource, query: dict[str, str | None]) -> None:
    from fairway.client.rest import Unreachable  # noqa: PLC0415

    with pytest.raises(Unreachable):
        getting._watch(session, resource, [], query, "table")  # type: ignore[arg-type]


def _until(capsys: pytest.CaptureFixture[str], word: str) -> str:
    seen = ""
    wait = threading.Event()
    for _ in range(3000):
        seen += capsys.readouterr().out
        if word in seen:
            return seen
        wait.wait(0.01)
    raise AssertionError(seen)


def test_tables_of_the_server_are_put_together() -> None:
    column = {"name": "Name", "type": "string"}
    number = {"name": "Count", "type": "integer", "priority": 1}
    rows = [{"cells": ["a", 1], "object": {"metadata": {"namespace": "x"}}}, {"cells": ["b", None]}]
    found = [{"columnDefinitions": [column, number], "rows": rows}]

    assert getting.as_table(found, PAPER, wide=False).splitlines() == ["NAME", "a", "b"]
    assert getting.as_table(found, PAPER, wide=True, namespaces=True, prefix="pod/").splitlines() == [
        "NAMESPACE  NAME   COUNT",
        "x          pod/a      1",
        "           pod/b",
    ]
    assert getting.as_table([{"rows": []}], PAPER, wide=True) == ""


def test_texts_of_several_lines_are_written_as_blocks() -> None:
    assert (
        getting.as_yaml({"run": "echo a\necho b\n", "also": ["x: y"]})
        == "run: |\n  echo a\n  echo b\nalso:\n- 'x: y'\n"
    )


def test_kinds_and_categories() -> None:
    old = Resource("g", "v1", "Thing", "things", "thing", namespaced=True, categories=("all",), verbs=("list",))
    new = old._replace(version="v2")
    other = Resource("h", "v1", "Other", "others", "other", namespaced=False, short_names=("o",), categories=("all",))
    review = Resource("h", "v1", "Review", "reviews", "review", namespaced=False, verbs=("create",))
    known = APIResources([new, old, other._replace(verbs=("get", "list")), review])
    other = known.one("other")

    assert known.one("thing") == new
    assert known.one("things.v1.g") == old
    assert known.of("g/v1", "Thing") == old
    assert known.named("all") == [new, other]
    assert other.path("ignored", "n") == "/apis/h/v1/others/n"
    with pytest.raises(NoSuchKindError, match="matches several kinds"):
        known.one("all")
    with pytest.raises(NoSuchKindError, match=r"there are others, things$"):
        known.one("zebra")


def test_json_of_a_watch_comes_object_by_object(server: Server, fairway: Here) -> None:
    config_map(server, "for-json")

    assert json.loads(fairway("get", "cm", "for-json", "-o", "json"))["kind"] == "ConfigMap"


def test_what_is_there_is_shown_and_what_is_not_is_told_of(fairway: Here, queues: Path) -> None:
    fairway.tried("apply", "-f", str(queues))

    said = fairway.tried("get", "localqueues", "nope", "user-queue")
    assert (said.code, said.output.splitlines()[1].split()[0]) == (1, "user-queue")
    assert said.errors == 'error: localqueues.kueue.x-k8s.io "nope" not found\n'

    said = fairway.tried("get", "localqueues", "nope", "user-queue", "-o", "json")
    assert (said.code, [one["metadata"]["name"] for one in json.loads(said.output)["items"]]) == (1, ["user-queue"])

    said = fairway.tried("describe", "localqueues", "nope", "user-queue")
    assert said.code == 1
    assert "user-queue" in said.output

    said = fairway.tried("get", "localqueue", "nope", "-o", "json")
    assert (said.code, said.output) == (1, "")


def test_the_namespace_can_be_said_as_kubectl_has_it(fairway: Here) -> None:
    for words in (("get", "pods"), ("describe", "pods")):
        said = fairway.tried(*words, "-n", "elsewhere")
        assert (said.code, said.errors) == (0, "No pods in elsewhere.\n")
