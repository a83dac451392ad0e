"""`fairway controller` on a real kube-apiserver: one leads, whatever is killed, suspended, restarted or lost."""

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.apiserver import ApiServer

from cluster.faultyproxy import Faults, FaultyProxy

from .controllers import Controller, Kubectl, define, eventually, listed, managed_job, namespace

KILLS = int(os.environ.get("FAIRWAY_KILLS", "3"))
LEASE = ("get", "lease", "fairway-controller", "-n", "fairway-system", "-o")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("leadership"), controllers=True) as running:
        yield running


@pytest.fixture
def k(api: ApiServer, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    run = kubectl(api.kubeconfig)
    define(run, "none")
    return run


class Jobs:
    """ManagedJobs in a namespace, with numbers of their own."""

    def __init__(self, k: Kubectl, place: str) -> None:
        self._k = k
        self._place = place
        self.count = 0
        k("create", "-f", "-", given=json.dumps(namespace(place)))

    def launch(self, count: int = 1) -> None:
        numbers = range(self.count + 1, self.count + count + 1)
        items = [json.loads(managed_job(f"job-{n}", self._place, id=n, user="tester")) for n in numbers]
        self._k("create", "-f", "-", given=json.dumps(listed(items)))
        self.count += count

    def pods(self) -> Counter[str]:
        """How many pods each job has."""
        items = json.loads(self._k("get", "pods", "-n", self._place, "-o", "json"))["items"]
        return Counter(pod["metadata"]["ownerReferences"][0]["name"] for pod in items)

    def all_started(self) -> None:
        """Wait until every job has its pod; no job has two."""
        eventually(lambda: set(self.pods().values()) == {1} and len(self.pods()) == self.count)


@contextmanager
def processes() -> Iterator[list[Controller]]:
    started: list[Controller] = []
    try:
        yield started
    finally:
        for one in started:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGCONT)
            one.stop()


def test_a_standby_leads_within_ten_seconds_of_each_sigkill(
    api: ApiServer, k: Kubectl, unique: str, tmp_path: Path
) -> None:
    """The processes share no state directory, as pods of a Deployment do not."""
    jobs, took = Jobs(k, unique), []
    with processes() as started:
        started.append(Controller(api.kubeconfig, tmp_path / "0", "none").lead())
        for number in range(1, KILLS + 1):
            started.append(Controller(api.kubeconfig, tmp_path / str(number), "none"))
            eventually(lambda: "health endpoint" in started[-1].log.read_text())
            time.sleep(2)  # it has to have seen the Lease of the leader
            jobs.launch(3)
            started[-2].kill()
            killed = time.monotonic()
            started[-1].lead()
            took.append(round(time.monotonic() - killed, 1))
            jobs.all_started()
        assert k(*LEASE, "jsonpath={.spec.leaseTransitions}") == str(KILLS)
    print("seconds from SIGKILL to the next leader:", took)  # noqa: T201
    assert max(took) <= 10.0, took


def test_a_suspended_leader_writes_nothing_when_it_wakes_up_after_another_took_over(
    api: ApiServer, k: Kubectl, unique: str, tmp_path: Path
) -> None:
    jobs = Jobs(k, unique)
    with in_front_of(api, tmp_path) as (proxy, kubeconfig), processes() as started:
        started.append(Controller(kubeconfig, tmp_path / "first", "none").lead())
        started.append(Controller(api.kubeconfig, tmp_path / "second", "none"))
        jobs.launch(2)
        jobs.all_started()
        first = started[0].process
        first.send_signal(signal.SIGSTOP)
        jobs.launch(2)
        started[1].lead()
        jobs.all_started()
        written = writes(proxy)
        first.send_signal(signal.SIGCONT)
        jobs.launch(5)
        jobs.all_started()
        eventually(lambda: "standing by" in started[0].log.read_text())
        assert writes(proxy) == written
        started[1].kill()
        jobs.launch(1)
        jobs.all_started()  # the first one leads again


def test_a_leader_goes_on_while_a_webhook_for_pods_is_down(
    fresh_apiserver: ApiServer,
    kubectl: Callable[[Path], Kubectl],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It labels its own pod, which Kueue's webhook looks at as well."""
    run = kubectl(fresh_apiserver.kubeconfig)
    define(run, "none")
    place = {"namespace": "fairway-system"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", **place}}
    spec = {"containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "leader", **place}, "spec": spec}
    run("create", "-f", "-", given=json.dumps(listed([account, pod])))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    hook: dict[str, Any] = {
        "name": "pods.example.com",
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    hook["clientConfig"] = {"url": "https://127.0.0.1:1/validate"}
    metadata = {"name": "down"}
    hooks = {"kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": [hook]}
    run("create", "-f", "-", given=json.dumps({"apiVersion": "admissionregistration.k8s.io/v1", **hooks}))
    labels = ("get", "pod", "leader", "-n", "fairway-system", "-o", r"jsonpath={.metadata.labels.fairway\.dev/leader}")
    monkeypatch.setenv("POD_NAME", "leader")
    monkeypatch.setenv("POD_NAMESPACE", "fairway-system")
    with processes() as started:
        started.append(Controller(fresh_apiserver.kubeconfig, tmp_path / "state", "none"))
        eventually(lambda: "cannot label the pod leader" in started[0].log.read_text())
        assert started[0].process.poll() is None
        assert run(*labels) == ""
        run("delete", "validatingwebhookconfiguration", "down")
        started[0].lead()
        assert run(*labels) == "true"


def test_a_restart_of_kube_apiserver_and_etcd_in_mid_run(
    fresh_apiserver: ApiServer, kubectl: Callable[[Path], Kubectl], unique: str, tmp_path: Path
) -> None:
    run = kubectl(fresh_apiserver.kubeconfig)
    define(run, "none")
    jobs = Jobs(run, unique)
    run("create", "serviceaccount", "default", "-n", unique)
    with processes() as started:
        started.append(Controller(fresh_apiserver.kubeconfig, tmp_path / "state", "none").lead())
        for name in ("kube-apiserver", "etcd", "kube-apiserver"):
            jobs.launch(10)
            fresh_apiserver.restart(name)
            back = time.monotonic()
            jobs.launch(10)
            jobs.all_started()
            took = time.monotonic() - back
            print(f"{name}: all jobs have their pods {took:.1f} s after it is back")  # noqa: T201
            assert took <= 10.0, name
        assert started[0].process.poll() is None


def test_jobs_start_once_behind_a_bad_network_and_the_server_is_not_stormed(
    api: ApiServer, k: Kubectl, unique: str, tmp_path: Path
) -> None:
    jobs = Jobs(k, unique)
    with in_front_of(api, tmp_path) as (proxy, kubeconfig), processes() as started:
        started.append(Controller(kubeconfig, tmp_path / "state", "none").lead())
        proxy.faults = Faults(refuse=0.15, lose=0.05, delay_seconds=0.05, cut_seconds=2.0, expire=0.05)
        proxy.requests.clear()
        jobs.launch(40)
        jobs.all_started()
        busy, each = proxy.busiest_second(), sum(proxy.requests.values()) / jobs.count
        proxy.requests.clear()
        time.sleep(10)
        assert set(jobs.pods().values()) == {1}
        idle = dict(proxy.requests)
    print(  # noqa: T201
        f"{busy} requests in the busiest second, {each:.1f} per job, idle {idle}, {proxy.most_connections} "
        f"connections, faults {dict(proxy.injected)}"
    )
    assert sum(proxy.injected.values()) > 20
    assert busy <= 250
    assert each <= 25
    assert sum(idle.values()) <= 400
    assert proxy.most_connections <= 64


def writes(proxy: FaultyProxy) -> int:
    """Requests that change something, besides the Lease."""
    return sum(
        count
        for request, count in proxy.requests.items()
        if not request.startswith(("GET", "WATCH", "HEAD")) and not request.endswith(" leases")
    )


@contextmanager
def in_front_of(api: ApiServer, directory: Path) -> Iterator[tuple[FaultyProxy, Path]]:
    """A proxy in a thread of its own, and the kubeconfig that leads to it."""
    proxy, started, loops = FaultyProxy(api), threading.Event(), list[asyncio.AbstractEventLoop]()
    ended = asyncio.Event()

    async def serve() -> None:
        async with proxy:
            loops.append(asyncio.get_running_loop())
            started.set()
            await ended.wait()
            await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield proxy, proxy.kubeconfig(directory / "proxied")
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(30)
