"""Ask a real API server what it makes of a table of manifests, and keep its answers for the tests.

    python tools/kinds/record.py --server https://127.0.0.1:6443 --token TOKEN [--only pods]

Each file in `tools/kinds/cases` has the place of a kind, a `base` manifest and `cases`. A case is made by merging
`with` into the base (null removes a field) and creating it; `then` is a list of further steps, each a merge into what
the server last answered: `update` puts the object, `status` puts its status, `delete` deletes it (it should have a
finalizer). `table: true` also asks for the row that `kubectl get` shows.

What is kept, in `tests/apis/core/data`: what was sent, and either the object that came back or the causes of the
refusal, as pairs of reason and field. What differs each time (uid, revision, field managers) is replaced or left out;
sentences are not kept. The server needs no controllers, and its ServiceAccount admission switched off; everything
that was created is deleted again.
"""

import argparse
import copy
import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

_HERE: Final = Path(__file__).parent
_ANSWERS: Final = _HERE.parents[1] / "tests" / "apis" / "core" / "data"
_NAMESPACE: Final = "kinds-recorded"
_UID: Final = "00000000-0000-4000-8000-000000000001"
_TIME: Final = "2026-01-01T00:00:00Z"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_CHANGING: Final = ("managedFields", "resourceVersion", "selfLink")
_GROUPS: Final = (
    "api/v1",
    "apis/batch/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/node.k8s.io/v1",
)


class Server:
    """The few requests that are needed, as JSON."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def ask(self, verb: str, path: str, body: Any = None, accept: str = "application/json") -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310  the address is the operator's own
            f"{self._address}/{path}",
            method=verb,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "Accept": accept,
            },
        )
        try:
            with urllib.request.urlopen(request, context=self._context) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)


class Case:
    """One object, from its creation until it is gone again."""

    def __init__(self, server: Server, table: dict[str, Any], case: dict[str, Any]) -> None:
        self._server = server
        self._case = case
        self._manifest = merged(table["base"], case.get("with", {}))
        scope = f"/namespaces/{_NAMESPACE}" if table.get("namespaced", True) else ""
        self._collection = f"{table['path']}{scope}/{table['plural']}"
        self._steps: list[dict[str, Any]] = []
        self._last: dict[str, Any] = {}

    def record(self) -> dict[str, Any]:
        created = self._step("create", "POST", self._collection, copy.deepcopy(self._manifest))
        try:
            for step in self._case.get("then", ()) if created else ():
                self._further(step)
            recorded: dict[str, Any] = {"name": self._case["name"], "steps": self._steps}
            if self._case.get("table"):
                recorded["table"] = self._row()
        finally:
            self._remove()
        return recorded

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._last['metadata']['name']}"

    def _further(self, step: dict[str, Any]) -> None:
        ((verb, patch),) = step.items()
        if verb == "delete":
            self._server.ask("DELETE", self._path)
            _, self._last = self._server.ask("GET", self._path)
            self._steps.append({"verb": "delete", "object": normal(self._last)})
            return
        door = {"update": self._path, "status": f"{self._path}/status"}[verb]
        body = merged(self._last, patch)
        body["metadata"].pop("managedFields", None)
        self._step(verb, "PUT", door, body)

    def _step(self, verb: str, method: str, path: str, body: dict[str, Any]) -> bool:
        code, answer = self._server.ask(method, path, body)
        step: dict[str, Any] = {"verb": verb, "sent": normal(body)}
        if code < 400:
            self._last = answer
            step["object"] = normal(answer)
        else:
            step["code"] = code
            causes = (answer.get("details") or {}).get("causes") or ()
            step["causes"] = sorted({(cause["reason"], cause.get("field", "")) for cause in causes})
            if not causes:
                sys.stderr.write(f"{self._case['name']}: {code} {answer.get('message')}\n")
        self._steps.append(step)
        return code < 400

    def _row(self) -> dict[str, Any]:
        asked = datetime.now(UTC)
        _, table = self._server.ask("GET", self._path, accept=_TABLE)
        answered = datetime.now(UTC)
        _, shown = self._server.ask("GET", self._path)
        kept = normal(shown, times=True)
        return {
            "asked": asked.isoformat(),
            "answered": answered.isoformat(),
            "object": kept,
            "columns": [
                {field: column[field] for field in ("name", "type", "format", "priority")}
                for column in table["columnDefinitions"]
            ],
            "cells": [plain(cell, shown["metadata"]["uid"]) for cell in table["rows"][0]["cells"]],
        }

    def _remove(self) -> None:
        if not self._last:
            return
        _, found = self._server.ask("GET", self._path)
        if found.get("kind") == "Status":
            return
        if found["metadata"].pop("finalizers", None):
            self._server.ask("PUT", self._path, found)
        self._server.ask("DELETE", f"{self._path}?gracePeriodSeconds=0&propagationPolicy=Background")
        if found["kind"] == "Namespace":
            finalize(self._server, found["metadata"]["name"])


def finalize(server: Server, namespace: str) -> None:
    """Let a deleted namespace go, for which a cluster has a controller."""
    path = f"api/v1/namespaces/{namespace}"
    _, found = server.ask("GET", path)
    found["spec"]["finalizers"] = []
    server.ask("PUT", f"{path}/finalize", found)


def merged(target: Any, patch: Any) -> Any:
    """The target after a JSON merge patch; neither is changed."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(copy.deepcopy(target)) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def normal(manifest: dict[str, Any], *, times: bool = False) -> dict[str, Any]:
    """The manifest without what differs each time."""
    uid = (manifest.get("metadata") or {}).get("uid")
    result: dict[str, Any] = plain(copy.deepcopy(manifest), uid)
    metadata = result.get("metadata") or {}
    for field in _CHANGING:
        metadata.pop(field, None)
    for field in () if times else ("creationTimestamp", "deletionTimestamp"):
        if metadata.get(field):
            metadata[field] = _TIME
    return result


def plain(value: Any, uid: str | None) -> Any:
    """The same with the object's own uid replaced, wherever it stands."""
    if isinstance(value, dict):
        return {key: plain(part, uid) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part, uid) for part in value]
    return value.replace(uid, _UID) if uid and isinstance(value, str) else value


def discovery(server: Server) -> Iterator[dict[str, Any]]:
    """How the server names the kinds of the groups that are recorded."""
    for group in _GROUPS:
        _, listed = server.ask("GET", group)
        for resource in listed["resources"]:
            yield {
                "groupVersion": listed["groupVersion"],
                **{field: resource.get(field) for field in ("name", "singularName", "namespaced", "kind")},
                **{field: resource.get(field, []) for field in ("shortNames", "categories")},
            }


def write(name: str, content: list[Any]) -> None:
    _ANSWERS.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False, sort_keys=True) for one in content)
    (_ANSWERS / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the address, such as https://127.0.0.1:6443")
    parser.add_argument("--token", required=True, help="a bearer token of an administrator")
    parser.add_argument("--only", default="", help="record only the cases of this file (without .yaml)")
    arguments = parser.parse_args()
    server = Server(arguments.server, arguments.token)
    server.ask("POST", "api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    for file in sorted((_HERE / "cases").glob("*.yaml")):
        if arguments.only not in ("", file.stem):
            continue
        table = yaml.safe_load(file.read_text())
        write(file.stem, [Case(server, table, case).record() for case in table["cases"]])
        sys.stdout.write(f"{file.stem}: {len(table['cases'])} cases\n")
    write("discovery", list(discovery(server)))
    server.ask("DELETE", f"api/v1/namespaces/{_NAMESPACE}")
    finalize(server, _NAMESPACE)


if __name__ == "__main__":
    main()
