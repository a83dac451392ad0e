"""The checks of `fairway cluster doctor`: versions, Fairway, Kueue, queues, nodes. They change nothing."""

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import yaml

from fairway import __version__
from fairway.apis.kueue.configuration import CONFIG_KEY, CONFIG_MAP
from fairway.apis.kueue.configuration import NAMESPACE as KUEUE_NAMESPACE
from fairway.apis.machinery.selectors import LabelSelector
from fairway.cli.checks import Finding, broken, commitment, ok, warning
from fairway.cli.cluster.access import ClusterObjects
from fairway.cli.cluster.install import CRD, WORKLOADS, admission_option
from fairway.cli.cluster.kueue import KUEUE, configuration_text, kueue_deployment
from fairway.cli.cluster.waiting import condition, obstacles
from fairway.deploy.kueue import EXTERNAL_FRAMEWORK, configuration_findings, managed_namespaces
from fairway.deploy.names import (
    ADMISSION_LABEL,
    CONTROLLER,
    CONTROLLER_USER,
    KUEUE_ACCOUNT,
    LEADER_LABEL,
    NAME,
    NAME_LABEL,
    NAMESPACE,
    TLS_SECRET,
    WAYS,
    Way,
    installed_way,
)
from fairway.deploy.permissions import permissions
from fairway.managedjobs.gpulabels import KEYS as GPU_LABELS

PROVISIONING: Final = ("autoscaling.x-k8s.io/v1", "ProvisioningRequest")
_OLDEST: Final = (1, 30)
_SOON: Final = timedelta(days=7)
_MOST_NAMED: Final = 5
_GPU: Final = "nvidia.com/gpu"
_SYSTEM: Final = re.compile(rf"kube-.*|{KUEUE_NAMESPACE}|{NAMESPACE}|default|.*-system")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def findings(cluster: ClusterObjects) -> Iterator[Finding]:
    """All checks, in the order of dependencies."""
    yield version(cluster)
    yield from fairway(cluster)
    installed = installed_way(cluster.get(*CRD, WORKLOADS))
    if installed == "none":
        yield ok("kueue", "Kueue is not installed: the scheduler of the cluster decides alone")
        return
    if installed == "fairway":
        yield ok("kueue", "Fairway admits: Kueue's kinds are Fairway's own")
    else:
        yield from kueue(cluster)
    yield from queues(cluster)
    yield from nodes(cluster)


def version(cluster: ClusterObjects) -> Finding:
    found = cluster.rest.get("/version")
    name = str(found["gitVersion"])
    numbers = tuple(int(part) for part in re.findall(r"\d+", name)[:2])
    if numbers < _OLDEST:
        return broken("kubernetes", f"Kubernetes {name}", "Fairway needs Kubernetes 1.30 or newer")
    return ok("kubernetes", f"Kubernetes {name} at {cluster.rest.server}")


# Fairway


def fairway(cluster: ClusterObjects) -> Iterator[Finding]:
    deployment = cluster.get("apps/v1", "Deployment", CONTROLLER, NAMESPACE)
    if deployment is None:
        yield warning(
            "fairway", "Fairway is not installed on this cluster", "install it with `fairway cluster install`"
        )
        return
    labels = deployment["metadata"].get("labels") or {}
    installed = labels.get("app.kubernetes.io/version", "unknown")
    if installed != __version__:
        yield warning(
            "fairway",
            f"the cluster has Fairway {installed}, this command is {__version__}",
            "upgrade the older one: `fairway cluster install`, or the command",
        )
    missing = list(obstacles(cluster))
    for one in missing:
        yield broken(
            "fairway",
            one,
            f"see `kubectl -n {NAMESPACE} describe pods` and `kubectl -n {NAMESPACE} logs -l {NAME_LABEL}={NAME}`",
        )
    if not missing:
        yield ok("fairway", f"Fairway {installed} works: a controller leads and its webhooks answer")
    option = admission_option(deployment)
    yield from admission(cluster, option)
    yield from rights(cluster, next((one for one in WAYS if one == option), "kueue"))
    yield from certificates(cluster)


def admission(cluster: ClusterObjects, option: str) -> Iterator[Finding]:
    """Whether the controller that leads works with what is installed."""
    pods = cluster.all("v1", "Pod", NAMESPACE, labelSelector=f"{LEADER_LABEL}=true")
    used = {(pod["metadata"].get("labels") or {}).get(ADMISSION_LABEL, "") for pod in pods} - {""}
    definition = cluster.get(*CRD, WORKLOADS)
    installed = installed_way(definition)
    if option == "none" and installed == "kueue":
        yield warning(
            "admission",
            "Kueue is installed, and Fairway was installed with --admission=none: managed jobs do not wait for quota",
            "run `fairway cluster install --admission=auto` (or `helm upgrade`), if Kueue is to admit them",
        )
    elif option not in {"auto", "none", installed}:
        yield broken(
            "admission",
            f"Fairway was installed with --admission={option}, which needs what is no longer installed "
            f"(found: {installed})",
            "run `fairway cluster install --admission=auto` (or `helm upgrade`)",
        )
    elif option == "auto" and used and used != {installed}:
        yield warning(
            "admission",
            f"the controller still works with --admission={used.pop()}, and {installed} is right since a moment ago",
            f"wait; it changes by itself (`kubectl -n {NAMESPACE} events`)",
        )
    elif used:
        follows = ", found by itself" if option == "auto" else ""
        yield ok("admission", f"the controller works with --admission={used.pop()}{follows}")


def rights(cluster: ClusterObjects, way: Way) -> Iterator[Finding]:
    """Whether the service account of the controller has what the controller uses."""
    lacking = []
    for row in permissions(way):
        for resource in row.resources:
            for verb in row.verbs:
                plural, _, subresource = resource.partition("/")
                attributes = {"group": row.group, "resource": plural, "subresource": subresource, "verb": verb}
                attributes |= {"namespace": row.namespace, "name": row.names[0] if row.names else ""}
                if not _may(cluster, CONTROLLER_USER, attributes):
                    lacking.append(f"{verb} {resource}{f'.{row.group}' if row.group else ''} ({row.why})")
    if lacking:
        yield broken(
            "rights",
            f"the service account {NAMESPACE}/{CONTROLLER} may not: {_listed(lacking)}",
            "run `fairway cluster install` (or `helm upgrade`) again, which restores its roles",
        )
    else:
        yield ok("rights", "the controller has all rights that it uses")


def _may(cluster: ClusterObjects, user: str, attributes: dict[str, str]) -> bool:
    """Whether a service account has a right."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated"]
    asked = {name: value for name, value in attributes.items() if value}
    spec = {"user": user, "groups": groups, "resourceAttributes": asked}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(cluster.rest.create(_REVIEWS, review)["status"].get("allowed"))


def certificates(cluster: ClusterObjects) -> Iterator[Finding]:
    """The end of the serving certificates of Fairway and Kueue, where they can be read."""
    for title, name, namespace in (
        ("Fairway's", TLS_SECRET, NAMESPACE),
        ("Kueue's", "kueue-webhook-server-cert", KUEUE_NAMESPACE),
    ):
        secret = cluster.get("v1", "Secret", name, namespace)
        text = ((secret or {}).get("data") or {}).get("tls.crt")
        if not text:
            continue
        ends = _end(base64.b64decode(text))
        said = f"{title} certificate ({namespace}/{name}) is valid until {ends:%Y-%m-%d %H:%M} UTC"
        if ends - datetime.now(UTC) < _SOON:
            way_out = (
                f"if its controller does not renew it, delete the Secret {namespace}/{name} and restart the controller"
            )
            yield (warning if ends > datetime.now(UTC) else broken)("certificates", said, way_out)
        else:
            yield ok("certificates", said)


def _end(pem: bytes) -> datetime:
    from cryptography import x509  # noqa: PLC0415 - only where there is a certificate

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


# Kueue


def kueue(cluster: ClusterObjects) -> Iterator[Finding]:
    deployment = kueue_deployment(cluster)
    if deployment is None:
        yield broken(
            "kueue",
            "Kueue's definitions are installed, but its Deployment is not: nothing admits jobs",
            "install Kueue again",
        )
        return
    image = str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
    tag = image.rpartition("@")[0].rpartition(":")[2] if "@" in image else image.rpartition(":")[2]
    status = deployment.get("status") or {}
    if not cluster.has(KUEUE, "Workload"):
        yield broken("kueue", f"Kueue ({tag}) does not serve {KUEUE}", "upgrade Kueue to 0.15 or newer; 0.19 is tested")
    elif (status.get("availableReplicas") or 0) < 1:
        yield broken(
            "kueue",
            f"Kueue ({tag}) does not run",
            f"see `kubectl -n {KUEUE_NAMESPACE} describe pods`; nothing is admitted until then",
        )
    elif not tag.startswith("v0.19."):
        yield warning("kueue", f"Kueue {tag} runs", "Fairway is tested with Kueue 0.19; other versions may differ")
    else:
        yield ok("kueue", f"Kueue {tag} runs")
    yield from configuration(cluster)
    yield from provisioning(cluster)


def configuration(cluster: ClusterObjects) -> Iterator[Finding]:
    text = configuration_text(cluster)
    if text is None:
        yield warning(
            "kueue configuration",
            f"there is no ConfigMap {KUEUE_NAMESPACE}/{CONFIG_MAP} with {CONFIG_KEY}, so it cannot be checked",
            "if Kueue was installed by other means, check its Configuration by hand: docs/operate/kubernetes.md",
        )
        return
    try:
        config = yaml.load(text, Loader=yaml.CSafeLoader) or {}
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        yield broken(
            "kueue configuration",
            f"{CONFIG_KEY} is not YAML: {where}",
            f"edit ConfigMap {KUEUE_NAMESPACE}/{CONFIG_MAP}",
        )
        return
    external = (config.get("integrations") or {}).get("externalFrameworks") or ()
    if (
        EXTERNAL_FRAMEWORK in external
        and cluster.has("fairway.dev/v1alpha1", "ManagedJob")
        and not _kueue_reads(cluster)
    ):
        yield broken(
            "kueue configuration",
            f"Kueue may not read ManagedJobs (service account {KUEUE_NAMESPACE}/{KUEUE_ACCOUNT}): "
            "its webhook for pods times out on the pods of managed jobs",
            "run `fairway cluster install --admission=kueue` (or `helm upgrade`), which gives it the right",
        )
    kuberay = {"KubeRay": ("ray.io/rayjob", "ray.io/raycluster")} if cluster.has("ray.io/v1", "RayJob") else {}
    for one in configuration_findings(config, kuberay):
        yield Finding("kueue configuration", one.severity, one.message, one.way_out)
    yield from _unmanaged(cluster, managed_namespaces(config))


def _kueue_reads(cluster: ClusterObjects) -> bool:
    user = f"system:serviceaccount:{KUEUE_NAMESPACE}:{KUEUE_ACCOUNT}"
    asked = {"group": "fairway.dev", "resource": "managedjobs", "verb": "list"}
    return _may(cluster, user, asked)


def _unmanaged(cluster: ClusterObjects, selector: LabelSelector) -> Iterator[Finding]:
    """Namespaces with a LocalQueue whose pods Kueue does not manage."""
    queued = {one["metadata"]["namespace"] for one in cluster.all(KUEUE, "LocalQueue")}
    names = [
        one["metadata"]["name"]
        for one in cluster.all("v1", "Namespace")
        if one["metadata"]["name"] in queued and not selector.matches(one["metadata"].get("labels") or {})
    ]
    if names:
        yield warning(
            "kueue configuration",
            f"managedJobsNamespaceSelector leaves out {_listed(names)}, which have LocalQueues: "
            "their pods are not queued",
            "label these namespaces as the selector asks, or change it",
        )


def provisioning(cluster: ClusterObjects) -> Iterator[Finding]:
    used = [
        one["metadata"]["name"]
        for one in cluster.all(KUEUE, "AdmissionCheck")
        if one["spec"]["controllerName"] == "kueue.x-k8s.io/provisioning-request"
    ]
    there = cluster.has(*PROVISIONING) or cluster.has("autoscaling.x-k8s.io/v1beta1", PROVISIONING[1])
    if used and not there:
        yield broken(
            "provisioning",
            f"AdmissionCheck {_listed(used)} needs ProvisioningRequests, which this cluster does not have: "
            "its jobs wait forever",
            "install cluster-autoscaler with --enable-provisioning-requests, or remove the check from the queues",
        )
    elif there:
        yield ok("provisioning", "ProvisioningRequests are served")


# Queues and nodes


def queues(cluster: ClusterObjects) -> Iterator[Finding]:
    found = cluster.all(KUEUE, "ClusterQueue")
    if not found:
        yield warning(
            "queues",
            "there is no ClusterQueue: nothing is admitted",
            "`fairway cluster doctor --queues NAMESPACE` creates one",
        )
    for one in found:
        active = condition(one, "Active")
        if active.get("status") == "False":
            yield warning(
                "queues",
                f"ClusterQueue {one['metadata']['name']} admits nothing: {active.get('message', '')}",
                f"`kubectl describe clusterqueue {one['metadata']['name']}` shows more",
            )
    queued = {one["metadata"]["namespace"] for one in cluster.all(KUEUE, "LocalQueue")}
    without = [
        name
        for one in cluster.all("v1", "Namespace")
        if (name := one["metadata"]["name"]) not in queued and not _SYSTEM.fullmatch(name)
    ]
    if without:
        yield warning(
            "queues",
            f"{_listed(without)} have no LocalQueue: jobs there are refused or wait",
            "`fairway cluster doctor --queues NAMESPACE` creates one, or `kubectl create -f` with a LocalQueue",
        )
    elif found:
        yield ok("queues", f"{len(found)} ClusterQueues, and every namespace has a LocalQueue")
    yield from commitment(cluster.rest)


def nodes(cluster: ClusterObjects) -> Iterator[Finding]:
    found = cluster.all("v1", "Node")
    labels = [one["metadata"].get("labels") or {} for one in found]
    used: dict[str, list[str]] = {}
    for queue in cluster.all(KUEUE, "ClusterQueue"):
        for group in queue["spec"].get("resourceGroups") or ():
            for flavor in group["flavors"]:
                used.setdefault(flavor["name"], []).append(queue["metadata"]["name"])
    for flavor in cluster.all(KUEUE, "ResourceFlavor"):
        name, wanted = flavor["metadata"]["name"], (flavor.get("spec") or {}).get("nodeLabels") or {}
        if name in used and not any(wanted.items() <= has.items() for has in labels):
            shown = ",".join(f"{key}={value}" for key, value in wanted.items()) or "any label"
            yield warning(
                "nodes",
                f"no node has the labels of ResourceFlavor {name} ({shown}), which {_listed(used[name])} uses: "
                "its jobs stay pending",
                "label nodes so, or correct the flavor; ignore this if an autoscaler adds such nodes",
            )
    unnamed = [
        one["metadata"]["name"]
        for one, has in zip(found, labels, strict=True)
        if str(((one.get("status") or {}).get("allocatable") or {}).get(_GPU, "0")) != "0"
        and not {*GPU_LABELS} & set(has)
    ]
    if unnamed:
        yield warning(
            "nodes",
            f"{_listed(unnamed)} have GPUs, and no label says which model: `accelerators: MODEL` matches none of them",
            f"install NVIDIA's GPU feature discovery, or `kubectl label node NODE {GPU_LABELS[0]}=MODEL`",
        )
    ready = sum(1 for one in found if condition(one, "Ready").get("status") == "True")
    yield (ok if ready else lambda check, said: warning(check, said, "nothing runs until a node is ready"))(
        "nodes", f"{ready} of {len(found)} nodes are ready"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
