"""The downward API: fields of a pod, and requests and limits of its containers."""

from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.core.pod_parts import containers_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.runner.pods.troubles import ConfigError

ADDRESS: Final = "127.0.0.1"
"""Where pods are reached: they are processes of this machine, so all at the same address."""

_ADDRESSES: Final = frozenset({"status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"})
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def field_value(pod: Manifest, path: str) -> str:
    """A field by the path of a `fieldRef`."""
    metadata = pod["metadata"]
    if path.endswith("']"):
        field, _, key = path[:-2].partition("['")
        if field in ("metadata.labels", "metadata.annotations"):
            return str((metadata.get(field.removeprefix("metadata.")) or {}).get(key, ""))
    if path in _ADDRESSES:
        return ADDRESS
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(metadata[path.removeprefix("metadata.")])
    if path in ("metadata.labels", "metadata.annotations"):
        return _lines(metadata.get(path.removeprefix("metadata.")) or {})
    if path in ("spec.nodeName", "spec.serviceAccountName"):
        return str(pod["spec"].get(path.removeprefix("spec.")) or "")
    raise ConfigError(f"unsupported fieldPath: {path}")


def resource_value(
    pod: Manifest, container: Mapping[str, Any], reference: Mapping[str, Any], node: Mapping[str, str]
) -> str:
    """What a `resourceFieldRef` asks for, in units of its divisor; a missing limit is all that the node has."""
    if reference.get("containerName"):
        container = _container(pod, reference["containerName"])
    side, _, resource = reference["resource"].partition(".")
    resources = container.get("resources") or {}
    text = (resources.get(side) or {}).get(resource)
    if text is None and side == "limits":
        text = node.get(resource)
    quantity = ZERO if text is None else Quantity.parse(text)
    divisor = Quantity.parse(reference.get("divisor") or "0")
    if not divisor.nanos:
        divisor = Quantity.parse("1")
    if resource == "cpu":
        return str(-(-quantity.milli() // divisor.milli()))
    return str(-(-quantity.value() // divisor.value()))


def _container(pod: Manifest, name: str) -> Mapping[str, Any]:
    for container in containers_of(pod["spec"]):
        if container["name"] == name:
            found: Mapping[str, Any] = container
            return found
    raise ConfigError(f"container {name} not found")


def _lines(values: Mapping[str, str]) -> str:
    """Labels or annotations as a file shows them: sorted, one a line, quoted."""
    return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(values.items()))


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)
