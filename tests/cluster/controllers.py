"""`fairway controller` as a process on a real API server, for tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairway.server.crds import definitions, service_client

PATIENCE = 240.0
Kubectl = Callable[..., str]
CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteMany]
  capacity: {{storage: 1Gi}}
  hostPath: {{path: /tmp/{name}, type: DirectoryOrCreate}}
  claimRef: {{name: shared, namespace: {name}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: shared, namespace: {name}}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: {name}
  resources: {{requests: {{storage: 1Gi}}}}
"""
"""The claim `shared` in a namespace, on a directory of the node."""


class Controller:
    """One process. `url` is its endpoint."""

    def __init__(self, kubeconfig: Path, state: Path, admission: str, *arguments: str) -> None:
        self.state = state
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        reading, writing = os.pipe()
        command = ["-m", "fairway.cli.main", "controller", "--kubeconfig", str(kubeconfig), "--state", str(state)]
        self.log = state / "controller.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, *command, f"--admission={admission}", *arguments],
                stdout=log,
                stderr=log,
                pass_fds=(writing,),
                env={**os.environ, "FAIRWAY_READY_FD": str(writing)},
            )
        os.close(writing)
        self._ready = os.fdopen(reading)
        self.url = ""

    def lead(self) -> "Controller":
        """Wait until it leads."""
        self.url = self._ready.readline().strip()
        assert self.url, f"the controller ended with {self.process.wait()}: {self.log.read_text()}"
        return self

    def kill(self) -> None:
        self._ready.close()
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self._ready.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


@contextmanager
def controller(kubeconfig: Path, state: Path, admission: str, kubectl: Kubectl) -> Iterator[Controller]:
    """Definitions, webhooks and one leading process; all of it is gone at the end."""
    define(kubectl, admission)
    running = Controller(kubeconfig, state, admission)
    try:
        running.lead()
        webhooks = printed_webhooks(running, admission)
        kubectl("apply", "-f", "-", given=webhooks)
        yield running
    finally:
        kubectl(
            "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "fairway", "--ignore-not-found"
        )
        running.stop()


def define(kubectl: Kubectl, admission: str, *more: Any) -> None:
    """Create our namespace and the definitions of a way of admission, and more, and wait until they are served."""
    crds = [*definitions(admission, service_client("fairway-system")), *more]
    items = listed([namespace("fairway-system"), *crds])
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=json.dumps(items))
    wanted = {crd["metadata"]["name"] for crd in crds}

    def established() -> set[str]:
        """Not by `kubectl wait`, which fails on a definition that has no conditions yet."""
        found = json.loads(kubectl("get", "crd", "-o", "json"))["items"]
        states = {one["metadata"]["name"]: one.get("status", {}).get("conditions") or () for one in found}
        true = {"type": "Established", "status": "True"}
        return {name for name, state in states.items() if any(true.items() <= one.items() for one in state)}

    eventually(lambda: wanted <= established())


def printed_webhooks(running: Controller, admission: str) -> str:
    command = ["-m", "fairway.cli.main", "controller", "--print-webhooks", running.url, "--state", str(running.state)]
    shown = subprocess.run(  # noqa: S603
        [sys.executable, *command, f"--admission={admission}"], capture_output=True, text=True, check=True
    )
    return shown.stdout


def listed(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def await_service_account(kubectl: Kubectl, place: str) -> None:
    """Wait until pods can be created in a new namespace: kube-controller-manager gives it its service account."""
    eventually(
        lambda: kubectl("get", "serviceaccount", "default", "-n", place, "--ignore-not-found", "-o", "name") != ""
    )


def eventually(what: Callable[[], Any], wanted: Any = True) -> None:  # noqa: FBT002
    """Wait until a look gives what is wanted; the last look is shown if it never does."""
    until, seen = time.monotonic() + PATIENCE, None
    while time.monotonic() < until:
        seen = what()
        if seen == wanted:
            return
        time.sleep(0.2)
    raise AssertionError(f"still {seen!r} instead of {wanted!r}")


def managed_job(name: str, place: str, run: str = "true", **spec: Any) -> str:
    """The manifest of a ManagedJob with one task; a name that ends with `-` is a prefix."""
    naming = {"generateName": name} if name.endswith("-") else {"name": name}
    return json.dumps(
        {
            "apiVersion": "fairway.dev/v1alpha1",
            "kind": "ManagedJob",
            "metadata": {**naming, "namespace": place},
            "spec": {"tasks": [{"run": run, "resources": {"cpus": 1}}], **spec},
        }
    )
