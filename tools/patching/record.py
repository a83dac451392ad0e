"""Record what a real API server makes of patches and of ownership, for `tests/patching` to replay.

    python tools/patching/record.py https://127.0.0.1:6443 TOKEN

plays `scenarios.SCENARIOS` and `strategic_cases.CASES` in a namespace of its own, which is deleted afterwards, and
writes `tests/patching/data/scenarios.json` and `strategic.json`. The server needs Kueue's CRDs, without its webhooks.

The scenarios run side by side, all first steps, then all second steps, with a second in between: a time stamp has
whole seconds and decides the order of managers, so that no two steps of a scenario may have the same. In the record,
the time of a step is its number. Fields that admission plugins fill in behind the back of ownership are left out.
"""

import copy
import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from scenarios import KINDS, SCENARIOS, KindPaths, Scenario, Step
from strategic_cases import CASES, TEMPLATE

_DATA = Path(__file__).parents[2] / "tests" / "patching" / "data"
_NAMESPACE = "patching-record"
_NAMESPACE_OBJECT = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
_CONTENT_TYPES = {
    "apply": "application/apply-patch+yaml",
    "create": "application/json",
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "update": "application/json",
}
_BY_ADMISSION = {"Pod": {"spec": ["priority", "preemptionPolicy", "tolerations"]}, "Node": {"spec": ["taints"]}}

Json = dict[str, Any]


class Server:
    """The few calls that a recording needs."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Json:
        request = urllib.request.Request(  # noqa: S310 - the address is the caller's
            self._address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": content_type},
        )
        try:
            with urllib.request.urlopen(request, context=self._tls) as answer:  # noqa: S310
                result: Json = json.load(answer)
        except urllib.error.HTTPError as error:
            result = json.load(error)
        return result


def main() -> None:
    server = Server(*sys.argv[1:3])
    _remove_namespace(server)
    server.call("POST", "/api/v1/namespaces", _NAMESPACE_OBJECT)
    _DATA.mkdir(parents=True, exist_ok=True)
    (_DATA / "strategic.json").write_text(_written(_strategic(server)))
    (_DATA / "scenarios.json").write_text(_written(_scenarios(server)))
    _remove_namespace(server)


def _written(records: list[Json]) -> str:
    """One record a line, so that a new recording shows what changed."""
    lines = (json.dumps(record, separators=(",", ":"), sort_keys=True) for record in records)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _remove_namespace(server: Server) -> None:
    """Without waiting for a controller manager, which a server that is only asked for answers may not have."""
    path = f"/api/v1/namespaces/{_NAMESPACE}"
    server.call("DELETE", path)
    server.call("PUT", f"{path}/finalize", _NAMESPACE_OBJECT)


def _scenarios(server: Server) -> list[Json]:
    records: list[Json] = [
        {"name": scenario.name, "kind": scenario.kind, "definition": KINDS[scenario.kind].definition,
         "status": KINDS[scenario.kind].status, "steps": []}
        for scenario in SCENARIOS
    ]  # fmt: skip
    for number, scenario in enumerate(SCENARIOS):
        _removed(server, _path(scenario, number), force=True)
    for round_number in range(max(len(scenario.steps) for scenario in SCENARIOS)):
        time.sleep(1.2)
        for number, (scenario, record) in enumerate(zip(SCENARIOS, records, strict=True)):
            if round_number < len(scenario.steps):
                record["steps"].append(_played(server, scenario.steps[round_number], KINDS[scenario.kind], number))
    for number, (scenario, record) in enumerate(zip(SCENARIOS, records, strict=True)):
        _removed(server, _path(scenario, number), force=True)
        _renumber_times(record["steps"])
    return records


def _path(scenario: Scenario, number: int) -> str:
    return f"{KINDS[scenario.kind].collection.format(ns=_NAMESPACE)}/s{number}"


def _removed(server: Server, path: str, *, force: bool) -> None:
    if force:
        server.call("PATCH", path, {"metadata": {"finalizers": None}}, _CONTENT_TYPES["merge"])
    server.call("DELETE", f"{path}?gracePeriodSeconds=0")


def _played(server: Server, step: Step, kind: KindPaths, number: int) -> Json:
    collection = kind.collection.format(ns=_NAMESPACE)
    path = f"{collection}/s{number}" + (f"/{step.subresource}" if step.subresource else "")
    body = copy.deepcopy(step.body)
    query = f"?fieldManager={step.manager}"
    if step.verb in {"create", "apply"}:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        body["metadata"] = {**body.get("metadata", {}), "name": f"s{number}"}
    if step.verb == "create":
        answer = server.call("POST", collection + query, body)
    elif step.verb == "update":
        live = server.call("GET", path)
        answer = server.call("PUT", path + query, _merged(live, body))
    else:
        query += "&force=true" if step.force else ""
        answer = server.call("PATCH", path + query, body, _CONTENT_TYPES[step.verb])
    if answer["kind"] != "Status":
        for part, fields in _BY_ADMISSION.get(kind.kind, {}).items():
            for field in fields:
                if field not in step.body.get(part, {}):
                    answer.get(part, {}).pop(field, None)
    return {
        "verb": step.verb, "manager": step.manager, "subresource": step.subresource, "force": step.force,
        "body": body, "answer": answer,
    }  # fmt: skip


def _merged(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result


def _renumber_times(steps: list[Json]) -> None:
    """Give each step's time stamps the number of the step that wrote them first."""
    numbered: dict[str, str] = {}
    for number, step in enumerate(steps):
        for entry in step["answer"].get("metadata", {}).get("managedFields", []):
            if entry.get("time"):
                entry["time"] = numbered.setdefault(entry["time"], f"2026-01-01T00:00:{number:02}Z")


def _strategic(server: Server) -> list[Json]:
    collection = f"/api/v1/namespaces/{_NAMESPACE}/podtemplates"
    records = []
    for name, patch in CASES.items():
        _removed(server, f"{collection}/t", force=False)
        fresh = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": TEMPLATE}
        original = server.call("POST", collection, fresh)
        answer = server.call("PATCH", f"{collection}/t", patch, _CONTENT_TYPES["strategic"])
        record = {"name": name, "original": original["template"], "patch": patch}
        if answer["kind"] == "Status":
            record["refused"] = {"code": answer["code"], "message": answer["message"]}
        else:
            record["result"] = answer["template"]
        records.append(record)
    _removed(server, f"{collection}/t", force=False)
    return records


if __name__ == "__main__":
    main()
