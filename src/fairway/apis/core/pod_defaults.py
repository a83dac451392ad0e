"""The defaults of pods and of pod templates, beyond those that the schema states.

They are those of an API server without a service account admission: what its types fill in, the tolerations of an ill
node and the priority of a pod without a class. A named priority class stays a name: looking it up is not done here.
"""

import re
from functools import lru_cache
from typing import Any, Final

from fairway.apis.core.pod_parts import containers_of
from fairway.apis.core.resources import canonical, defaulted_pod_resources, requests_from_limits
from fairway.apis.machinery.kind import Manifest

_PATH_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART: Final = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_IMAGE: Final = re.compile(
    rf"(?:(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?{_PATH_PART}(?:/{_PATH_PART})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)

_FILE_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
_ILL_NODE_SECONDS: Final = 300
_ILL_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_VOLUME_FIELDS: Final = frozenset({"name"})
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)


def default_pod(manifest: Manifest) -> None:
    """What a pod, and no template, gets; then what both get."""
    spec = manifest.setdefault("spec", {})
    for container in containers_of(spec):
        requests_from_limits(container)
    if spec.get("resources"):
        defaulted_pod_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    default_pod_spec(spec)


def admit_pod(manifest: Manifest) -> None:
    """What admission adds to a pod; these fields have no owner."""
    spec = manifest.setdefault("spec", {})
    _default_priority(spec)
    _tolerate_ill_nodes(spec)


def default_template(template: dict[str, Any]) -> None:
    """What the template of a job or of a PodTemplate gets."""
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: dict[str, Any]) -> None:
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in spec.get("containers") or ():
        _default_container(container)
    for container in spec.get("initContainers") or ():
        _default_container(container)
    for container in spec.get("ephemeralContainers") or ():
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for resources in (spec.get("resources"), {"overhead": spec["overhead"]} if spec.get("overhead") else None):
        if resources:
            canonical(resources)


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """`Always` for what can change under its name: no tag or the tag `latest`, and no digest."""
    match = _IMAGE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _default_container(container: dict[str, Any]) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.setdefault("resources", {})
    if resources:
        canonical(resources)
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source:
            _default_reference(source)
            if source.get("fileKeyRef"):
                source["fileKeyRef"].setdefault("optional", False)
    for field in _PROBES:
        if container.get(field) is not None:
            _default_probe(container[field])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict) and handler.get("httpGet"):
            _default_http(handler["httpGet"])


def _default_probe(probe: dict[str, Any]) -> None:
    for field, value in _PROBE_DEFAULTS:
        if not probe.get(field):
            probe[field] = value
    if probe.get("httpGet"):
        _default_http(probe["httpGet"])
    if probe.get("grpc"):
        probe["grpc"].setdefault("service", "")


def _default_http(action: dict[str, Any]) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def _default_reference(source: dict[str, Any]) -> None:
    """A reference to a field or to a resource of the pod itself, in a variable or a file."""
    if source.get("fieldRef") and not source["fieldRef"].get("apiVersion"):
        source["fieldRef"]["apiVersion"] = "v1"
    if source.get("resourceFieldRef"):
        source["resourceFieldRef"].setdefault("divisor", "0")


def _default_volume(volume: dict[str, Any]) -> None:
    if not any(volume[field] is not None for field in volume.keys() - _VOLUME_FIELDS):
        volume["emptyDir"] = {}
    for field in ("configMap", "secret", "downwardAPI", "projected"):
        source = volume.get(field)
        if source is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _FILE_MODE
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_reference(item)
    for projection in (volume.get("projected") or {}).get("sources") or ():
        for item in (projection.get("downwardAPI") or {}).get("items") or ():
            _default_reference(item)
        token = projection.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = _TOKEN_SECONDS
    if volume.get("hostPath") is not None and volume["hostPath"].get("type") is None:
        volume["hostPath"]["type"] = ""
    if volume.get("image") and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = pull_policy(volume["image"].get("reference") or "")
    claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
    if claim is not None and not claim.get("volumeMode"):
        claim["volumeMode"] = "Filesystem"


def _default_priority(spec: dict[str, Any]) -> None:
    name = spec.get("priorityClassName")
    if name and name not in _SYSTEM_PRIORITIES:
        return
    if spec.get("priority") is None:
        spec["priority"] = _SYSTEM_PRIORITIES[name] if name else 0
    if not spec.get("preemptionPolicy"):
        spec["preemptionPolicy"] = "PreemptLowerPriority"


def _tolerate_ill_nodes(spec: dict[str, Any]) -> None:
    """A pod stays five minutes on a node that fell silent, unless it says something else."""
    tolerations = spec.get("tolerations") or []
    missing = [
        taint
        for taint in _ILL_NODE_TAINTS
        if not any(
            (toleration.get("key") or taint) == taint and (toleration.get("effect") or "NoExecute") == "NoExecute"
            for toleration in tolerations
        )
    ]
    if missing:
        added = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _ILL_NODE_SECONDS}
        spec["tolerations"] = [*tolerations, *({"key": taint, **added} for taint in missing)]
