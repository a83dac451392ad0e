"""``python -m bench.waits``: how long other clients wait while one request does its worst.

A server with queueing and jobs holds 200 000 ConfigMaps. A second client, in a process of its own, reads one object and
creates another over and over. Each line is one hostile or merely large request, how it was answered, and the longest
that the second client waited meanwhile. Times are of the clock, so a busy machine adds to them: the first line is the
longest wait with nothing else going on.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.api.servers import Server, fairway, scratch
from bench.api.wire import APPLY, JSON, MERGE, Session, Target
from bench.table import Line, show, tell
from fairway.store.log import Batch, Row
from fairway.store.sqlite import SqliteLog

OBJECTS = 100_000
GOAL_SECONDS = 0.200
_BATCH = 1_000
_PATCH = "application/json-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_CORE = "/api/v1/namespaces"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_TRANSACTIONS = "/apis/fairway.dev/v1alpha1/namespaces/default/transactions"


class Attack(NamedTuple):
    """One request, and how long to go on looking after its answer (work may go on behind it)."""

    what: str
    method: str
    path: str
    body: object = None
    content_type: str = JSON
    accept: str = JSON
    afterwards: str = ""
    """A path that answers 404 once that work is done."""


def config_map(name: str, values: int = 1) -> dict[str, Any]:
    data = {f"key-{number}": "value" for number in range(values)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"of": "bench"}},
        "data": data,
    }


def job(name: str, containers: int) -> dict[str, Any]:
    asked = {"requests": {"cpu": "1m", "memory": "1Mi"}}
    running = [
        {"name": f"c{number}", "image": "busybox", "command": ["true"], "resources": asked, "env": [{"name": "A"}]}
        for number in range(containers)
    ]
    template = {"metadata": {"labels": {"of": "bench"}}, "spec": {"restartPolicy": "Never", "containers": running}}
    metadata = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "default"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def attacks() -> Iterator[Attack]:
    """The worst requests that are known, those that delete things last."""
    a_job, maps = json.dumps(job("huge", 8000)).encode(), f"{_CORE}/default/configmaps"
    yield Attack("Job with 8 000 containers", "POST", _JOBS, a_job)
    yield Attack("the same, applied", "PATCH", f"{_JOBS}/applied?fieldManager=bench", job("applied", 8000), APPLY)
    yield Attack("Job with 400 containers", "POST", _JOBS, job("large", 400))
    yield Attack(
        "Job with 400 containers, applied", "PATCH", f"{_JOBS}/large?fieldManager=b&force=1", job("large", 400), APPLY
    )
    lines = "\n".join(f"  k{number}: v" for number in range(140_000))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: yaml}}\ndata:\n{lines}\n"
    yield Attack(f"{len(text) / 1e6:.1f} MB of YAML", "POST", maps, text.encode(), "application/yaml")
    yield Attack("a ConfigMap with 150 000 keys", "POST", maps, config_map("wide", 150_000))
    yield Attack("a ConfigMap with 10 000 keys", "POST", maps, config_map("broad", 10_000))
    yield Attack("a merge patch of 150 000 keys", "PATCH", f"{maps}/one", config_map("one", 150_000), MERGE)
    yield Attack(
        "an apply of 150 000 keys", "PATCH", f"{maps}/one?fieldManager=b&force=1", config_map("one", 150_000), APPLY
    )
    copies = [{"op": "add", "path": "/metadata/annotations", "value": {"a": {"b": "x" * 1000}}}]
    copies += [
        {"op": "copy", "from": "/metadata/annotations/a", "path": f"/metadata/annotations/a/c{n}"} for n in range(40)
    ]
    yield Attack("a JSON patch that copies itself 40 times", "PATCH", f"{maps}/one", copies, _PATCH)
    moves = [{"op": "add", "path": "/data/l", "value": list(range(100_000))}]
    moves += [{"op": "remove", "path": "/data/l/0"}] * 9_000
    yield Attack("a JSON patch of 9 000 removals", "PATCH", f"{maps}/one", moves, _PATCH)
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{n}", "uid": f"u-{n}"} for n in range(20_000)]
    owned = {**config_map("owned"), "metadata": {"name": "owned", "ownerReferences": owners}}
    yield Attack("20 000 owner references", "POST", maps, owned)
    yield Attack("1.4 MB of brackets", "POST", maps, b"[" * 700_000 + b"]" * 700_000)
    env = [{"name": f"E{number}", "value": f"$(E{number - 1})"} for number in range(30_000)]
    wide = job("env", 1)
    wide["spec"]["template"]["spec"]["containers"][0]["env"] = env
    yield Attack("a Job with 30 000 variables", "POST", _JOBS, wide)
    creates = [{"verb": "create", "manifest": config_map(f"t-{number}", 3)} for number in range(10_000)]
    yield Attack("a transaction of 10 000 creates", "POST", _TRANSACTIONS, {"spec": {"operations": creates}})
    patches = [
        {"verb": "patch", "apiVersion": "v1", "kind": "ConfigMap", "name": f"t-{n}", "patch": {"data": {"a": "b"}}}
        for n in range(10_000)
    ]
    yield Attack("a transaction of 10 000 patches", "POST", _TRANSACTIONS, {"spec": {"operations": patches}})
    full = f"{_CORE}/full/configmaps"
    yield Attack("list of 100 000", "GET", full)
    yield Attack("list with a label selector", "GET", f"{full}?labelSelector=of%21%3Dbench")
    yield Attack("list with a field selector", "GET", f"{full}?fieldSelector=metadata.name%3D%3Dnone")
    yield Attack("page of a list at an old revision", "GET", f"{full}?limit=500&labelSelector=of%21%3Dbench")
    yield Attack("list as a Table", "GET", full, accept=_TABLE)
    yield Attack("list of metadata", "GET", full, accept=_METADATA)
    yield Attack("list as YAML", "GET", full, accept="application/yaml")
    yield Attack("watch with 100 000 initial events", "GET", f"{full}?watch=1&timeoutSeconds=3")
    yield Attack("the same as a Table", "GET", f"{full}?watch=1&timeoutSeconds=3", accept=_TABLE)
    yield Attack("OpenAPI v2", "GET", "/openapi/v2")
    yield Attack("metrics", "GET", "/metrics")
    yield Attack("deletecollection of 100 000", "DELETE", full)
    owner = "/api/v1/namespaces/owned/configmaps/owner"
    yield Attack(
        "an owner of 100 000 dependents goes",
        "DELETE",
        owner,
        afterwards="/api/v1/namespaces/owned/configmaps/copy-99999",
    )


class Client:
    """One connection of the attacker, who does not mind being refused."""

    def __init__(self, target: Target) -> None:
        self._token = target.token
        trust = target.trust
        self._connection = (
            http.client.HTTPConnection(target.host, target.port, timeout=600)
            if trust is None
            else http.client.HTTPSConnection(target.host, target.port, timeout=600, context=trust)
        )

    def ask(self, attack: Attack) -> tuple[int, bytes]:
        body = attack.body
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": attack.content_type,
            "Accept": attack.accept,
        }
        self._connection.request(attack.method, attack.path, data, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._connection.close()


class Wait(NamedTuple):
    """How long the second client waited at most."""

    seconds: float
    loop_seconds: float
    """Of these, what the server's event loop computed: on a busy machine the rest is spent waiting for a core."""


def _computed(schedule: Path) -> float:
    """CPU seconds of the server's first thread, which runs its event loop."""
    return int(schedule.read_text().split()[0]) / 1e9


def _probe(target: Target, pid: int, orders: Connection) -> None:
    """The second client: reads and creates in turn, and tells its longest waits when asked to."""
    longest, number, schedule = Wait(0, 0), 0, Path(f"/proc/{pid}/task/{pid}/schedstat")
    with Session(target) as session:
        while True:
            if orders.poll():
                if orders.recv() == "end":
                    return
                orders.send(longest)
                longest = Wait(0, 0)
            number += 1
            body = json.dumps(config_map(f"p-{number}")).encode()
            for request in (
                ("GET", f"{_CORE}/default/configmaps/one"),
                ("POST", f"{_CORE}/probe/configmaps", body),
            ):
                began, computed = time.perf_counter(), _computed(schedule)
                session.ask(*request)
                waited = Wait(time.perf_counter() - began, _computed(schedule) - computed)
                longest = Wait(*map(max, longest, waited))
            time.sleep(0.003)


@contextmanager
def _second_client(target: Target, pid: int) -> Iterator[Connection]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_probe, args=(target, pid, there), daemon=True)
    process.start()
    try:
        yield here
        here.send("end")
        process.join(30)
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def _longest(orders: Connection) -> Wait:
    orders.send("tell")
    longest: Wait = orders.recv()
    return longest


def _shown(longest: Wait) -> str:
    return f"{longest.loop_seconds * 1e3:.0f} ms ({longest.seconds * 1e3:.0f} ms of the clock)"


def fill(database: Path, objects: int) -> None:
    """Copies of `one` in the namespaces `full` and `owned`, written as the server would."""
    log = SqliteLog(database)
    try:
        newest = {(row.namespace, row.name): row for row in log.rows() if not row.deleted}
        pattern, owner = newest["default", "one"], json.loads(newest["owned", "owner"].data)["metadata"]["uid"]
        rows = _copies(pattern, log.last(), objects, owner)
        while batch := list(islice(rows, _BATCH)):
            log.append(Batch(batch))
    finally:
        log.close()


def _copies(pattern: Row, revision: int, count: int, owner: str) -> Iterator[Row]:
    manifest = msgspec.json.decode(pattern.data)
    metadata = manifest["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
    for namespace, references in (("full", []), ("owned", [reference])):
        for number in range(count):
            revision += 1
            metadata.update(name=f"copy-{number}", namespace=namespace, uid=str(uuid.uuid4()))
            metadata.update(resourceVersion=str(revision), ownerReferences=references)
            data = msgspec.json.encode(manifest)
            yield pattern._replace(revision=revision, namespace=namespace, name=f"copy-{number}", data=data)


def prepare(server: Server) -> None:
    with Session(server.target) as session:
        for name in ("full", "owned", "probe"):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            session.ask("POST", "/api/v1/namespaces", json.dumps(namespace).encode())
        session.ask("POST", f"{_CORE}/default/configmaps", json.dumps(config_map("one")).encode())
        session.ask("POST", f"{_CORE}/owned/configmaps", json.dumps(config_map("owner")).encode())


def measure(attack: Attack, server: Server, orders: Connection) -> Line:
    client = Client(server.target)
    before = server.cpu_seconds
    _longest(orders)
    began = time.perf_counter()
    try:
        code, body = client.ask(attack)
        took = time.perf_counter() - began
        if attack.afterwards:
            while client.ask(Attack("", "GET", attack.afterwards))[0] != 404:
                time.sleep(0.1)
            took = time.perf_counter() - began
    finally:
        client.close()
    time.sleep(0.3)
    longest = _longest(orders)
    figure = _shown(longest)
    note = f"{code} after {took:.2f} s, {server.cpu_seconds - before:.1f} s of CPU"
    tell(f"{attack.what}: {figure}; {note}" + (f": {body[:300].decode(errors='replace')}" if code >= 400 else ""))
    return Line(
        f"{attack.what} ({note})", figure, "under 200 ms", longest.loop_seconds < GOAL_SECONDS, server.memory_mb
    )


def lines(scale: int, only: str = "") -> list[Line]:
    """The table: the longest wait of another client during each."""
    with scratch() as directory:
        state = directory / "state"
        with fairway(state, jobs=True) as server:
            prepare(server)
        fill(server.database, OBJECTS // scale)
        with fairway(state, jobs=True) as server, _second_client(server.target, server.pid) as orders:
            time.sleep(2)
            _longest(orders)
            time.sleep(2)
            found = [Line("nothing else", _shown(_longest(orders)), "", None, server.memory_mb)]
            tell(f"nothing else: {found[0].figure}")
            found += [measure(attack, server, orders) for attack in attacks() if only in attack.what]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.waits", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the objects")
    parser.add_argument("--only", default="", help="only requests with this text in their description")
    options = parser.parse_args()
    show(lines(10 if options.quick else 1, options.only), judged=not options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
