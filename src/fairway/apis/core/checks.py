"""Small rules that many fields share: names, numbers in a range, choices, paths of files, selectors of labels."""

import re
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Final

from fairway.apis.machinery import names, problems
from fairway.errors import FieldError

Part = dict[str, Any]
"""An object inside a manifest."""

_PORT_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_ENVIRONMENT: Final = re.compile(r"[\x20-\x3c\x3e-\x7e]+")
_MOST_KEY_CHARACTERS: Final = 253
_MOST_PORT: Final = 65535

_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def wrong_label(name: str, path: str) -> list[FieldError]:
    """What is wrong with a name that must be a DNS label; it may not be missing."""
    if not name:
        return [problems.required(path)]
    return [problems.invalid(path, name, fault) for fault in names.label_faults(name)]


def wrong_subdomain(name: str, path: str) -> list[FieldError]:
    return [problems.invalid(path, name, fault) for fault in names.subdomain_faults(name)]


def wrong_choice(value: str | None, path: str, choices: Collection[str]) -> list[FieldError]:
    """What is wrong with a field that must hold one of a few words."""
    if value in choices:
        return []
    return [problems.not_supported(path, value, choices)] if value else [problems.required(path)]


def negatives(part: Mapping[str, Any], path: str, fields: Iterable[str]) -> list[FieldError]:
    """Those of the fields that hold a number below zero."""
    return [
        problems.invalid(problems.child(path, field), part[field], _NOT_NEGATIVE)
        for field in fields
        if (part.get(field) or 0) < 0
    ]


def wrong_port(port: object, path: str) -> list[FieldError]:
    """A port by number or by name."""
    if isinstance(port, str):
        fault = port_name_fault(port)
        return [problems.invalid(path, port, fault)] if fault else []
    if isinstance(port, int) and 1 <= port <= _MOST_PORT:
        return []
    return [problems.invalid(path, port, "must be between 1 and 65535, inclusive")]


def port_name_fault(name: str) -> str:
    if len(name) > 15:
        return "must be no more than 15 characters"
    if not _PORT_NAME.fullmatch(name):
        return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if "--" in name:
        return "must not contain consecutive hyphens"
    if not any(character.isalpha() for character in name):
        return "must contain at least one letter (a-z)"
    return ""


def wrong_config_key(key: str, path: str) -> list[FieldError]:
    """A key of a config map or a secret, which becomes the name of a file."""
    faults = []
    if len(key) > _MOST_KEY_CHARACTERS:
        faults.append(f"must be no more than {_MOST_KEY_CHARACTERS} bytes")
    if not _CONFIG_KEY.fullmatch(key):
        faults.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY.pattern}')"
        )
    elif key in (".", ".."):
        faults.append(f"must not be '{key}'")
    elif key.startswith(".."):
        faults.append("must not start with '..'")
    return [problems.invalid(path, key, fault) for fault in faults]


def wrong_variable_name(name: str, path: str) -> list[FieldError]:
    """The name of an environment variable: whatever can be printed, but no `=`."""
    if _ENVIRONMENT.fullmatch(name):
        return []
    rule = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    return [problems.invalid(path, name, rule)]


def wrong_header(name: str, path: str) -> list[FieldError]:
    if _HEADER.fullmatch(name):
        return []
    rule = f"a valid HTTP header must consist of alphanumeric characters or '-' (regex used is '{_HEADER.pattern}')"
    return [problems.invalid(path, name, rule)]


def wrong_inner_path(path_of_file: str, path: str) -> list[FieldError]:
    """A path that must lead downwards from where it is mounted."""
    errors = []
    if path_of_file.startswith("/"):
        errors.append(problems.invalid(path, path_of_file, "must be a relative path"))
    return errors + wrong_steps(path_of_file, path)


def wrong_file_path(path_of_file: str, path: str) -> list[FieldError]:
    """The same for a file that the kubelet writes, whose own names start with two dots."""
    errors = wrong_inner_path(path_of_file, path)
    if path_of_file.startswith("..") and not path_of_file.startswith("../"):
        errors.append(problems.invalid(path, path_of_file, "must not start with '..'"))
    return errors


def wrong_steps(path_of_file: str, path: str) -> list[FieldError]:
    if ".." in path_of_file.split("/"):
        return [problems.invalid(path, path_of_file, "must not contain '..'")]
    return []


def wrong_mode(mode: int | None, path: str) -> list[FieldError]:
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [problems.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")]


def wrong_address(address: str, path: str) -> list[FieldError]:
    try:
        ip_address(address)
    except ValueError:
        return [problems.invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def wrong_label_selector(selector: Part | None, path: str) -> list[FieldError]:
    if not selector:
        return []
    errors: list[FieldError] = []
    if selector.get("matchLabels"):
        errors += names.wrong_labels(selector["matchLabels"], f"{path}.matchLabels")
    for position, expression in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{position}]"
        values = expression.get("values") or []
        operator = expression.get("operator") or ""
        if operator in ("In", "NotIn"):
            if not values:
                rule = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(problems.required(f"{where}.values", rule))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(problems.forbidden(f"{where}.values", values, rule))
        else:
            errors.append(problems.invalid(f"{where}.operator", operator, "not a valid selector operator"))
        errors += names.wrong_key(expression.get("key") or "", f"{where}.key")
        for place, value in enumerate(values):
            faults = names.value_faults(value)
            errors += [problems.invalid(f"{where}.values[{place}]", value, fault) for fault in faults]
    return errors
