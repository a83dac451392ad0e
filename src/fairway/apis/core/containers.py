"""Rules about the containers of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.apis.core import checks
from fairway.apis.core.checks import Part
from fairway.apis.core.references import wrong_environment
from fairway.apis.core.resources import wrong_resources
from fairway.apis.core.security import wrong_container_security
from fairway.apis.core.startable import wrong_arguments
from fairway.apis.core.volumes import wrong_mounts
from fairway.apis.machinery import problems
from fairway.errors import FieldError

_PULL_POLICIES: Final = frozenset({"Always", "IfNotPresent", "Never"})
_MESSAGE_POLICIES: Final = frozenset({"File", "FallbackToLogsOnError"})
_PROTOCOLS: Final = frozenset({"SCTP", "TCP", "UDP"})
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS: Final = ("Restart", "RestartAllContainers")
_RESIZES: Final = ("NotRequired", "RestartContainer")
_SCHEMES: Final = ("HTTP", "HTTPS")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip
_ONLY_FOR_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_NEEDED_FOR_RULES: Final = "must specify restartPolicy when restart rules are used"
_MOST_RESTART_RULES: Final = 20
_MOST_EXIT_CODES: Final = 255


@dataclass(frozen=True, slots=True)
class PodContext:
    """What the rules of a container need to know of its pod."""

    volumes: Mapping[str, Part]
    claims: frozenset[str]
    grace_period: int
    restart_policy: str


def wrong_containers(containers: list[Part], path: str, pod: PodContext) -> list[FieldError]:
    """What is wrong with the containers that do a pod's work."""
    if not containers:
        return [problems.required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, container in enumerate(containers):
        where = problems.index(path, position)
        errors += _wrong_container(container, where, pod)
        name = container.get("name") or ""
        if name in seen:
            errors.append(problems.duplicate(f"{where}.name", name))
        seen.add(name)
        errors += _wrong_hooks(container, where, pod)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            errors += _wrong_restarts(container, where)
    return errors + _host_port_conflicts(containers, path)


def wrong_init_containers(containers: list[Part], regular: list[Part], path: str, pod: PodContext) -> list[FieldError]:
    """What is wrong with the containers that come before; with `restartPolicy: Always` they stay as sidecars."""
    errors: list[FieldError] = []
    seen = {container.get("name") for container in regular}
    for position, container in enumerate(containers):
        where = problems.index(path, position)
        errors += _wrong_container(container, where, pod)
        if container.get("restartPolicy") is not None:
            errors += _wrong_restarts(container, where)
        elif container.get("restartPolicyRules"):
            errors.append(problems.required(f"{where}.restartPolicy", _NEEDED_FOR_RULES))
        name = container.get("name")
        if name and name in seen:
            errors.append(problems.duplicate(f"{where}.name", name))
        seen.add(name)
        if container.get("restartPolicy") == "Always":
            errors += _wrong_hooks(container, where, pod)
        else:
            errors += [
                problems.forbidden(f"{where}.{field}", container[field], _ONLY_FOR_SIDECARS)
                for field in ("lifecycle", *_PROBES)
                if container.get(field) is not None
            ]
        errors += _host_port_conflicts([container], path)
    return errors


def wrong_image_spaces(containers: list[Part], path: str) -> list[FieldError]:
    """Of a pod, not of a template: spaces around an image's name."""
    rule = "must not have leading or trailing whitespace"
    images = [container.get("image") or "" for container in containers]
    return [
        problems.invalid(f"{path}[{position}].image", image, rule)
        for position, image in enumerate(images)
        if image != image.strip()
    ]


def _wrong_container(container: Part, path: str, pod: PodContext) -> list[FieldError]:
    errors = checks.wrong_label(container.get("name") or "", f"{path}.name")
    if not container.get("image"):
        errors.append(problems.required(f"{path}.image"))
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        policy = container.get("terminationMessagePolicy")
        errors += checks.wrong_choice(policy, f"{path}.terminationMessagePolicy", ("File", "FallbackToLogsOnError"))
    pull = container.get("imagePullPolicy")
    if pull not in _PULL_POLICIES:
        errors += checks.wrong_choice(pull, f"{path}.imagePullPolicy", sorted(_PULL_POLICIES))
    if container.get("ports"):
        errors += _wrong_ports(container["ports"], f"{path}.ports")
    if container.get("env") or container.get("envFrom"):
        errors += wrong_environment(container, path)
    errors += wrong_arguments(container, path)
    if container.get("volumeMounts") or container.get("volumeDevices"):
        errors += wrong_mounts(container, path, pod.volumes)
    if container.get("resources"):
        errors += wrong_resources(container["resources"], f"{path}.resources", pod.claims)
    if container.get("resizePolicy"):
        errors += _wrong_resizes(container["resizePolicy"], f"{path}.resizePolicy", pod)
    if container.get("securityContext"):
        errors += wrong_container_security(container["securityContext"], f"{path}.securityContext")
    return errors


def _wrong_ports(ports: list[Part], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, port in enumerate(ports):
        where = problems.index(path, position)
        name = port.get("name")
        if name:
            fault = checks.port_name_fault(name)
            if fault:
                errors.append(problems.invalid(f"{where}.name", name, fault))
            elif name in seen:
                errors.append(problems.duplicate(f"{where}.name", name))
            seen.add(name)
        number = port.get("containerPort")
        errors += (
            checks.wrong_port(number, f"{where}.containerPort")
            if number
            else [problems.required(f"{where}.containerPort")]
        )
        if port.get("hostPort"):
            errors += checks.wrong_port(port["hostPort"], f"{where}.hostPort")
        if port.get("protocol") not in _PROTOCOLS:
            errors += checks.wrong_choice(port.get("protocol"), f"{where}.protocol", sorted(_PROTOCOLS))
    return errors


def _host_port_conflicts(containers: list[Part], path: str) -> list[FieldError]:
    errors = []
    seen = set()
    for position, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            taken = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if taken in seen:
                errors.append(problems.duplicate(f"{path}[{position}].ports[{place}].hostPort", taken))
            seen.add(taken)
    return errors


def _wrong_hooks(container: Part, path: str, pod: PodContext) -> list[FieldError]:
    errors: list[FieldError] = []
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for field in ("postStart", "preStop"):
            if lifecycle.get(field) is not None:
                errors += _wrong_handler(lifecycle[field], f"{path}.lifecycle.{field}", pod)
    for field in _PROBES:
        probe = container.get(field)
        if probe is not None:
            errors += _wrong_probe(probe, field, f"{path}.{field}", pod)
    return errors


def _wrong_probe(probe: Part, field: str, path: str, pod: PodContext) -> list[FieldError]:
    errors = _wrong_handler(probe, path, pod)
    errors += checks.negatives(probe, path, _PROBE_NUMBERS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(problems.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if field == "readinessProbe":
        if grace is not None:
            rule = "must not be set for readinessProbes"
            errors.append(problems.invalid(f"{path}.terminationGracePeriodSeconds", grace, rule))
    elif probe.get("successThreshold") != 1:
        errors.append(problems.invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1"))
    return errors


def _wrong_handler(handler: Part, path: str, pod: PodContext) -> list[FieldError]:
    given = [field for field in _HANDLERS if handler.get(field) is not None]
    if not given:
        return [problems.required(path, "must specify a handler type")]
    errors = [
        problems.forbidden(f"{path}.{field}", handler[field], "may not specify more than 1 handler type")
        for field in given[1:]
    ]
    field = given[0]
    action, where = handler[field], f"{path}.{field}"
    if field == "exec" and not action.get("command"):
        errors.append(problems.required(f"{where}.command"))
    elif field == "sleep":
        seconds = action.get("seconds") or 0
        if not 0 <= seconds <= pod.grace_period:
            rule = f"must be non-negative and less than terminationGracePeriodSeconds ({pod.grace_period})"
            errors.append(problems.invalid(where, seconds, rule))
    elif field != "exec":
        errors += checks.wrong_port(action.get("port"), f"{where}.port")
    if field == "httpGet":
        errors += checks.wrong_choice(action.get("scheme"), f"{where}.scheme", _SCHEMES)
        for header in action.get("httpHeaders") or ():
            errors += checks.wrong_header(header.get("name") or "", f"{where}.httpHeaders")
    return errors


def _wrong_restarts(container: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    rules = container.get("restartPolicyRules") or []
    policy = container.get("restartPolicy")
    if policy is None:
        errors.append(problems.required(f"{path}.restartPolicy", _NEEDED_FOR_RULES))
    elif policy not in _RESTART_POLICIES:
        errors.append(problems.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > _MOST_RESTART_RULES:
        errors.append(problems.too_many(f"{path}.restartPolicyRules", len(rules), _MOST_RESTART_RULES))
    for position, one in enumerate(rules):
        where = f"{path}.restartPolicyRules[{position}]"
        if one.get("action") not in _RESTART_ACTIONS:
            errors.append(problems.not_supported(f"{where}.action", one.get("action"), _RESTART_ACTIONS))
        codes = one.get("exitCodes")
        if codes is None:
            errors.append(problems.required(f"{where}.exitCodes", "must be specified"))
            continue
        if codes.get("operator") not in ("In", "NotIn"):
            errors.append(problems.not_supported(f"{where}.exitCodes.operator", codes.get("operator"), ("In", "NotIn")))
        if len(codes.get("values") or ()) > _MOST_EXIT_CODES:
            errors.append(problems.too_many(f"{where}.exitCodes.values", len(codes["values"]), _MOST_EXIT_CODES))
    return errors


def _wrong_resizes(policies: list[Part], path: str, pod: PodContext) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = set()
    for position, policy in enumerate(policies):
        resource, restart = policy.get("resourceName"), policy.get("restartPolicy")
        if resource in seen:
            errors.append(problems.duplicate(problems.index(path, position), resource))
        seen.add(resource)
        errors += checks.wrong_choice(resource, path, ("cpu", "memory"))
        errors += checks.wrong_choice(restart, path, _RESIZES)
        if pod.restart_policy == "Never" and restart != "NotRequired":
            rule = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(problems.invalid(path, restart, rule))
    return errors
