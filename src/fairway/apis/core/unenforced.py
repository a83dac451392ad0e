"""Settings of a pod that shield it or others and that are not applied where pods are processes.

They are accepted, since every hardened manifest has some, and answered with a warning each: users must not rely on
them. What would run with more rights than it asks for is refused by the runner when it starts.
"""

from collections.abc import Iterator
from typing import Any, Final

from fairway.apis.core.checks import Part
from fairway.apis.machinery.kind import Manifest

_WHY: Final = "is not applied: pods are processes of this machine and of the user who runs the server"
_CONTEXT: Final = (
    "appArmorProfile", "fsGroup", "procMount", "readOnlyRootFilesystem", "runAsGroup", "runAsUser", "seccompProfile",
    "seLinuxOptions", "supplementalGroups", "sysctls", "windowsOptions",
)  # fmt: skip
_SPEC: Final = ("dnsConfig", "hostAliases", "runtimeClassName")
_LISTS: Final = ("initContainers", "containers")


def pod_warnings(pod: Manifest) -> tuple[str, ...]:
    return tuple(_unenforced(pod.get("spec") or {}, "spec"))


def job_warnings(job: Manifest) -> tuple[str, ...]:
    """The same for whatever has a pod template."""
    template = (job.get("spec") or {}).get("template") or {}
    return tuple(_unenforced(template.get("spec") or {}, "spec.template.spec"))


def managed_job_warnings(job: Manifest) -> tuple[str, ...]:
    """The same for the parts of pods in a ManagedJob: the launcher's configuration and that of each task."""
    spec = _as_object(job.get("spec"))
    found = [*_unenforced(_as_object(_as_object(spec.get("podConfig")).get("spec")), "spec.podConfig.spec")]
    for number, task in enumerate(_as_list(spec.get("tasks"))):
        part = _as_object(task)
        for name in ("config", "kubernetes", "pod_config", "spec"):
            part = _as_object(part.get(name))
        found += _unenforced(part, f"spec.tasks[{number}].config.kubernetes.pod_config.spec")
    return tuple(found)


def _as_object(value: Any) -> Part:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _unenforced(spec: Part, path: str) -> Iterator[str]:
    fields = [f"{path}.{name}" for name in _SPEC if spec.get(name)]
    if spec.get("hostUsers") is False:
        fields.append(f"{path}.hostUsers")
    fields += _of_context(spec.get("securityContext"), f"{path}.securityContext")
    for part in _LISTS:
        for number, given in enumerate(_as_list(spec.get(part))):
            where, container = f"{path}.{part}[{number}]", _as_object(given)
            fields += _of_context(container.get("securityContext"), f"{where}.securityContext")
            for position, mount in enumerate(_as_list(container.get("volumeMounts"))):
                if _as_object(mount).get("readOnly"):
                    fields.append(f"{where}.volumeMounts[{position}].readOnly")
    for field in fields:
        yield f"{field}: {_WHY}"


def _of_context(context: Any, path: str) -> list[str]:
    context = _as_object(context)
    if not context:
        return []
    found = [f"{path}.{name}" for name in _CONTEXT if _is_set(context.get(name))]
    if context.get("allowPrivilegeEscalation") is False:
        found.append(f"{path}.allowPrivilegeEscalation")
    if context.get("privileged"):
        found.append(f"{path}.privileged")
    capabilities = _as_object(context.get("capabilities"))
    return found + [f"{path}.capabilities.{name}" for name in ("add", "drop") if capabilities.get(name)]


def _is_set(value: Any) -> bool:
    """Whether a value is set; user 0 is a value."""
    return value is not None and value is not False and value not in ([], {})
