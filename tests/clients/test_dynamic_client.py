"""The dynamic client of the official Python library: it knows only what discovery tells it."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

from fairway.testing.servers import Server

from . import official
from .hand import Hand
from .manifests import V1BETA2, cluster_queue, config, job, local_queue, workload


@pytest.fixture
def dynamic(server: Server) -> Iterator[Any]:
    client = official.config.new_client_from_config(str(server.kubeconfig))
    yield official.dynamic.DynamicClient(client)
    client.close()


def test_discovery_finds_kinds_by_name_and_version(dynamic: Any) -> None:
    queues = dynamic.resources.get(api_version=V1BETA2, kind="ClusterQueue")
    jobs = dynamic.resources.get(kind="Job")

    assert (queues.name, queues.namespaced, queues.short_names) == ("clusterqueues", False, ["cq"])
    assert (jobs.group_version, jobs.namespaced) == ("batch/v1", True)
    assert "status" in queues.subresources
    with pytest.raises(ResourceNotFoundError):
        dynamic.resources.get(api_version="certificates.k8s.io/v1", kind="CertificateSigningRequest")


def test_a_queue_from_its_creation_to_its_end(dynamic: Any, namespace: str) -> None:
    queues = dynamic.resources.get(api_version=V1BETA2, kind="LocalQueue")

    made = queues.create(body=local_queue("mine", "shared"), namespace=namespace)
    assert made.spec.clusterQueue == "shared"
    assert [one.metadata.name for one in queues.get(namespace=namespace).items] == ["mine"]

    status = local_queue("mine", "shared") | {"status": {"pendingWorkloads": 5}}
    status["metadata"]["resourceVersion"] = made.metadata.resourceVersion
    assert queues.status.replace(body=status, namespace=namespace).status.pendingWorkloads == 5

    queues.delete(name="mine", namespace=namespace)
    with pytest.raises(NotFoundError):
        queues.get(name="mine", namespace=namespace)


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        pytest.param("application/strategic-merge-patch+json", {"spec": {"parallelism": 2}}, id="strategic"),
        pytest.param("application/merge-patch+json", {"spec": {"parallelism": 2}}, id="merge"),
        pytest.param(
            "application/json-patch+json", [{"op": "replace", "path": "/spec/parallelism", "value": 2}], id="json"
        ),
    ],
)
def test_patches(dynamic: Any, hand: Hand, namespace: str, content_type: str, patch: Any) -> None:
    hand.make(job("j", parallelism=1, suspend=True))
    jobs = dynamic.resources.get(api_version="batch/v1", kind="Job")

    patched = jobs.patch(name="j", namespace=namespace, body=patch, content_type=content_type)

    assert patched.spec.parallelism == 2


def test_server_side_apply(dynamic: Any, namespace: str) -> None:
    configs = dynamic.resources.get(api_version="v1", kind="ConfigMap")

    def apply(data: dict[str, str], manager: str, *, force: bool = False) -> Any:
        return dynamic.server_side_apply(
            configs, body=config("c", data), namespace=namespace, field_manager=manager, force_conflicts=force or None
        )

    apply({"a": "1"}, "one")
    with pytest.raises(ConflictError) as conflict:
        apply({"a": "2"}, "two")
    taken = apply({"a": "2"}, "two", force=True)

    assert 'conflict with \\"one\\": .data.a' in (conflict.value.body or "")
    assert dict(taken.data) == {"a": "2"}
    assert [one.manager for one in taken.metadata.managedFields] == ["two"]


def test_a_watch_follows_what_happens(dynamic: Any, hand: Hand, namespace: str) -> None:
    workloads = dynamic.resources.get(api_version=V1BETA2, kind="Workload")
    hand.make(workload("a"))
    since = workloads.get(namespace=namespace).metadata.resourceVersion
    hand.make(workload("b"))
    hand.change(workload("a"), {"metadata": {"labels": {"x": "y"}}})
    hand.remove(workload("b"))

    seen = []
    for event in workloads.watch(namespace=namespace, resource_version=since, timeout=60):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            break

    assert seen == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_collections_are_deleted_by_label(dynamic: Any, hand: Hand, namespace: str) -> None:
    hand.make(config("a", labels={"go": "yes"}), config("b"), config("c", labels={"go": "yes"}))
    configs = dynamic.resources.get(api_version="v1", kind="ConfigMap")

    configs.delete(namespace=namespace, label_selector="go=yes")

    assert [one.metadata.name for one in configs.get(namespace=namespace).items] == ["b"]


def test_a_dry_run_changes_nothing(dynamic: Any, namespace: str) -> None:
    queues = dynamic.resources.get(api_version=V1BETA2, kind="ClusterQueue")

    shown = queues.create(body=cluster_queue(namespace), dry_run="All")

    assert shown.spec.queueingStrategy == "BestEffortFIFO"
    with pytest.raises(NotFoundError):
        queues.get(name=namespace)
