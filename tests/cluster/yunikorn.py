"""A real YuniKorn for tests: organizations that Fairway defines there, their jobs, and what YuniKorn says of them."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fairway.apis.machinery.kind import Manifest

from .commands import Commands
from .controllers import eventually
from .installation import Kubectl

APPLICATION = "yunikorn.apache.org/app-id"
TYPES = ["batch", "pod", "managed", "ray"]
QUICK = {"properties": {"preemption.delay": "1s"}}
"""YuniKorn waits 30 s before it preempts."""

ORGANIZATIONS: list[Manifest] = [
    {
        "name": "web",
        "namespace": "yk-web",
        "guaranteed": {"cpu": 4, "memory": "8Gi"},
        "types": TYPES,
        "submit": {"users": ["ana", "admin"]},
        "limits": [{"users": ["bo"], "maximum": {"cpu": 1}}],
    },
    {
        "name": "ml",
        "guaranteed": {"cpu": 4, "memory": "8Gi"},
        "types": TYPES,
        "submit": {"users": ["ana", "admin"]},
        "teams": [
            {"name": "vision", "guaranteed": {"cpu": 2, "memory": "4Gi"}, "yunikorn": QUICK},
            {"name": "speech", "guaranteed": {"cpu": 2, "memory": "4Gi"}, "yunikorn": QUICK},
        ],
    },
]
DEFINITION: Manifest = {
    "apiVersion": "fairway.dev/v1alpha1",
    "kind": "QuotaDefinition",
    "metadata": {"name": "company"},
    "spec": {"targets": ["yunikorn"], "flavors": ["default-flavor"], "organizations": ORGANIZATIONS},
}
CONFIG: Manifest = {
    "queueconfig": {
        "scheduler": "yunikorn",
        "gangscheduling": "placeholderTimeoutInSeconds=300 gangSchedulingStyle=Hard",
        "jobs": [{"type": one} for one in TYPES],
        "organizations": [{"name": "web", "jobs": [{"type": one, "user-info": False} for one in ("batch", "pod")]}],
    }
}
"""YuniKorn's webhook handles namespaces that begin with `yk`, and says itself whose pods and Jobs those are."""

CREATORS = "^system:serviceaccount:fairway-system:,^system:serviceaccount:default:kuberay-operator$"
"""Who creates pods for others: to be allowed by YuniKorn's webhook."""


class YuniKorn:
    """The scheduler, and the namespaces whose jobs go to it."""

    def __init__(self, k: Kubectl, fairway: Commands) -> None:
        self.k = k
        self.fairway = fairway
        pods = ("get", "pods", "-l", "app=yunikorn,component=yunikorn-scheduler", "-o", "name")
        (pod,) = k("-n", "yunikorn", *pods).split()
        self._api = f"/api/v1/namespaces/yunikorn/pods/{pod.removeprefix('pod/')}:9080/proxy/ws/v1"

    # What it says

    def get(self, path: str) -> Any:
        """From its REST API."""
        return json.loads(self.k("get", "--raw", f"{self._api}/{path}"))

    def application(self, name: str) -> Manifest:
        found: Manifest = self.get(f"partition/default/application/{name}")
        return found

    def queue(self, path: str) -> Manifest:
        found: Manifest = self.get(f"partition/default/queue/{path}")
        return found

    def validate(self, text: str) -> Manifest:
        """Its own opinion of a `queues.yaml`."""
        found: Manifest = json.loads(self.k("create", "--raw", f"{self._api}/validate-conf", "-f", "-", given=text))
        return found

    def config_text(self) -> str:
        """The `queues.yaml` that its ConfigMap has."""
        config_map = json.loads(self.k("-n", "yunikorn", "get", "configmap", "yunikorn-configs", "-o", "json"))
        return str(config_map["data"]["queues.yaml"])

    def follows(self) -> None:
        """Wait until it works with what its ConfigMap says."""
        wanted = hashlib.sha256(self.config_text().encode()).hexdigest().upper()
        eventually(lambda: wanted in self.k("get", "--raw", f"{self._api}/config").upper())

    # Jobs

    def send(self, manifests: Sequence[Manifest], namespace: str) -> None:
        """By `fairway apply`, which sees pods of one group together."""
        file = self.fairway.directory / "jobs.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}))
        self.fairway("apply", "--namespace", namespace, "-f", str(file))

    def create(self, manifest: Manifest, namespace: str, user: str) -> None:
        """By kubectl, in the name of a user."""
        self.k("-n", namespace, "--as", user, "create", "-f", "-", given=json.dumps(manifest))

    def remove_jobs(self, namespace: str) -> None:
        kinds = ["managedjobs", "jobs", "pods"]
        if "rayjobs.ray.io" in self.k("api-resources", "--api-group=ray.io", "-o", "name").split():
            kinds.insert(0, "rayjobs.ray.io")
        self.k("-n", namespace, "delete", ",".join(kinds), "--all", "--timeout=180s")

    def pods(self, namespace: str, selector: str) -> list[Manifest]:
        """Pods of a job, without placeholders."""
        found = json.loads(self.k("-n", namespace, "get", "pods", "-l", selector, "-o", "json"))["items"]
        return [pod for pod in found if not pod["metadata"]["name"].startswith("tg-")]

    def phases(self, namespace: str, selector: str) -> list[str]:
        return [pod["status"]["phase"] for pod in self.pods(namespace, selector)]

    def placeholders(self, namespace: str, application: str) -> list[str]:
        """The phases of an application's placeholders, sorted."""
        chosen = ("-l", f"{APPLICATION}={application}", "-o", "json")
        found = json.loads(self.k("-n", namespace, "get", "pods", *chosen))["items"]
        return sorted(pod["status"]["phase"] for pod in found if pod["metadata"]["name"].startswith("tg-"))

    def managed(self, namespace: str, name: str) -> Manifest:
        """The status of a ManagedJob."""
        found = json.loads(self.k("-n", namespace, "get", "managedjob", name, "-o", "json"))
        status: Manifest = found.get("status") or {}
        return status


def application_of(pods: Sequence[Manifest]) -> str:
    """The one application of pods."""
    (name,) = {pod["metadata"]["labels"][APPLICATION] for pod in pods}
    return str(name)
