"""Names of Services for the processes of pods: files that stand in for /etc/hosts.

All pods have the address of this machine, so the name of a Service stands for it as well; ports are those of the pods,
and nothing is proxied. A namespace that has Services has a file, `hosts/<namespace>` in the state directory, which the
pods that start there see as /etc/hosts. It is rewritten in place, so that running pods find Services that come later.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.runner.pods.fields import ADDRESS
from fairway.runtime.worker import Worker

_MACHINE: Final = Path("/etc/hosts")
_DOMAIN: Final = "svc.cluster.local"


class ServiceNames:
    """Keeps the files of the namespaces in which pods were started."""

    def __init__(self, cluster: Cluster, state: Path) -> None:
        self._directory = state.absolute() / "hosts"
        self._services: dict[str, set[str]] = {}
        self._texts: dict[str, str] = {}
        """The namespaces with a file, and what is in it."""
        self._worker: Worker[str] = Worker("servicenames", cluster.clock, self._refresh, parallel=1)
        cluster.cache("services").on_change(self._on_change)

    async def run(self) -> None:
        """Keep the files up to date until cancelled, also those of pods that an earlier server started."""
        for file in self._directory.glob("*"):
            if file.name in self._services:
                self._texts.setdefault(file.name, "")
                self._worker.add(file.name)
            else:
                file.unlink()
        await self._worker.run()

    def file(self, namespace: str) -> str:
        """The file for a pod that starts now; empty in a namespace without Services."""
        if not self._services.get(namespace):
            return ""
        self._write(namespace)
        return str(self._directory / namespace)

    def _on_change(self, old: Manifest | None, new: Manifest | None) -> None:
        found = new or old
        if found is None or (old is not None and new is not None):
            return
        namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
        names = self._services.setdefault(namespace, set())
        if new is not None and _is_here(new):
            names.add(name)
        else:
            names.discard(name)
        if not names:
            del self._services[namespace]
        for one in self._texts:
            self._worker.add(one)

    async def _refresh(self, namespace: str) -> None:
        self._write(namespace)

    def _write(self, namespace: str) -> None:
        text = "\n".join((_MACHINE.read_text(errors="replace").rstrip("\n"), *self._lines(namespace), ""))
        if self._texts.get(namespace) == text:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = text.encode()
        # Written over and not replaced: running pods have this very file. Jobs may change users, so all may read it.
        file = os.open(self._directory / namespace, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(file, content, 0)
            os.ftruncate(file, len(content))
        finally:
            os.close(file)
        self._texts[namespace] = text

    def _lines(self, own: str) -> Iterator[str]:
        for namespace, names in sorted(self._services.items()):
            for name in sorted(names):
                short = f"{name} " if namespace == own else ""
                yield f"{ADDRESS} {short}{name}.{namespace} {name}.{namespace}.svc {name}.{namespace}.{_DOMAIN}"


def _is_here(service: Manifest) -> bool:
    """Whether its pods are on this machine; a Service of a built-in component has no spec."""
    spec = service.get("spec") or {}
    return bool(spec) and spec.get("type") != "ExternalName"
