"""`fairway controller --admission=none` on kube-apiserver: definitions, webhooks, numbers, and pods at once."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tools.cluster.apiserver import ApiServer

from fairway.apis.registry import default_registry
from fairway.server.crds import definitions, service_client

from .controllers import Controller, Kubectl, define, eventually, managed_job, namespace


@pytest.fixture(scope="module")
def admission() -> str:
    return "none"


def phase(k: Kubectl, name: str, place: str) -> str:
    return k("get", "mj", name, "-n", place, "-o", "jsonpath={.status.phase}")


def ids(k: Kubectl, place: str) -> list[int]:
    items = json.loads(k("get", "mj", "-n", place, "-o", "json"))["items"]
    return sorted(item["spec"]["id"] for item in items)


def test_kube_apiserver_establishes_all_definitions_with_structural_schemas(
    fresh_apiserver: ApiServer, kubectl: Callable[[Path], Kubectl]
) -> None:
    k = kubectl(fresh_apiserver.kubeconfig)
    define(k, "fairway")
    for item in definitions("fairway", service_client("fairway-system")):
        stored = json.loads(k("get", "crd", item["metadata"]["name"], "-o", "json"))
        conditions = {one["type"]: one["status"] for one in stored["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}, "no NonStructuralSchema"
    assert "The LocalQueue that the job waits in" in k("explain", "managedjob.spec.queue")


def test_a_job_gets_its_number_user_and_pods_at_once(running: Controller, k: Kubectl, unique: str) -> None:
    k("create", "-f", "-", given=json.dumps(namespace(unique)))
    k("create", "-f", "-", given=managed_job("train-", unique))
    k("create", "--dry-run=server", "-f", "-", given=managed_job("train-", unique))
    k("create", "-f", "-", given=managed_job("train-", unique))
    first, second = ids(k, unique)
    assert second == first + 1, "a dry run uses up no number"
    eventually(lambda: phase(k, f"train-{first}", unique), "STARTING")

    def owners() -> list[str]:
        """Pods are refused, and tried again, until the new namespace has its service account."""
        pods = json.loads(k("get", "pods", "-n", unique, "-o", "json"))["items"]
        return [pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods]

    eventually(owners, ["ManagedJob", "ManagedJob"])


def test_what_the_rules_refuse_is_refused_with_the_field(running: Controller, k: Kubectl, unique: str) -> None:
    k("create", "-f", "-", given=json.dumps(namespace(unique)))
    with pytest.raises(AssertionError, match=r"spec.tasks.*a job has at least one task"):
        k("create", "-f", "-", given=managed_job("empty", unique, tasks=[]))
    k("create", "-f", "-", given=managed_job("kept", unique))
    with pytest.raises(AssertionError, match=r"spec.name.*immutable"):
        k("patch", "mj", "kept", "-n", unique, "--type=merge", "-p", '{"spec": {"name": "other"}}')


def test_a_held_job_starts_when_it_is_released(running: Controller, k: Kubectl, unique: str) -> None:
    k("create", "-f", "-", given=json.dumps(namespace(unique)))
    k("create", "-f", "-", given=managed_job("held", unique, hold=True))
    eventually(lambda: k("get", "mj", "held", "-n", unique, "-o", "jsonpath={.status.reason}"), "Held")
    assert k("get", "pods", "-n", unique, "-o", "name") == ""
    k("patch", "mj", "held", "-n", unique, "--type=merge", "-p", '{"spec": {"hold": false}}')
    eventually(lambda: phase(k, "held", unique), "STARTING")


def test_numbers_are_unique_over_changes_of_the_leader(
    running: Controller, api: ApiServer, k: Kubectl, unique: str, tmp_path: Path
) -> None:
    """Three processes in a row on one address: each is killed while jobs are created."""
    k("create", "-f", "-", given=json.dumps(namespace(unique)))
    port = running.url.rpartition(":")[2]

    def launch(number: int) -> None:
        while True:
            try:
                k("create", "-f", "-", given=managed_job(f"many{number}-", unique))
            except AssertionError as refused:
                if "webhook" not in str(refused):
                    raise
                time.sleep(0.5)  # nobody leads
            else:
                return

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(launch, number) for number in range(24)]
        processes = [running]
        for _ in range(2):
            eventually(lambda: len(ids(k, unique)) > 5 * len(processes))
            processes[-1].kill()
            processes.append(Controller(api.kubeconfig, running.state, "none", f"--port={port}").lead())
        for one in waiting:
            one.result()
    try:
        found = ids(k, unique)
        assert len(found) == len(set(found)) == 24
    finally:
        processes[-1].stop()


def test_the_registry_of_one_machine_has_what_is_installed() -> None:
    named = {kind.resource for kind in default_registry().kinds}
    assert {one["metadata"]["name"] for one in definitions("fairway", service_client("x"))} <= named
