"""Rules about what a container reads from elsewhere: fields of its own pod, config maps, secrets, files."""

from collections.abc import Collection
from typing import Final

from fairway.apis.core import checks
from fairway.apis.core.checks import Part
from fairway.apis.core.startable import wrong_string
from fairway.apis.machinery import names, problems
from fairway.errors import FieldError

_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    }
)  # fmt: skip
"""The fields that a reference can name at all; which of them depends on where it stands."""

_VARIABLE_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_FILE_FIELDS: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_RESOURCES: Final = tuple(
    f"{side}.{resource}" for side in ("limits", "requests") for resource in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_DIVISORS: Final = frozenset({"1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE")})
_CPU_DIVISORS: Final = frozenset({"1m", "1"})
_VARIABLE_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def wrong_environment(container: Part, path: str) -> list[FieldError]:
    """What is wrong with the variables of a container."""
    errors: list[FieldError] = []
    for position, variable in enumerate(container.get("env") or ()):
        where = f"{path}.env[{position}]"
        name = variable.get("name") or ""
        errors += checks.wrong_variable_name(name, f"{where}.name") if name else [problems.required(f"{where}.name")]
        if variable.get("valueFrom") is not None:
            errors += _wrong_variable_source(variable, f"{where}.valueFrom")
        elif variable.get("value"):
            errors += wrong_string(variable["value"], f"{where}.value", beside=len(name) + 1)
    for position, source in enumerate(container.get("envFrom") or ()):
        where = f"{path}.envFrom[{position}]"
        if source.get("prefix"):
            errors += checks.wrong_variable_name(source["prefix"], f"{where}.prefix")
        given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in given:
            errors += _wrong_object_name(source[field], f"{where}.{field}")
        if len(given) != 1:
            many = "may not have more than one field specified at a time"
            rule = many if given else "must specify one of: `configMapRef` or `secretRef`"
            errors.append(problems.invalid(f"{path}.envFrom", "", rule))
    return errors


def wrong_file(item: Part, path: str) -> list[FieldError]:
    """A file of a downward API volume; errors name the volume, as an API server does, not the item."""
    errors: list[FieldError] = []
    if not item.get("path"):
        errors.append(problems.required(f"{path}.path"))
    errors += checks.wrong_file_path(item.get("path") or "", f"{path}.path")
    if item.get("fieldRef") is not None:
        errors += _wrong_field(item["fieldRef"], f"{path}.fieldRef", _FILE_FIELDS)
        if item.get("resourceFieldRef") is not None:
            rule = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(problems.invalid(path, "resource", rule))
    elif item.get("resourceFieldRef") is not None:
        errors += _wrong_resource(item["resourceFieldRef"], f"{path}.resourceFieldRef", in_file=True)
    else:
        errors.append(problems.required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + checks.wrong_mode(item.get("mode"), f"{path}.mode")


def _wrong_variable_source(variable: Part, path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    given = [field for field in _VARIABLE_SOURCES if source.get(field) is not None]
    for field in given:
        part, where = source[field], f"{path}.{field}"
        if field == "fieldRef":
            errors += _wrong_field(part, where, _VARIABLE_FIELDS)
        elif field == "resourceFieldRef":
            errors += _wrong_resource(part, where, in_file=False)
        elif field == "fileKeyRef":
            errors += _wrong_key_of_file(part, where)
        else:
            errors += _wrong_key_of_object(part, where)
    if not given:
        sources = ", ".join(f"`{one}`" for one in _VARIABLE_SOURCES)
        errors.append(problems.invalid(path, "", f"must specify one of: {sources}"))
    elif variable.get("value"):
        errors.append(problems.invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(problems.invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _wrong_field(reference: Part, path: str, fields: Collection[str]) -> list[FieldError]:
    if not reference.get("apiVersion"):
        return [problems.required(f"{path}.apiVersion")]
    named = reference.get("fieldPath") or ""
    if not named:
        return [problems.required(f"{path}.fieldPath")]
    if reference["apiVersion"] != "v1":
        rule = f"error converting fieldPath: unsupported pod version: {reference['apiVersion']}"
        return [problems.invalid(f"{path}.fieldPath", named, rule)]
    base, bracket, rest = named.partition("['")
    if bracket and rest.endswith("']"):
        if base not in ("metadata.annotations", "metadata.labels"):
            rule = f"error converting fieldPath: field label does not support subscript: {named}"
            return [problems.invalid(f"{path}.fieldPath", named, rule)]
        key = rest[:-2]
        return names.wrong_key(key.lower() if base == "metadata.annotations" else key, path)
    if named not in _POD_FIELDS:
        rule = f"error converting fieldPath: field label not supported: {named}"
        return [problems.invalid(f"{path}.fieldPath", named, rule)]
    if named not in fields:
        return [problems.not_supported(f"{path}.fieldPath", named, fields)]
    return []


def _wrong_resource(reference: Part, path: str, *, in_file: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    resource = reference.get("resource") or ""
    if in_file and not reference.get("containerName"):
        errors.append(problems.required(f"{path}.containerName"))
    elif not resource:
        errors.append(problems.required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(problems.not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = str(reference.get("divisor") or "0")
    divisors = _CPU_DIVISORS if resource.endswith(".cpu") else _DIVISORS
    known = resource in _RESOURCES or resource.startswith(_HUGE_PAGES)
    if known and divisor != "0" and divisor not in divisors:
        rule = f"only divisor's values {', '.join(sorted(divisors))} are supported with this resource"
        errors.append(problems.invalid(f"{path}.divisor", divisor, rule))
    return errors


def _wrong_key_of_object(reference: Part, path: str) -> list[FieldError]:
    errors = checks.wrong_subdomain(reference.get("name") or "", f"{path}.name")
    key = reference.get("key") or ""
    return errors + (checks.wrong_config_key(key, f"{path}.key") if key else [problems.required(f"{path}.key")])


def _wrong_key_of_file(reference: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key = reference.get("key") or ""
    errors += checks.wrong_variable_name(key, f"{path}.key") if key else [problems.required(f"{path}.key")]
    errors += checks.wrong_label(reference.get("volumeName") or "", f"{path}.volumeName")
    file = reference.get("path") or ""
    return errors + (checks.wrong_steps(file, f"{path}.path") if file else [problems.required(f"{path}.path")])


def _wrong_object_name(reference: Part, path: str) -> list[FieldError]:
    name = reference.get("name") or ""
    return checks.wrong_subdomain(name, f"{path}.name") if name else [problems.required(f"{path}.name")]
