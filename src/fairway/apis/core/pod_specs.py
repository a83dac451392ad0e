"""Rules about the spec of a pod, and about the templates that jobs make pods from."""

from typing import Final

from fairway.apis.core import checks, placement
from fairway.apis.core.checks import Part
from fairway.apis.core.containers import PodContext, wrong_containers, wrong_image_spaces, wrong_init_containers
from fairway.apis.core.resources import wrong_resources
from fairway.apis.core.security import wrong_pod_security
from fairway.apis.core.volumes import wrong_volumes
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.contentcache import Familiar, written
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")

_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SYSTEMS: Final = ("linux", "windows")
_MOST_SECONDS: Final = 2**31 - 1
_MOST_NAMESERVERS: Final = 3
_MOST_HOSTNAME_CHARACTERS: Final = 64

_right: Final[tuple[Familiar[bool], Familiar[bool]]] = (Familiar(), Familiar())
"""Specs that were right: those of templates, and those of pods."""


def wrong_pod(manifest: Manifest) -> list[FieldError]:
    """What is wrong with a pod, its status aside."""
    spec = manifest["spec"]
    errors = metadata.wrong_metadata(manifest)
    errors += wrong_pod_spec(spec, "spec", is_pod=True)
    if not spec.get("serviceAccountName") and spec.get("volumes"):
        errors += _tokens_without_account(spec["volumes"])
    errors += wrong_image_spaces(spec.get("containers") or [], "spec.containers")
    return errors + wrong_image_spaces(spec.get("initContainers") or [], "spec.initContainers")


def wrong_new_pod(manifest: Manifest) -> list[FieldError]:
    """The same, with what only a new pod must keep to."""
    errors = wrong_pod(manifest)
    spec = manifest["spec"]
    if spec.get("ephemeralContainers"):
        errors.append(problems.forbidden("spec.ephemeralContainers", None, "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        rule = "cannot be set until all schedulingGates have been cleared"
        errors.append(problems.forbidden("spec.nodeName", spec["nodeName"], rule))
    return errors


def wrong_template(template: Part, path: str) -> list[FieldError]:
    """What is wrong with a pod template; errors name labels without `metadata`, as an API server does."""
    errors = metadata.wrong_labels_and_annotations(template.get("metadata") or {}, path)
    spec = template["spec"]
    errors += wrong_pod_spec(spec, f"{path}.spec", is_pod=False)
    if spec.get("ephemeralContainers"):
        rule = "ephemeral containers not allowed in pod template"
        errors.append(problems.forbidden(f"{path}.spec.ephemeralContainers", None, rule))
    return errors


def wrong_pod_spec(spec: Part, path: str, *, is_pod: bool) -> list[FieldError]:
    """What is wrong with the spec of a pod, or of a template. One that was right once is not gone through again: jobs
    come in sweeps, and each of them shows its spec three times.
    """
    known, data = _right[is_pod], written(spec)
    if data is not None and known.get(data, spec):
        return []
    errors = found_wrong(spec, path, is_pod=is_pod)
    if data is not None and not errors:
        known.keep(data, spec, found=True)
    return errors


def found_wrong(spec: Part, path: str, *, is_pod: bool) -> list[FieldError]:
    """The same, the long way."""
    containers, init_containers = spec.get("containers") or [], spec.get("initContainers") or []
    volumes, errors = wrong_volumes(spec.get("volumes") or [], f"{path}.volumes")
    claims, found = _wrong_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    errors += found
    pod = PodContext(volumes, claims, spec.get("terminationGracePeriodSeconds") or 0, spec.get("restartPolicy") or "")
    errors += wrong_containers(containers, f"{path}.containers", pod)
    if init_containers:
        errors += wrong_init_containers(init_containers, containers, f"{path}.initContainers", pod)
    if spec.get("resources"):
        errors += _wrong_whole(spec["resources"], f"{path}.resources", claims)
    if spec.get("hostNetwork"):
        errors += _wrong_host_ports(containers, f"{path}.containers", is_pod=is_pod)
    errors += _wrong_choices(spec, path)
    errors += _wrong_names(spec, path)
    errors += _wrong_placement(spec, path)
    return errors + _wrong_rest(spec, path)


def _wrong_choices(spec: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        errors += checks.wrong_choice(spec.get("restartPolicy"), f"{path}.restartPolicy", RESTART_POLICIES)
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        errors += checks.wrong_choice(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in PREEMPTION_POLICIES:
        errors += checks.wrong_choice(preemption, f"{path}.preemptionPolicy", PREEMPTION_POLICIES)
    system = spec.get("os")
    if system is not None and system.get("name") not in _SYSTEMS:
        where = f"{path}.os" if system.get("name") else f"{path}.os.name"
        errors += checks.wrong_choice(system.get("name"), where, _SYSTEMS)
    return errors


def _wrong_names(spec: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if spec.get(field):
            errors += checks.wrong_subdomain(spec[field], f"{path}.{field}")
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += checks.wrong_label(spec[field], f"{path}.{field}")
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        errors += names.wrong_key(gate.get("conditionType") or "", f"{path}.readinessGates[{position}].conditionType")
    seen = set()
    for position, gate in enumerate(spec.get("schedulingGates") or ()):
        name, where = gate.get("name") or "", f"{path}.schedulingGates[{position}]"
        errors += names.wrong_key(name, where)
        if name in seen:
            errors.append(problems.duplicate(where, name))
        seen.add(name)
    return errors


def _wrong_placement(spec: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("nodeSelector"):
        errors += names.wrong_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("affinity"):
        errors += placement.wrong_affinity(spec["affinity"], f"{path}.affinity")
    if spec.get("tolerations"):
        errors += placement.wrong_tolerations(spec["tolerations"], f"{path}.tolerations")
    if spec.get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        errors += placement.wrong_spread(constraints, f"{path}.topologySpreadConstraints")
    return errors


def _wrong_rest(spec: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MOST_SECONDS:
        rule = f"must be between 1 and {_MOST_SECONDS}, inclusive"
        errors.append(problems.invalid(f"{path}.activeDeadlineSeconds", deadline, rule))
    if spec.get("dnsConfig") or spec.get("dnsPolicy") == "None":
        errors += _wrong_dns(spec, f"{path}.dnsConfig")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        where = f"{path}.hostAliases[{position}]"
        errors += checks.wrong_address(alias.get("ip") or "", f"{where}.ip")
        for place, name in enumerate(alias.get("hostnames") or ()):
            errors += checks.wrong_subdomain(name, f"{where}.hostnames[{place}]")
    if spec.get("overhead"):
        errors += wrong_resources({"limits": spec["overhead"]}, f"{path}.overhead", frozenset())
    if spec.get("securityContext"):
        errors += wrong_pod_security(spec["securityContext"], f"{path}.securityContext")
    if spec.get("hostnameOverride") is not None:
        errors += _wrong_hostname(spec, f"{path}.hostnameOverride")
    return errors


def _wrong_hostname(spec: Part, path: str) -> list[FieldError]:
    name = spec["hostnameOverride"]
    errors = checks.wrong_subdomain(name, path)
    if len(name) > _MOST_HOSTNAME_CHARACTERS:
        errors.append(problems.too_long(path, name, _MOST_HOSTNAME_CHARACTERS))
    errors += [
        problems.forbidden(path, name, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    return errors


def _wrong_whole(resources: Part, path: str, claims: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if resources.get("claims"):
        rule = "claims may not be set for Resources at pod-level"
        errors.append(problems.forbidden(f"{path}.claims", None, rule))
    return errors + wrong_resources(resources, path, claims, whole_pod=True)


def _wrong_claims(claims: list[Part], path: str) -> tuple[frozenset[str], list[FieldError]]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        where = problems.index(path, position)
        name = claim.get("name") or ""
        if name and name in seen:
            errors.append(problems.duplicate(f"{where}.name", name))
        else:
            errors += checks.wrong_label(name, f"{where}.name")
        seen.add(name)
        given = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field) is not None]
        if len(given) != 1:
            rule = "exactly one of `resourceClaimName` and `resourceClaimTemplateName` must be specified"
            errors.append(problems.invalid(where, claim, rule))
        for field in given:
            errors += checks.wrong_subdomain(claim[field], f"{where}.{field}")
    return frozenset(seen - {""}), errors


def _wrong_host_ports(containers: list[Part], path: str, *, is_pod: bool) -> list[FieldError]:
    errors = []
    for position, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                rule = "must match `containerPort` when `hostNetwork` is true"
                errors.append(problems.invalid(f"{path}[{position}].ports[{place}].hostPort", host, rule))
    return errors


def _wrong_dns(spec: Part, path: str) -> list[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [problems.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not servers:
            rule = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [problems.required(f"{path}.nameservers", rule)]
    errors: list[FieldError] = []
    if len(servers) > _MOST_NAMESERVERS:
        rule = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        errors.append(problems.invalid(f"{path}.nameservers", servers, rule))
    for position, server in enumerate(servers):
        errors += checks.wrong_address(server, f"{path}.nameservers[{position}]")
    for position, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            errors.append(problems.required(f"{path}.options[{position}]", "must not be empty"))
    return errors


def _tokens_without_account(volumes: list[Part]) -> list[FieldError]:
    rule = "must not be specified when serviceAccountName is not set"
    return [
        problems.forbidden(f"spec.volumes[{position}].projected.sources[{place}].serviceAccountToken", None, rule)
        for position, volume in enumerate(volumes)
        for place, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if source.get("serviceAccountToken") is not None
    ]
