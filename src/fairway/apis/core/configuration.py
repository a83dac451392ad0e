"""Config maps and secrets: texts and files for pods."""

import binascii
import json
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Any, Final

from fairway.apis.core import checks
from fairway.apis.core.selectables import string_at
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import AGE, text_at
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError

_MOST_BYTES: Final = 1024 * 1024
_FIXED: Final = "field is immutable when `immutable` is set"
_DOCKER_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_TOKEN_ACCOUNT: Final = "kubernetes.io/service-account.name"  # noqa: S105  the key of an annotation


def _entries(manifest: Manifest, _now: datetime) -> int:
    return len(manifest.get("data") or ()) + len(manifest.get("binaryData") or ())


def _validate_config_map(manifest: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata(manifest)
    texts, files = manifest.get("data") or {}, manifest.get("binaryData") or {}
    for key in texts:
        errors += checks.wrong_config_key(key, f"data[{key}]")
        if key in files:
            errors.append(problems.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in files:
        errors += checks.wrong_config_key(key, f"binaryData[{key}]")
    size = sum(len(text.encode()) for text in texts.values()) + sum(map(_decoded_size, files.values()))
    if size > _MOST_BYTES:
        errors.append(problems.too_long("", "", _MOST_BYTES))
    return errors


def _validate_config_map_update(old: Manifest, new: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata_update(old, new)
    errors += _changed_though_fixed(old, new, "data", "binaryData")
    return errors + _validate_config_map(new)


def _default_secret(manifest: Manifest) -> None:
    if not manifest.get("type"):
        manifest["type"] = "Opaque"
    texts = manifest.pop("stringData", None)
    if texts:
        data = manifest.get("data") or {}
        manifest["data"] = {**data, **{key: b64encode(text.encode()).decode() for key, text in texts.items()}}


def _validate_secret(manifest: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata(manifest)
    data = manifest.get("data") or {}
    for key in data:
        errors += checks.wrong_config_key(key, f"data[{key}]")
    if sum(map(_decoded_size, data.values())) > _MOST_BYTES:
        errors.append(problems.too_long("data", "", _MOST_BYTES))
    return errors + _wrong_for_type(manifest, data)


def _wrong_for_type(manifest: Manifest, data: dict[str, str]) -> list[FieldError]:
    """What secrets of a known type must hold."""
    kind = manifest.get("type")
    if kind == "kubernetes.io/service-account-token":
        if not (manifest["metadata"].get("annotations") or {}).get(_TOKEN_ACCOUNT):
            return [problems.required(f"metadata.annotations[{_TOKEN_ACCOUNT}]")]
    elif kind in _DOCKER_KEYS:
        key = _DOCKER_KEYS[kind]
        if key not in data:
            return [problems.required(f"data[{key}]")]
        if not _is_json_object(data[key]):
            return [problems.invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")]
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            return [problems.required("data[username]"), problems.required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            return [problems.required("data[ssh-privatekey]")]
    elif kind == "kubernetes.io/tls":
        return [problems.required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _validate_secret_update(old: Manifest, new: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata_update(old, new)
    errors += changed(old.get("type"), new.get("type"), "type")
    errors += _changed_though_fixed(old, new, "data")
    return errors + _validate_secret(new)


def _changed_though_fixed(old: Manifest, new: Manifest, *fields: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [problems.forbidden("immutable", new.get("immutable"), _FIXED)]
    errors += [
        problems.forbidden(field, None, _FIXED) for field in fields if (old.get(field) or {}) != (new.get(field) or {})
    ]
    return errors


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def _is_json_object(encoded: str) -> bool:
    try:
        content: Any = json.loads(b64decode(encoded))
    except (ValueError, binascii.Error):
        return False
    return isinstance(content, dict)


CONFIG_MAP: Final = Kind(
    group="",
    kind="ConfigMap",
    plural="configmaps",
    versions=("v1",),
    stored="v1",
    short_names=("cm",),
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.ConfigMap")},
    columns={"v1": (Column(name="Data", value=_entries, description="How many entries it has."), AGE)},
    rules=Rules(validate=_validate_config_map, validate_update=_validate_config_map_update),
)

SECRET: Final = Kind(
    group="",
    kind="Secret",
    plural="secrets",
    versions=("v1",),
    stored="v1",
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.Secret")},
    columns={
        "v1": (
            Column(name="Type", value=text_at("type"), description="What it is for."),
            Column(name="Data", value=_entries, description="How many entries it has."),
            AGE,
        )
    },
    selectable={"type": string_at("type")},
    rules=Rules(default=_default_secret, validate=_validate_secret, validate_update=_validate_secret_update),
)
