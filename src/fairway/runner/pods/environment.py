"""The environment of a container: the variables of its pod, and a few of this machine."""

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.installation import without_own
from fairway.runner.pods.expansion import expanded
from fairway.runner.pods.fields import field_value, resource_value
from fairway.runner.pods.troubles import ConfigError

INHERITED: Final = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
)  # fmt: skip
"""What containers get of the server's own environment, and nothing else: it can hold secrets."""

_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Lookup = Callable[[str, str], Manifest | None]
"""An object by namespace and name."""


class Sources(Struct, frozen=True):
    """Where values come from that are not in the pod itself."""

    config_maps: Lookup
    secrets: Lookup
    node: Mapping[str, str]
    """What the node has to give: resource to quantity."""


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What every container gets of the server's environment: nothing of the Python environment of Fairway itself."""
    kept = without_own({name: environment[name] for name in INHERITED if name in environment})
    kept.setdefault("PATH", _DEFAULT_PATH)
    return kept


def variables_of(
    pod: Manifest, container: Mapping[str, Any], sources: Sources, given: Mapping[str, str]
) -> dict[str, str]:
    """The variables that a container declares; `ConfigError` where one cannot be had.

    `given` are those that this machine adds and that values may refer to.
    """
    declared: dict[str, str] = {}
    namespace = pod["metadata"]["namespace"]
    for source in container.get("envFrom") or ():
        declared.update(_all_of(source, namespace, sources))
    known = {**given, **declared}
    for variable in container.get("env") or ():
        name, value = variable["name"], variable.get("value")
        if value:
            found: str | None = expanded(value, known)
        elif variable.get("valueFrom"):
            found = _from(variable["valueFrom"], pod, container, sources)
        else:
            found = ""
        if found is not None:
            declared[name] = known[name] = found
    for name, value in declared.items():
        if "\0" in value or "\0" in name or "=" in name:
            raise ConfigError(f"environment variable {name!r} cannot be set: it contains NUL, or its name contains =")
    return declared


def _all_of(source: Mapping[str, Any], namespace: str, sources: Sources) -> dict[str, str]:
    """The entries of a whole config map or secret."""
    prefix = source.get("prefix") or ""
    if reference := source.get("configMapRef"):
        found = _object("configmap", sources.config_maps, namespace, reference)
        data = (found or {}).get("data") or {}
    elif reference := source.get("secretRef"):
        found = _object("secret", sources.secrets, namespace, reference)
        data = {key: decoded(value) for key, value in ((found or {}).get("data") or {}).items()}
    else:
        data = {}
    return {prefix + key: value for key, value in data.items()}


def _from(source: Mapping[str, Any], pod: Manifest, container: Mapping[str, Any], sources: Sources) -> str | None:
    """One value from elsewhere; `None` where an optional one is not there."""
    namespace = pod["metadata"]["namespace"]
    if reference := source.get("fieldRef"):
        return field_value(pod, reference["fieldPath"])
    if reference := source.get("resourceFieldRef"):
        return resource_value(pod, container, reference, sources.node)
    if reference := source.get("configMapKeyRef"):
        found = _object("configmap", sources.config_maps, namespace, reference)
        return _entry("ConfigMap", found, reference, namespace)
    if reference := source.get("secretKeyRef"):
        found = _object("secret", sources.secrets, namespace, reference)
        value = _entry("Secret", found, reference, namespace)
        return None if value is None else decoded(value)
    raise ConfigError("variables from files (fileKeyRef) are not supported; use a config map or a secret")


def _object(kind: str, lookup: Lookup, namespace: str, reference: Mapping[str, Any]) -> Manifest | None:
    found = lookup(namespace, reference["name"])
    if found is None and not reference.get("optional"):
        raise ConfigError(f'{kind} "{reference["name"]}" not found')
    return found


def _entry(kind: str, found: Manifest | None, reference: Mapping[str, Any], namespace: str) -> str | None:
    if found is None:
        return None
    value = (found.get("data") or {}).get(reference["key"])
    if value is None and not reference.get("optional"):
        raise ConfigError(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")
    return value


def decoded(value: str) -> str:
    """A secret's value as a variable."""
    try:
        return b64decode(value).decode()
    except UnicodeDecodeError as error:
        raise ConfigError("the value of a secret that is not UTF-8 cannot be a variable; mount it as a file") from error
