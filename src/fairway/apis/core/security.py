"""Rules about security contexts: whom containers run as, and what shields them."""

from typing import Final

from fairway.apis.core import checks
from fairway.apis.core.checks import Part
from fairway.apis.machinery import problems
from fairway.errors import FieldError

_MOST_ID: Final = 2**31 - 1
_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_POD_CHOICES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("Recursive",),
}


def wrong_pod_security(context: Part, path: str) -> list[FieldError]:
    """What is wrong with what a pod says for all its containers."""
    errors = _wrong_ids(context, path, "runAsUser", "runAsGroup", "fsGroup")
    for position, group in enumerate(context.get("supplementalGroups") or ()):
        errors += _wrong_id(group, f"{path}.supplementalGroups[{position}]")
    for field, choices in _POD_CHOICES.items():
        if context.get(field) is not None and context[field] not in choices:
            errors.append(problems.not_supported(f"{path}.{field}", context[field], choices))
    return errors + _wrong_profiles(context, path)


def wrong_container_security(context: Part, path: str) -> list[FieldError]:
    """What is wrong with what a container says for itself."""
    errors = _wrong_ids(context, path, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        errors.append(problems.not_supported(f"{path}.procMount", mount, ("Default", "Unmasked")))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(problems.invalid(path, context, rule))
        added = (context.get("capabilities") or {}).get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            rule = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(problems.invalid(path, context, rule))
    return errors + _wrong_profiles(context, path)


def _wrong_ids(context: Part, path: str, *fields: str) -> list[FieldError]:
    return [
        error
        for field in fields
        if context.get(field) is not None
        for error in _wrong_id(context[field], f"{path}.{field}")
    ]


def _wrong_id(number: int, path: str) -> list[FieldError]:
    if 0 <= number <= _MOST_ID:
        return []
    return [problems.invalid(path, number, f"must be between 0 and {_MOST_ID}, inclusive")]


def _wrong_profiles(context: Part, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("seccompProfile", "appArmorProfile"):
        profile = context.get(field)
        if profile is None:
            continue
        where = f"{path}.{field}"
        kind, local = profile.get("type"), profile.get("localhostProfile")
        errors += checks.wrong_choice(kind, f"{where}.type", _PROFILE_TYPES)
        if kind == "Localhost":
            if not local:
                errors.append(problems.required(f"{where}.localhostProfile", "must be set when type is Localhost"))
            elif field == "seccompProfile":
                errors += checks.wrong_inner_path(local, f"{where}.localhostProfile")
        elif local is not None and (field == "seccompProfile" or kind in _PROFILE_TYPES):
            rule = "can only be set when type is Localhost"
            errors.append(problems.invalid(f"{where}.localhostProfile", local, rule))
    return errors
