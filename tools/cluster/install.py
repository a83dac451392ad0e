"""What is installed on a cluster after its node is Ready: DNS always, and Kueue, KubeRay or YuniKorn when asked.

Each from its own published manifests, with the images that were made here.
"""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from string import Template
from typing import Any, Final

import yaml
from tools.cluster import versions
from tools.cluster.lifecycle import Place, kubectl
from tools.cluster.node import DNS
from tools.cluster.places import ClusterError

_COREDNS: Final = Path(__file__).parent / "manifests" / "coredns.yaml"
_PATIENCE: Final = "--timeout=600s"
_WEBHOOK_SECONDS: Final = 300.0


def dns(place: Place) -> None:
    """CoreDNS, at the address that the kubelet gives to pods."""
    text = Template(_COREDNS.read_text()).substitute(COREDNS=versions.COREDNS, DNS=DNS)
    kubectl(place, "apply", "-f", "-", given=text)
    _rolled_out(place, "kube-system", "coredns")


def kueue(place: Place) -> None:
    """Kueue as it is published; ready when its webhook answers, whose certificate reaches the pod late."""
    image = f"registry.k8s.io/kueue/kueue:v{versions.KUEUE}"
    _apply(place, "kueue", "config/default", lambda found: image if "/kueue/kueue:" in found else found)
    _rolled_out(place, "kueue-system", "kueue-controller-manager")
    probe = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
    until = time.monotonic() + _WEBHOOK_SECONDS
    while True:
        ended = kubectl(place, "create", "--dry-run=server", "-f", "-", given=json.dumps(probe), check=False)
        if ended.returncode == 0:
            return
        if time.monotonic() > until:
            raise ClusterError(f"Kueue's webhook does not answer: {ended.stderr.strip()}")
        time.sleep(1)


def kuberay(place: Place) -> None:
    """KubeRay's operator, in the namespace `default` as its own manifests say."""
    image = f"quay.io/kuberay/operator:v{versions.KUBERAY}"
    # There is one, and beside a busy machine it would lose its Lease, restart, and miss its own deadlines for RayJobs.
    alone = "--enable-leader-election=false"
    _apply(place, "kuberay", "config/default", lambda found: image if "/operator:" in found else found, alone)
    _rolled_out(place, "default", "kuberay-operator")


def yunikorn(place: Place) -> None:
    """YuniKorn's scheduler and its admission controller, which looks only at namespaces that begin with `yk`."""
    folder = place.cache.manifests("yunikorn") / "deployments" / "scheduler"
    files = ["yunikorn-rbac", "yunikorn-configs", "scheduler"]
    files += ["admission-controller-rbac", "admission-controller-secrets", "admission-controller"]
    objects: list[Any] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "yunikorn"}}]
    for name in files:
        objects += _objects((folder / f"{name}.yaml").read_text())
    kubectl(place, "apply", "-f", "-", given=_listed(map(_yunikorn, objects)))
    for deployment in ("yunikorn-scheduler", "yunikorn-admission-controller"):
        _rolled_out(place, "yunikorn", deployment)


INSTALLERS: Final[dict[str, Callable[[Place], None]]] = {"kueue": kueue, "kuberay": kuberay, "yunikorn": yunikorn}


def _yunikorn(manifest: Any) -> Any:
    """One of its objects, in its namespace and without what cannot run here: the web page's container."""
    kind = manifest["kind"]
    if kind in {"ServiceAccount", "ConfigMap", "Deployment", "Service", "Secret", "Role", "RoleBinding"}:
        manifest["metadata"]["namespace"] = "yunikorn"
    for subject in manifest.get("subjects") or ():
        subject["namespace"] = "yunikorn"
    if kind == "Service":
        manifest["spec"]["type"] = "ClusterIP"
    if kind == "ConfigMap":
        data = manifest.setdefault("data", {})
        data["admissionController.filtering.processNamespaces"] = "^yk"
        data["service.placeholderImage"] = f"registry.k8s.io/pause:{versions.PAUSE}"
    if kind == "Deployment":
        pod = manifest["spec"]["template"]["spec"]
        which = "admission" if "admission" in manifest["metadata"]["name"] else "scheduler"
        pod["containers"] = pod["containers"][:1]
        pod["containers"][0]["image"] = f"apache/yunikorn:{which}-{versions.YUNIKORN}"
    return manifest


def _apply(place: Place, project: str, folder: str, image: Callable[[str], str], *arguments: str) -> None:
    source = place.cache.manifests(project) / folder
    if not source.exists():
        raise ClusterError(f"{source} is missing; run `python -m tools.cluster build {project}`")
    objects = list(_objects(kubectl(place, "kustomize", str(source)).stdout))
    for container in _containers(objects):
        container["image"] = image(container["image"])
        container["imagePullPolicy"] = "IfNotPresent"
        container["args"] = [*(container.get("args") or ()), *arguments]
        for probe in ("livenessProbe", "readinessProbe"):
            if probe in container:
                container[probe]["timeoutSeconds"] = 30  # a second is too short on two busy cores
    kubectl(place, "apply", "--server-side", "--force-conflicts", "-f", "-", given=_listed(objects))


def _objects(text: str) -> Iterable[Any]:
    return (one for one in yaml.load_all(text, yaml.CSafeLoader) if one)


def _listed(objects: Iterable[Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _containers(objects: Iterable[Any]) -> Iterable[Any]:
    for manifest in objects:
        if manifest["kind"] == "Deployment":
            yield from manifest["spec"]["template"]["spec"]["containers"]


def _rolled_out(place: Place, namespace: str, deployment: str) -> None:
    kubectl(place, "--namespace", namespace, "rollout", "status", f"deployment/{deployment}", _PATIENCE)
