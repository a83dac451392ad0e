"""The role hash of a pod in its group: pods with equal requests have the same role.

The role is the beginning of a checksum over what matters for admission. It names the group's pod sets, so it is the
same text that Kueue computes: over JSON with keys in the order in which Kubernetes' types have them.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from fairway.apis.machinery.kind import Manifest

_LENGTH: Final = 8
_ESCAPED: Final = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}
"""What Kubernetes writes as escapes in JSON although it need not be."""

_Write: TypeAlias = Callable[[Any], Any]


def role_hash(spec: Mapping[str, Any]) -> str:
    """The role of a pod with this spec, as it is stored."""
    text = json.dumps({"spec": _shape(spec)}, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPED)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


class _Field(NamedTuple):
    name: str
    write: _Write | None = None
    """How what is in it is ordered; `None` for what is plain."""

    required: bool = False
    """Written even if it is empty."""

    pointer: bool = False
    """Written when it is set, even to zero."""


def _struct(*fields: _Field) -> _Write:
    def write(value: Mapping[str, Any]) -> dict[str, Any]:
        result = {}
        for name, inner, required, pointer in fields:
            found = value.get(name)
            if found is None if pointer else not found and not required:
                continue
            result[name] = found if inner is None or found is None else inner(found)
        return result

    return write


def _list_of(write: _Write) -> _Write:
    return lambda values: [write(value) for value in values]


def _sorted(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(value.items()))


def _needed(name: str, write: _Write | None = None) -> _Field:
    return _Field(name, write, required=True)


def _pointer(name: str, write: _Write | None = None) -> _Field:
    return _Field(name, write, pointer=True)


_PORT: Final = _struct(
    _Field("name"), _Field("hostPort"), _needed("containerPort"), _Field("protocol"), _Field("hostIP")
)
_TOLERATION: Final = _struct(
    _Field("key"), _Field("operator"), _Field("value"), _Field("effect"), _pointer("tolerationSeconds")
)
_REQUIREMENT: Final = _struct(_needed("key"), _needed("operator"), _Field("values"))
_LABEL_SELECTOR: Final = _struct(_Field("matchLabels", _sorted), _Field("matchExpressions", _list_of(_REQUIREMENT)))
_NODE_TERM: Final = _struct(
    _Field("matchExpressions", _list_of(_REQUIREMENT)), _Field("matchFields", _list_of(_REQUIREMENT))
)
_POD_TERM: Final = _struct(
    _pointer("labelSelector", _LABEL_SELECTOR),
    _Field("namespaces"),
    _needed("topologyKey"),
    _pointer("namespaceSelector", _LABEL_SELECTOR),
    _Field("matchLabelKeys"),
    _Field("mismatchLabelKeys"),
)
_REQUIRED_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_AFFINITY: Final = _struct(
    _pointer(_REQUIRED_TERMS, _struct(_needed("nodeSelectorTerms", _list_of(_NODE_TERM)))),
    _Field(_PREFERRED_TERMS, _list_of(_struct(_needed("weight"), _needed("preference", _NODE_TERM)))),
)
_POD_AFFINITY: Final = _struct(
    _Field(_REQUIRED_TERMS, _list_of(_POD_TERM)),
    _Field(_PREFERRED_TERMS, _list_of(_struct(_needed("weight"), _needed("podAffinityTerm", _POD_TERM)))),
)
_AFFINITY: Final = _struct(
    _pointer("nodeAffinity", _NODE_AFFINITY),
    _pointer("podAffinity", _POD_AFFINITY),
    _pointer("podAntiAffinity", _POD_AFFINITY),
)
_SPREAD: Final = _struct(
    _needed("maxSkew"),
    _needed("topologyKey"),
    _needed("whenUnsatisfiable"),
    _pointer("labelSelector", _LABEL_SELECTOR),
    _pointer("minDomains"),
    _pointer("nodeAffinityPolicy"),
    _pointer("nodeTaintsPolicy"),
    _Field("matchLabelKeys"),
)
_CLAIM: Final = _struct(_needed("name"), _pointer("resourceClaimName"), _pointer("resourceClaimTemplateName"))


def _shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What of a spec makes its role; absent parts are written as null."""
    shape = {
        "affinity": _or_null(spec.get("affinity"), _AFFINITY),
        "containers": _containers(spec.get("containers") or ()),
        "initContainers": _containers(spec.get("initContainers") or ()),
        "nodeSelector": _or_null(spec.get("nodeSelector"), _sorted),
        "overhead": _or_null(spec.get("overhead"), _sorted),
        "priority": spec.get("priority"),
        "resourceClaims": _or_null(spec.get("resourceClaims"), _list_of(_CLAIM)),
    }
    if spec.get("resources") is not None:
        shape["resources"] = _or_null(spec["resources"].get("requests"), _sorted)
    shape["runtimeClassName"] = spec.get("runtimeClassName")
    shape["tolerations"] = _or_null(spec.get("tolerations"), _list_of(_TOLERATION))
    shape["topologySpreadConstraints"] = _or_null(spec.get("topologySpreadConstraints"), _list_of(_SPREAD))
    return shape


def _containers(containers: Iterable[Manifest]) -> list[dict[str, Any]] | None:
    shapes = [
        {
            "ports": _or_null(container.get("ports"), _list_of(_PORT)),
            "resources": {"requests": _or_null((container.get("resources") or {}).get("requests"), _sorted)},
        }
        for container in containers
    ]
    return shapes or None


def _or_null(value: Any, write: _Write) -> Any:
    return None if value is None else write(value)
