"""The aggregated API on kube-apiserver: why jobs wait, for users by RBAC, and for nobody beside kube-apiserver."""

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tools.cluster.apiserver import ApiServer
from tools.cluster.certificates import Pair

from fairway.deploy.manifests import Installation
from fairway.deploy.names import SERVICE
from fairway.installing import installation_objects

from .controllers import Controller, Kubectl, controller, eventually, listed, managed_job, namespace

_HOOKS = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
QUEUES = [
    {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}},
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "small"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
                }
            ],
        },
    },
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("aggregated"), controllers=True) as running:
        yield running


@pytest.fixture
def k(api: ApiServer, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(api.kubeconfig)


@pytest.fixture
def running(api: ApiServer, k: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    monkeypatch.setenv("POD_NAME", "outside")  # the certificate of the Secret; there is no such pod to label
    with controller(api.kubeconfig, tmp_path / "state", "fairway", k) as found:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": "fairway-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        objects = installation_objects(Installation(way="fairway", image="none", version="1"))
        served = [one for one in objects if one["kind"] == "APIService"]
        hooks = [one for one in objects if one["kind"].endswith("WebhookConfiguration")]
        port = urlsplit(found.url).port
        clients = [hook["clientConfig"] for one in hooks for hook in one["webhooks"]]
        for part in (*(one["spec"] for one in served), *clients):
            part["service"]["port"] = port
        k("delete", _HOOKS, "fairway")  # those by URL: the certificate is for the Service
        k("apply", "-f", "-", given=json.dumps(listed([service, *hooks, *served])))
        bundles = "jsonpath={.items[*].webhooks[0].clientConfig.caBundle}"
        eventually(lambda: len(k("get", _HOOKS, "-o", bundles).split()), len(hooks))
        names = [one["metadata"]["name"] for one in served]
        for name in names:
            k("wait", "--for=condition=Available", f"apiservice/{name}", "--timeout=60s")
        yield found
        k("delete", "apiservice", *names)
        k("delete", _HOOKS, *{one["metadata"]["name"] for one in hooks})


def waiting(k: Kubectl, place: str, *arguments: str) -> list[str]:
    items = json.loads(k("get", "waitingjobs", "-n", place, "-o", "json", *arguments))["items"]
    return [item["owner"]["name"] for item in items]


def test_users_see_why_jobs_wait_and_only_kube_apiserver_may_ask(
    api: ApiServer, running: Controller, k: Kubectl, unique: str
) -> None:
    other = f"{unique}-other"
    queues = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "lq", "namespace": one},
            "spec": {"clusterQueue": "small"},
        }
        for one in (unique, other)
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "looker", "namespace": unique},
        "rules": [{"apiGroups": ["explain.fairway.dev"], "resources": ["waitingjobs"], "verbs": ["get", "list"]}],
    }
    k("apply", "-f", "-", given=json.dumps(listed([namespace(unique), namespace(other), *QUEUES, *queues, role])))
    k("create", "rolebinding", "looker", "--role=looker", "--user=bob", "-n", unique)
    k("create", "-f", "-", given=managed_job("first", other, queue="lq"))
    eventually(
        lambda: k("get", "workloads", "-n", other, "-o", "jsonpath={.items[*].status.admission.clusterQueue}"), "small"
    )
    k("create", "-f", "-", given=managed_job("second", unique, queue="lq"))

    eventually(lambda: waiting(k, unique), ["second"])
    assert waiting(k, unique, "--as=bob") == ["second"]
    with pytest.raises(AssertionError, match="Forbidden"):
        waiting(k, unique, "--as=eve")
    eventually(lambda: "needs 1 CPU, 0 free in any" in k("get", "waitingjobs", "-n", unique))
    name = k("get", "waitingjobs", "-n", unique, "-o", "jsonpath={.items[0].metadata.name}")
    whole = json.loads(k("get", "waitingjob", name, "-n", unique, "-o", "json"))
    assert whole["shortages"][0]["holders"][0]["owner"]["name"] == "first"
    hidden = json.loads(k("get", "waitingjob", name, "-n", unique, "-o", "json", "--as=bob"))
    assert hidden["shortages"][0]["holders"][0]["owner"] is None, "bob may not read the other namespace"
    queue = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{unique}/localqueues/lq/pendingworkloads"
    assert [one["metadata"]["name"] for one in json.loads(k("get", "--raw", queue))["items"]] == [name]

    assert direct(running) == 401, "headers without a certificate are not believed"
    with pytest.raises(OSError):  # noqa: PT011 - TLS ends, in words that differ
        direct(running, api.plane.admin)


def direct(running: Controller, pair: Pair | None = None) -> int:
    """The status of a request that passes kube-apiserver by and claims to be an administrator's."""
    tls = ssl._create_unverified_context()  # noqa: S323 - the client is under test, not the server
    if pair is not None:
        tls.load_cert_chain(pair.certificate, pair.key)
    at = urlsplit(running.url)
    with closing(HTTPSConnection(at.hostname or "", at.port, context=tls, timeout=30)) as connection:
        headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        connection.request("GET", "/apis/explain.fairway.dev/v1alpha1/waitingjobs", headers=headers)
        return connection.getresponse().status
