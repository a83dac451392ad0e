"""`fairway controller --admission=auto` while the definitions of Kueue come and go on kube-apiserver."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.cluster.apiserver import ApiServer

from fairway.server.crds import definitions, service_client

from .controllers import Controller, Kubectl, define, eventually, listed


def kueues_definitions() -> list[dict[str, object]]:
    """Kueue's kinds as a Kueue would install them: not labelled as ours, without our conversion webhook."""
    found = []
    for one in definitions("fairway", service_client("fairway-system")):
        if one["spec"]["group"] == "kueue.x-k8s.io":
            one["metadata"].pop("labels", None)
            one["spec"].pop("conversion", None)
            found.append(one)
    return found


def test_it_starts_again_with_kueue_and_without(
    fresh_apiserver: ApiServer, kubectl: Callable[[Path], Kubectl], tmp_path: Path
) -> None:
    k = kubectl(fresh_apiserver.kubeconfig)
    define(k, "none")
    running = Controller(fresh_apiserver.kubeconfig, tmp_path / "state", "auto").lead()

    def events() -> list[str]:
        lines = k("get", "events", "-n", "fairway-system", "-o", "jsonpath={range .items[*]}{.message}{'\\n'}{end}")
        return sorted(line.partition(",")[0] for line in lines.splitlines())

    def led() -> int:
        return running.log.read_text().count("leading\n")

    try:
        kueue = json.dumps(listed(kueues_definitions()))
        k("apply", "--server-side", "-f", "-", given=kueue)
        eventually(led, 2)
        eventually(events, ["Kueue was installed"])
        k("delete", "-f", "-", given=kueue)
        eventually(led, 3)
        eventually(events, ["Kueue was installed", "the definitions of Kueue's kinds were removed"])
        assert running.process.poll() is None
        assert "Kueue was installed, so Kueue admits jobs now" in running.log.read_text()
        assert "Traceback" not in running.log.read_text()
    finally:
        running.stop()


@pytest.mark.parametrize("option", ["kueue", "fairway"])
def test_what_was_chosen_and_is_gone_is_an_error(
    fresh_apiserver: ApiServer, kubectl: Callable[[Path], Kubectl], tmp_path: Path, option: str
) -> None:
    k = kubectl(fresh_apiserver.kubeconfig)
    if option == "kueue":
        define(k, "none", *kueues_definitions())
    else:
        define(k, "fairway")
    running = Controller(fresh_apiserver.kubeconfig, tmp_path / "state", option).lead()
    try:
        k("delete", "crd", "workloads.kueue.x-k8s.io")
        assert running.process.wait(120) == 1
        assert f"--admission={option}: Kueue" in running.log.read_text().splitlines()[-1]
    finally:
        running.stop()
