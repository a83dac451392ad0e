"""`fairway cluster …` on a whole cluster, for tests."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairway.deploy import manifests
from fairway.deploy.names import Way
from fairway.installing import installation_objects

Kubectl = Callable[..., str]
PATIENCE = 300.0


def mutating_webhooks(way: Way) -> list[str]:
    """The names of the webhooks that one way of admission has."""
    rendered = installation_objects(manifests.Installation(way=way, image="", version=""))
    found = next(one for one in rendered if one["kind"] == "MutatingWebhookConfiguration")
    return [one["name"] for one in found["webhooks"]]


def give_gpus(k: Kubectl, count: int = 8) -> None:
    """Let the node say that it has GPUs: nothing on this machine asks for them."""
    node = k("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    gpus = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(count)}]
    k("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(gpus))


class Installation:
    """The commands, and looks at what they installed."""

    def __init__(self, kubeconfig: Path, k: Kubectl, image: str) -> None:
        self.kubeconfig = kubeconfig
        self.k = k
        self.image = image

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fairway.cli.main", "cluster", *arguments]
        return subprocess.run(  # noqa: S603 - our own
            [*command, "--kubeconfig", str(self.kubeconfig)], capture_output=True, text=True, check=False, timeout=900
        )

    def __call__(self, *arguments: str) -> str:
        """What a command says that must succeed."""
        ran = self.run(*arguments)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def install(self, *arguments: str) -> str:
        return self("install", "--image", self.image, "--timeout", "10m", *arguments)

    def uninstall(self, *arguments: str) -> str:
        return self("uninstall", "-y", "--timeout", "10m", *arguments)

    def found(self, *arguments: str) -> Any:
        return json.loads(self.k("get", *arguments, "-o", "json"))

    @property
    def leader(self) -> str:
        """The pod that leads."""
        lease = ("lease", "fairway-controller", "-o", "jsonpath={.spec.holderIdentity}")
        return self.k("-n", "fairway-system", "get", *lease).partition("_")[0]

    def launch(self, name: str, place: str, run: str, queue: str = "") -> None:
        """Create a ManagedJob; while the leader changes, its webhook does not answer."""
        resources = {"cpus": 1, "image_id": "docker:python:3.11"}
        spec = {"tasks": [{"run": run, "resources": resources}], **({"queue": queue} if queue else {})}
        job = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "spec": spec}
        given = json.dumps({**job, "metadata": {"name": name, "namespace": place}})

        def created() -> bool:
            try:
                self.k("apply", "-f", "-", given=given)
            except AssertionError as refused:
                if "failed calling webhook" not in str(refused):
                    raise
                return False
            return True

        until(created, f"{name} is created")

    def phase(self, name: str, place: str) -> str:
        return self.k("-n", place, "get", "managedjob", name, "-o", "jsonpath={.status.phase}")

    def ends(self, name: str, place: str) -> None:
        until(lambda: self.phase(name, place) == "SUCCEEDED", lambda: f"{name} ends, is {self.phase(name, place)}")


def until(check: Callable[[], bool], what: str | Callable[[], str], seconds: float = PATIENCE) -> float:
    """Wait for something; how long it took."""
    begun = time.monotonic()
    while not check():
        assert time.monotonic() - begun < seconds, what if isinstance(what, str) else what()
        time.sleep(0.2)
    return time.monotonic() - begun
