"""Guide 001: quota without end, and a check that asks whether the machine has room."""

from pathlib import Path
from typing import Any

from clients.kubectl import Kubectl

from .playing import WAIT, pod

DATA = Path(__file__).parent.parent / "clients" / "data" / "v1beta1"
TEN_CPUS = {"cpu": "10"}


def check_of(kubectl: Kubectl, workload: str) -> dict[str, Any]:
    found: dict[str, Any] = kubectl.json(f"get workload {workload}")["status"]["admissionChecks"][0]
    return found


def workload_of(kubectl: Kubectl, pod_name: str) -> str:
    names = kubectl("get workloads -o name").split()
    (name,) = [name for name in names if f"/pod-{pod_name}-" in name]
    return name.partition("/")[2]


def test_a_job_is_admitted_only_when_the_check_finds_capacity(kubectl: Kubectl, tmp_path: Path) -> None:
    text = kubectl(
        "-n kueue-system get cm kueue-manager-config -o", "jsonpath={.data.controller_manager_config\\.yaml}"
    )
    patched = tmp_path / "kueueconfig.yaml"
    patched.write_text(text.replace("frameworks:\n", "frameworks:\n  - pod\n"))
    made = kubectl(
        f"-n kueue-system create cm kueue-manager-config --from-file=controller_manager_config.yaml={patched}",
        "--dry-run=client",
        "-oyaml",
    )
    kubectl("-n kueue-system apply -f -", given=made)

    kubectl("apply -f", str(DATA / "kueue-resource-flavor.yaml"))
    kubectl("apply -f", str(DATA / "kueue-admission-check.yaml"))
    kubectl("create namespace skypilot")
    kubectl("apply -f", str(DATA / "kueue.yaml"))
    kubectl("wait --for=condition=Active admissioncheck/skypilot-kueue-prov --timeout=20s")
    kubectl("wait --for=condition=Active clusterqueue/skypilot-cluster-queue --timeout=20s")
    there = Kubectl(kubectl.binary, kubectl.kubeconfig, kubectl.home, "skypilot", kubectl.variables)

    go = [*WAIT, str(tmp_path / "go")]
    there("create -f -", given=pod("first", "skypilot-local-queue", TEN_CPUS, go))
    there("wait --for=condition=Ready pod/first --timeout=20s")
    first = workload_of(there, "first")
    assert check_of(there, first)["state"] == "Ready"
    (request,) = there.json("get provisioningrequests")["items"]
    assert request["metadata"]["name"] == f"{first}-skypilot-kueue-prov-1"
    assert request["spec"]["provisioningClassName"] == "check-capacity.autoscaling.x-k8s.io"
    annotations = there.json("get pod first")["metadata"]["annotations"]
    assert annotations["autoscaling.x-k8s.io/consume-provisioning-request"] == request["metadata"]["name"]

    # The quota has room for a second one, the machine has not.
    there("create -f -", given=pod("second", "skypilot-local-queue", TEN_CPUS, ["/bin/true"]))
    second = _when_there(there, "second")
    there(f"wait --for=condition=QuotaReserved workload/{second} --timeout=20s")
    request_name = f"provisioningrequest/{second}-skypilot-kueue-prov-1"
    there(f"wait --for=create {request_name} --timeout=20s")
    there(f"wait --for=condition=Provisioned=false {request_name} --timeout=20s")
    assert check_of(there, second)["state"] in {"Pending", "Retry"}
    assert there.json("get pod second")["spec"]["schedulingGates"]

    (tmp_path / "go").touch()
    there("wait --for=jsonpath={.status.phase}=Succeeded pod/first pod/second --timeout=30s")
    there("wait --for=condition=Finished workload --all --timeout=20s")


def _when_there(kubectl: Kubectl, pod_name: str) -> str:
    """The name of a pod's workload, as soon as it has one."""
    with kubectl.following("get workloads --watch --output-watch-events -o name") as seen:
        seen.until(f"/pod-{pod_name}-")
    return workload_of(kubectl, pod_name)
