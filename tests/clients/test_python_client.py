"""The official Python client: typed calls, custom objects, watches, logs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from fairway.server.logs.entries import append
from fairway.server.logs.reading import log_path
from fairway.testing.servers import Server

from . import official
from .hand import Hand
from .manifests import KUEUE, cluster_queue, config, job, pod, workload


@pytest.fixture
def api(server: Server) -> Iterator[Any]:
    client = official.config.new_client_from_config(str(server.kubeconfig))
    yield client
    client.close()


@pytest.fixture
def core(api: Any) -> Any:
    return official.client.CoreV1Api(api)


def test_typed_objects_are_created_read_changed_and_deleted(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(
        namespace,
        official.client.V1ConfigMap(metadata=official.client.V1ObjectMeta(name="c"), data={"a": "1"}),
    )
    assert made.metadata.uid

    made.data = {"a": "2"}
    replaced = core.replace_namespaced_config_map("c", namespace, made)
    patched = core.patch_namespaced_config_map("c", namespace, {"data": {"b": "3"}})
    assert int(patched.metadata.resource_version) > int(replaced.metadata.resource_version)
    assert core.read_namespaced_config_map("c", namespace).data == {"a": "2", "b": "3"}

    with pytest.raises(ApiException) as outdated:
        core.replace_namespaced_config_map("c", namespace, made)
    assert (outdated.value.status, outdated.value.reason) == (409, "Conflict")

    core.delete_namespaced_config_map("c", namespace)
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_config_map("c", namespace)
    assert gone.value.status == 404


def test_pods_come_with_defaults_status_and_selectors(core: Any, namespace: str) -> None:
    for name, team in (("a", "red"), ("b", "blue")):
        core.create_namespaced_pod(namespace, pod(name, labels={"team": team}))
    core.patch_namespaced_pod_status("b", namespace, {"status": {"phase": "Running"}})

    running = core.list_namespaced_pod(namespace, field_selector="status.phase=Running")
    red = core.list_namespaced_pod(namespace, label_selector="team=red")
    first = core.list_namespaced_pod(namespace, limit=1)
    rest = core.list_namespaced_pod(namespace, limit=1, _continue=first.metadata._continue)

    assert [one.metadata.name for one in running.items] == ["b"]
    assert [(one.metadata.name, one.spec.restart_policy) for one in red.items] == [("a", "Always")]
    assert [one.metadata.name for one in first.items + rest.items] == ["a", "b"]
    assert first.metadata.remaining_item_count == 1


def test_jobs_are_suspended_and_deleted_with_their_pods(api: Any, core: Any, namespace: str) -> None:
    batch = official.client.BatchV1Api(api)
    made = batch.create_namespaced_job(namespace, job("j", parallelism=2))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": made.metadata.uid, "controller": True}
    core.create_namespaced_pod(namespace, pod("j-0", ownerReferences=[owner]))

    batch.patch_namespaced_job("j", namespace, {"spec": {"suspend": True}})
    assert batch.read_namespaced_job("j", namespace).spec.suspend is True

    since = core.list_namespaced_pod(namespace).metadata.resource_version
    batch.delete_namespaced_job("j", namespace, propagation_policy="Background")
    events = official.watch.Watch().stream(
        core.list_namespaced_pod, namespace, resource_version=since, timeout_seconds=60
    )
    assert next(event["object"].metadata.name for event in events if event["type"] == "DELETED") == "j-0"


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_kueues_kinds_are_custom_objects(api: Any, namespace: str, version: str) -> None:
    custom = official.client.CustomObjectsApi(api)
    queue = cluster_queue(namespace, cpu="4")
    queue["apiVersion"] = f"{KUEUE}/{version}"

    custom.create_cluster_custom_object(KUEUE, version, "clusterqueues", queue)
    custom.patch_cluster_custom_object(KUEUE, version, "clusterqueues", namespace, {"spec": {"stopPolicy": "Hold"}})
    status = {"status": {"pendingWorkloads": 3}}
    custom.patch_cluster_custom_object_status(KUEUE, version, "clusterqueues", namespace, status)

    found = custom.get_cluster_custom_object(KUEUE, version, "clusterqueues", namespace)
    assert found["apiVersion"] == f"{KUEUE}/{version}"
    assert (found["spec"]["stopPolicy"], found["status"]["pendingWorkloads"]) == ("Hold", 3)
    custom.delete_cluster_custom_object(KUEUE, version, "clusterqueues", namespace)
    with pytest.raises(ApiException) as gone:
        custom.get_cluster_custom_object(KUEUE, version, "clusterqueues", namespace)
    assert gone.value.status == 404


def test_workloads_are_listed_in_a_namespace(api: Any, hand: Hand, namespace: str) -> None:
    hand.make(workload("a"), workload("b"))
    custom = official.client.CustomObjectsApi(api)

    listed = custom.list_namespaced_custom_object(KUEUE, "v1beta2", namespace, "workloads")

    assert listed["kind"] == "WorkloadList"
    assert [one["metadata"]["name"] for one in listed["items"]] == ["a", "b"]


def test_a_watch_resumes_where_it_was_left(core: Any, hand: Hand, namespace: str) -> None:
    hand.make(config("a"))
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    hand.make(config("b"), config("c"))
    hand.change(config("b"), {"data": {"x": "1"}})
    seen = []

    watch = official.watch.Watch()
    for event in watch.stream(core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=60):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            watch.stop()
    hand.remove(config("c"))
    again = official.watch.Watch().stream(
        core.list_namespaced_config_map, namespace, resource_version=watch.resource_version, timeout_seconds=60
    )
    for event in again:
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 4:
            break

    assert seen == [("ADDED", "b"), ("ADDED", "c"), ("MODIFIED", "b"), ("DELETED", "c")]


def test_a_watch_ends_after_its_time(core: Any, hand: Hand, namespace: str) -> None:
    hand.make(config("a"))

    events = list(official.watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=1))

    assert [(event["type"], event["object"].metadata.name) for event in events] == [("ADDED", "a")]


def test_errors_carry_the_status(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(namespace, {"metadata": {"name": "p"}, "spec": {"containers": []}})

    assert refused.value.status == 422
    status = json.loads(refused.value.body or "")
    assert (status["kind"], status["reason"]) == ("Status", "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.containers"]


def test_logs_are_read_and_followed(core: Any, server: Server, namespace: str) -> None:
    manifest = pod("web")
    manifest["spec"]["nodeName"] = "here"
    made = core.create_namespaced_pod(namespace, manifest)
    ended = {"name": "main", "restartCount": 0, "ready": False, "image": "", "imageID": ""}
    status = {"phase": "Succeeded", "containerStatuses": [{**ended, "state": {"terminated": {"exitCode": 0}}}]}
    core.patch_namespaced_pod_status("web", namespace, {"status": status})
    file = log_path(server.state, namespace, made.metadata.uid, "main", 0)
    append(file, 1_794_818_000_000_000_000, "stdout", b"one")
    append(file, 1_794_818_001_000_000_000, "stdout", b"two")

    assert core.read_namespaced_pod_log("web", namespace) == "one\ntwo\n"
    assert core.read_namespaced_pod_log("web", namespace, tail_lines=1) == "two\n"
    lines = official.watch.Watch().stream(core.read_namespaced_pod_log, "web", namespace)
    assert list(lines) == ["one", "two"]


def test_versions_and_reviews(api: Any) -> None:
    assert official.client.VersionApi(api).get_code().major == "1"
    review = official.client.AuthenticationV1Api(api).create_self_subject_review(official.client.V1SelfSubjectReview())
    assert review.status.user_info.username == "admin"
