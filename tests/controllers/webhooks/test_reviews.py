"""Plugins as webhooks: AdmissionReviews say the same as direct calls, over HTTPS and with caches over HTTP, too."""

import asyncio
import base64
import copy
import http.client
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.admission.port import AdmittedBy
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.admission import (
    ALLOWED,
    AdmissionChain,
    AdmissionPlugin,
    AdmissionRequest,
    AdmissionResponse,
    UserInfo,
)
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import default_registry
from fairway.client.cluster import Cluster
from fairway.client.http import HttpClient, open_transport
from fairway.client.local import LocalClient
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.managedjob.plugin import Ids, ManagedJobAdmission, ReservedIds
from fairway.controllers.webhooks.commitment import CommitmentWarnings
from fairway.controllers.webhooks.installing import InstallManifest
from fairway.controllers.webhooks.priority_ranges import PriorityAdmission
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.errors import AlreadyExists
from fairway.manager import reviewed_resources, webhook_plugins
from fairway.runtime.clock import SystemClock
from fairway.server.admissionreview import (
    MASTERS,
    AdmissionReviews,
    json_patch_between,
    webhook_configurations,
    webhook_rules,
)
from fairway.server.certificates import own_certificate
from fairway.server.endpoint import ControllerEndpoint
from fairway.server.listening import bound_socket
from fairway.store.patching.jsonpatch import json_patch, same_json
from fairway.testing.clock import settle
from fairway.testing.clusters import local_cluster
from fairway.testing.servers import Server

from .ways import ReviewedPlugin, encoded

QUEUE = "kueue.x-k8s.io/queue-name"
JOBS_OF_USERS = "managedjobs.fairway.dev"
REGISTRY = default_registry()


def kind_of(resource: str) -> Kind:
    found = REGISTRY.by_name(resource)
    assert found is not None
    return found


def job(labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "labels": dict(labels or {})},
        "spec": {"suspend": False, "template": {"spec": {"restartPolicy": "Never", "containers": []}}, **spec},
    }


# Random objects

TEXT = st.sampled_from(["", "team", "default", "Upper", "0", "17", "system-x", "high", "a" * 70])
LABELS = st.dictionaries(
    st.sampled_from(
        [
            QUEUE,
            "kueue.x-k8s.io/priority-class",
            "kueue.x-k8s.io/max-exec-time-seconds",
            "kueue.x-k8s.io/prebuilt-workload-name",
            "kueue.x-k8s.io/pod-group-name",
            "other~/label",
        ]
    ),
    TEXT,
    max_size=4,
)
POD_SPECS = st.fixed_dictionaries(
    {"containers": st.just([{"name": "c", "image": "i"}])},
    optional={
        "priorityClassName": TEXT,
        "priority": st.integers(-3, 3),
        "schedulingGates": st.just([{"name": "mine"}]),
        "preemptionPolicy": st.sampled_from(["Never", "PreemptLowerPriority"]),
    },
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(["kueue.x-k8s.io/pod-group-total-count", "fairway.dev/earned-priority", "a/b"]), TEXT, max_size=2
)


def metadata(*, named: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda name, labels, notes: {**name, "namespace": "default", "labels": labels, "annotations": notes},
        named,
        LABELS,
        ANNOTATIONS,
    )


NAMED = metadata(named=st.just({"name": "x"}))
MAYBE_NAMED = metadata(named=st.sampled_from([{"name": "x"}, {"generateName": "x-"}]))
JOBS = st.builds(
    lambda about, spec, suspend: {"metadata": about, "spec": {"suspend": suspend, "template": {"spec": spec}}},
    NAMED,
    POD_SPECS,
    st.booleans(),
)
PODS = st.builds(lambda about, spec: {"metadata": about, "spec": spec}, NAMED, POD_SPECS)
TASKS = st.lists(
    st.fixed_dictionaries(
        {"run": st.just("true")},
        optional={"resources": st.fixed_dictionaries({"priority": st.sampled_from([5, 2000, "much"])})},
    ),
    max_size=2,
)
MANAGED = st.builds(
    lambda about, tasks, more: {"metadata": about, "spec": {"tasks": tasks, **more}},
    MAYBE_NAMED,
    TASKS,
    st.fixed_dictionaries({}, optional={"priority": st.integers(-2000, 2000), "user": TEXT, "queue": TEXT}),
)
MAPS = st.builds(
    lambda labelled, data: {
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system", "labels": labelled},
        "data": data,
    },
    st.sampled_from([{}, {"app.kubernetes.io/name": "kueue", "b": "c"}]),
    st.dictionaries(st.sampled_from(["controller_manager_config.yaml", "x"]), st.sampled_from(["", "a: [", "{}"])),
)
CLUSTER_QUEUES = st.builds(
    lambda text, amount: {
        "metadata": {"name": "q", "annotations": {"fairway.dev/priority-range": text}},
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": amount}]}],
                }
            ]
        },
    },
    st.sampled_from(["0..5", "high"]),
    st.sampled_from(["1", "500"]),
)
OBJECTS = st.one_of(
    st.tuples(st.just("jobs.batch"), JOBS),
    st.tuples(st.just("pods"), PODS),
    st.tuples(st.just("managedjobs.fairway.dev"), MANAGED),
    st.tuples(st.just("configmaps"), MAPS),
    st.tuples(st.just("clusterqueues.kueue.x-k8s.io"), CLUSTER_QUEUES),
)
USERS = st.sampled_from([UserInfo("ben"), UserInfo("ana", can_impersonate=True)])


@pytest.mark.parametrize("outside", ["Deny", "Allow"])
def test_a_review_says_the_same_as_a_direct_call(outside: str) -> None:
    async def play() -> None:
        async with local_cluster() as world:
            configuration = FixedConfiguration(Configuration(jobs_outside_queues=outside))
            plugins: list[tuple[AdmissionPlugin, ...]] = [
                (
                    PriorityAdmission(world.cluster),
                    QueueAdmission(world.cluster, configuration),
                    CommitmentWarnings(world.cluster),
                    ManagedJobAdmission(Ids(world.cluster)),
                    InstallManifest(),
                )
                for _ in range(2)
            ]
            async with world.running():
                spec = {"clusterQueue": "c"}
                queue = {"metadata": {"name": "default", "namespace": "default"}, "spec": spec}
                await world.api.create("localqueues", queue)
                capacity = {"cpu": "4", "memory": "1Gi"}
                status = {"capacity": capacity, "allocatable": capacity}
                await world.api.create("nodes", {"metadata": {"name": "n"}, "status": status})
                await settle()
                compare(AdmissionChain(*plugins[0]), AdmissionChain(*map(ReviewedPlugin, plugins[1])))

    asyncio.run(play())


def compare(direct: AdmissionChain, reviewed: AdmissionChain) -> None:
    """Plugins answer at once, so they can be asked from within a running loop."""

    @settings(max_examples=150, deadline=None)
    @given(OBJECTS, st.one_of(st.none(), OBJECTS), USERS, st.booleans())
    def both(new: tuple[str, Manifest], before: tuple[str, Manifest] | None, user: UserInfo, dry_run: bool) -> None:  # noqa: FBT001
        resource, written, kind = new[0], new[1], kind_of(new[0])
        old = before[1] if before is not None and before[0] == resource else None
        if old is not None:
            old["metadata"]["name"] = written["metadata"]["name"] = "x"
        one, other = copy.deepcopy(written), copy.deepcopy(written)
        for manifest in filter(None, (one, other, old)):
            manifest |= {"apiVersion": kind.api_version(kind.stored), "kind": kind.kind}
        said = direct.admit(AdmissionRequest(kind, one, copy.deepcopy(old), user, dry_run))
        answered = reviewed.admit(AdmissionRequest(kind, other, copy.deepcopy(old), user, dry_run))
        assert [str(error) for error in answered.errors] == [str(error) for error in said.errors]
        assert answered.warnings == said.warnings
        if not said.errors:  # what is refused is not completed
            assert other == one

    both()


@pytest.mark.parametrize(
    ("namespace", "labels", "spec", "label"),
    [
        pytest.param("default", {}, {}, "default", id="the default queue, where there is one"),
        pytest.param("other", {}, {}, None, id="none, where there is no default queue"),
        pytest.param("default", {}, {"queue": "team"}, "team", id="the queue that the job names"),
        pytest.param("other", {}, {"queue": "team"}, "team", id="the queue that the job names, without a default one"),
        pytest.param("default", {QUEUE: "mine"}, {"queue": "team"}, "mine", id="what is there stays"),
    ],
)
def test_where_kueue_admits_a_managed_job_is_labelled_with_its_queue(
    namespace: str, labels: dict[str, str], spec: Manifest, label: str | None
) -> None:
    """Kueue would queue the pods of a job without the label a second time."""

    async def play() -> None:
        async with local_cluster() as world:
            plugin = ManagedJobAdmission(Ids(world.cluster), world.cluster.cache("localqueues.kueue.x-k8s.io"))
            async with world.running():
                queue = {"metadata": {"name": "default", "namespace": "default"}, "spec": {"clusterQueue": "c"}}
                await world.api.create("localqueues", queue)
                await settle()
                job: Manifest = {
                    "metadata": {"name": "j", "namespace": namespace, "labels": dict(labels)},
                    "spec": {"name": "j", "tasks": [{"run": "true"}], **spec},
                }
                assert not plugin.admit(AdmissionRequest(kind_of(JOBS_OF_USERS), job, None, UserInfo("ben"))).errors
                assert job["metadata"]["labels"].get(QUEUE) == label

    asyncio.run(play())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "~", "/", ""]), inner),
    max_leaves=12,
)


@given(JSON, JSON)
def test_the_patch_between_two_documents_makes_one_the_other(old: Any, new: Any) -> None:
    operations = json_patch_between(old, new)
    assert same_json(json_patch(copy.deepcopy(old), operations), new)
    assert operations or same_json(old, new)


# What is not a review


class Suspending:
    resources = ("jobs.batch",)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        request.object["spec"]["suspend"] = True
        return AdmissionResponse(warnings=(f"hello {request.user.name}",))


REVIEWS = AdmissionReviews(AdmissionChain(Suspending()), REGISTRY)


def review(**request: Any) -> bytes:
    body = msgspec.json.decode(encoded(AdmissionRequest(kind_of("jobs.batch"), job(), user=UserInfo("ben"))))
    body["request"].update(request)
    return msgspec.json.encode(body)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "words"),
    [
        pytest.param("POST", "/convert", review(), 404, "there are /mutate", id="another path"),
        pytest.param("GET", "/mutate", b"", 405, "takes POST", id="another method"),
        pytest.param("POST", "/mutate", b"{", 400, "", id="no JSON"),
        pytest.param("POST", "/mutate", b"[]", 400, "not an AdmissionReview", id="no object"),
        pytest.param("POST", "/mutate", b'{"request":{}}', 400, "not an AdmissionReview", id="another kind"),
        pytest.param("POST", "/mutate/pods", review(), 400, "was sent to the path of pods", id="another resource"),
        pytest.param("POST", "/mutate", review(object=None), 400, "cannot be read", id="no object to review"),
        pytest.param("POST", "/mutate", review(resource=None), 400, "cannot be read", id="no resource"),
        pytest.param(
            "POST",
            "/mutate",
            review(object={**job(), "apiVersion": "batch/v1beta1"}),
            400,
            "with matchPolicy Equivalent",
            id="another version",
        ),
    ],
)
def test_what_cannot_be_reviewed(method: str, path: str, body: bytes, code: int, words: str) -> None:
    answered, text = REVIEWS.answer(method, path, body)
    assert answered == code
    assert words in msgspec.json.decode(text)["message"]


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"subResource": "status"}, id="a status"),
        pytest.param({"operation": "DELETE", "object": None}, id="a deletion"),
        pytest.param({"resource": {"group": "", "version": "v1", "resource": "jobs"}}, id="jobs of another group"),
        pytest.param({"resource": {"group": "x.io", "version": "v1", "resource": "ys"}}, id="a kind nobody knows"),
    ],
)
def test_what_is_nobody_s_business_is_allowed_as_it_is(request_: dict[str, Any]) -> None:
    code, body = REVIEWS.answer("POST", "/mutate", review(**request_))
    assert (code, msgspec.json.decode(body)["response"]) == (200, {"uid": "u-1", "allowed": True})


def test_administrators_are_known_by_their_groups() -> None:
    heard: list[UserInfo] = []

    class Listening:
        resources = ("jobs.batch",)

        def admit(self, request: AdmissionRequest) -> AdmissionResponse:
            heard.append(request.user)
            return ALLOWED

    reviews = AdmissionReviews(Listening(), REGISTRY, (MASTERS, "system:serviceaccount:kueue-system:kueue"))
    for info in (
        {"username": "ana", "groups": ["a", MASTERS]},
        {"username": "system:serviceaccount:kueue-system:kueue"},
        {"username": "ben", "groups": ["a"]},
    ):
        reviews.answer("POST", "/validate", review(userInfo=info))
    assert [one.can_impersonate for one in heard] == [True, True, False]
    assert heard[0].groups == ("a", MASTERS)


def test_the_configurations_name_every_resource_and_its_path() -> None:
    chain = AdmissionChain(Suspending(), InstallManifest())
    rules = webhook_rules(chain.resources, REGISTRY)
    mutating, validating = webhook_configurations(rules, {"url": "https://here:9443/", "caBundle": "Q0E="})
    assert [one["clientConfig"]["url"] for one in mutating["webhooks"]] == [
        "https://here:9443/mutate/configmaps",
        "https://here:9443/mutate/jobs.batch",
    ]
    service = {"name": "fairway", "namespace": "kueue-system"}
    by_service = webhook_configurations(rules, {"service": service})[1]
    assert by_service["webhooks"][1]["clientConfig"]["service"] == {**service, "path": "/validate/jobs.batch"}
    assert by_service["webhooks"][1]["rules"] == [
        {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]}
    ]
    assert (mutating["kind"], validating["kind"]) == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


# Over HTTPS


def test_reviews_over_https(tmp_path: Path) -> None:
    certificate = own_certificate(tmp_path / "tls", "localhost", datetime.now(UTC))

    def ask(port: int, path: str, body: bytes) -> tuple[int, bytes]:
        trust = ssl.create_default_context(cafile=str(certificate.authority))
        connection = http.client.HTTPSConnection("localhost", port, context=trust, timeout=20)
        connection.request("POST", path, headers={"Content-Length": str(len(body))})
        if len(body) < 1 << 20:  # else the answer comes before the body
            connection.send(body)
        answered = connection.getresponse()
        found = answered.status, answered.read()
        connection.close()
        return found

    async def play() -> None:
        endpoint = ControllerEndpoint("secret", lambda: b"", REGISTRY)
        with bound_socket("127.0.0.1", 0) as listening:
            server, port = await endpoint.serve(listening, certificate), listening.getsockname()[1]
            code, _ = await asyncio.to_thread(ask, port, "/mutate", review())
            assert code == 503, "before the caches are filled"
            endpoint.reviews = REVIEWS
            asked = (("/mutate/jobs.batch", review()), ("/validate", review()), ("/mutate", bytes(9 << 20)))
            answers = [await asyncio.to_thread(ask, port, path, body) for path, body in asked]
            server.close()
        assert [code for code, _ in answers] == [200, 200, 413]
        mutated, judged = (msgspec.json.decode(body)["response"] for _, body in answers[:2])
        assert mutated["warnings"] == judged["warnings"] == ["hello ben"]
        patch = msgspec.json.decode(base64.b64decode(mutated["patch"]))
        assert patch == [{"op": "replace", "path": "/spec/suspend", "value": True}]
        assert "patch" not in judged

    asyncio.run(play())


@pytest.mark.parametrize("way", AdmittedBy)
def test_the_plugins_are_asked_about_what_their_configurations_name(way: AdmittedBy) -> None:
    async def play() -> None:
        async with local_cluster() as world:
            ids = ReservedIds(world.cluster, LocalClient(world.api.objects, "ids"))
            plugins = webhook_plugins(world.cluster, FixedConfiguration(), ids, way)
            asked = {kind.resource for kind in REGISTRY.kinds if kind.resource in reviewed_resources(way)}
            assert asked <= set(plugins.resources)
            assert way is AdmittedBy.FAIRWAY or asked == {"managedjobs.fairway.dev", "quotadefinitions.fairway.dev"}

    asyncio.run(play())


def test_pods_without_a_queue_and_system_namespaces_do_not_depend_on_webhooks() -> None:
    mutating, _ = webhook_configurations(webhook_rules(reviewed_resources(AdmittedBy.FAIRWAY), REGISTRY), {"url": "u"})
    by_path = {one["clientConfig"]["url"]: one for one in mutating["webhooks"]}
    pods, jobs, managed = (by_path[f"u/mutate/{one}"] for one in ("pods", "jobs.batch", "managedjobs.fairway.dev"))
    assert pods["objectSelector"] == {"matchExpressions": [{"key": QUEUE, "operator": "Exists"}]}
    for one in (pods, jobs):
        (expression,) = one["namespaceSelector"]["matchExpressions"]
        assert expression["operator"] == "NotIn"
        assert {"kube-system", "fairway-system"} <= set(expression["values"])
    assert "reinvocationPolicy" not in managed, "a second call would draw a second number"


def test_a_plugin_knows_the_objects_of_an_api_over_http(tmp_path: Path) -> None:
    """The caches behind a webhook are informers; those of another process are filled over HTTP."""

    local_queue = {"metadata": {"name": "default", "namespace": "default"}, "spec": {"clusterQueue": "cluster-queue"}}

    async def play(server: Server) -> None:
        clock = SystemClock()
        async with asyncio.timeout(60), open_transport(server.kubeconfig, "", clock) as transport:
            cluster = Cluster(lambda manager: HttpClient(transport, clock, manager), REGISTRY, clock)
            with suppress(AlreadyExists):
                await cluster.writer("tester").create("localqueues", local_queue)
            plugin = ReviewedPlugin(QueueAdmission(cluster, FixedConfiguration()))
            following = asyncio.create_task(cluster.run())
            await cluster.synced()
            queued = job()
            assert plugin.admit(AdmissionRequest(kind_of("jobs.batch"), queued, user=UserInfo("ben"))) == ([], ())
            assert queued["spec"]["suspend"] is True
            assert queued["metadata"]["labels"][QUEUE] == "default"
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    with Server(tmp_path / "state") as server:
        asyncio.run(play(server))
