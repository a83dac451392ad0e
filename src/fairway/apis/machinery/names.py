"""The syntax of names, labels and annotations, with the sentences that Kubernetes uses for it."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from fairway.apis.machinery import problems
from fairway.errors import FieldError

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_QUALIFIED})?"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)
_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_MOST_ANNOTATION_BYTES: Final = 256 * 1024
_MOST_BYTES_OF_ONE: Final = 4
"""Of a character in UTF-8."""

_MOST_GATE_CHARACTERS: Final = 63


@lru_cache(maxsize=4096)
def subdomain_faults(name: str) -> tuple[str, ...]:
    """Why this is no DNS subdomain, which most names of objects must be."""
    faults = ["must be no more than 253 bytes"] if len(name) > 253 else []
    if not _is_subdomain(name):
        faults.append(_SUBDOMAIN_RULE)
    return tuple(faults)


@lru_cache(maxsize=4096)
def label_faults(name: str) -> tuple[str, ...]:
    """Why this is no DNS label, which names of namespaces must be."""
    faults = ["must be no more than 63 bytes"] if len(name) > 63 else []
    if not _is_label(name):
        faults.append("must not contain dots" if _is_subdomain(name) else _LABEL_RULE)
    return tuple(faults)


@lru_cache(maxsize=4096)
def key_faults(key: str) -> tuple[str, ...]:
    """Why this cannot be the key of a label."""
    parts = key.split("/")
    if len(parts) > 2:
        rule = f"a valid label key {_QUALIFIED_RULE} with an optional DNS subdomain prefix and '/'"
        return (f"{rule} (e.g. 'example.com/MyName')",)
    faults = []
    if len(parts) == 2:
        prefix = ["must be non-empty"] if not parts[0] else subdomain_faults(parts[0])
        faults += [f"prefix part {fault}" for fault in prefix]
    name = parts[-1]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not _is_qualified(name):
        faults.append(f"name part {_QUALIFIED_RULE}")
    return tuple(faults)


@lru_cache(maxsize=4096)
def value_faults(value: str) -> tuple[str, ...]:
    """Why this cannot be the value of a label."""
    faults = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not _is_value(value):
        faults.append(_VALUE_RULE)
    return tuple(faults)


def wrong_key(key: str, path: str) -> list[FieldError]:
    return [problems.invalid(path, key, fault) for fault in key_faults(key)]


def wrong_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        errors += wrong_key(key, path)
        errors += [problems.invalid(path, value, fault) for fault in value_faults(value)]
    return errors


def wrong_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors = []
    characters = 0
    for key, value in annotations.items():
        characters += len(key) + len(value)
        errors += wrong_key(key.lower(), path)
    if characters * _MOST_BYTES_OF_ONE <= _MOST_ANNOTATION_BYTES:
        return errors
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MOST_ANNOTATION_BYTES:
        errors.append(problems.too_long(path, f"{size} bytes", _MOST_ANNOTATION_BYTES))
    return errors


def wrong_gates(text: str, path: str) -> list[FieldError]:
    """What is wrong with a comma-separated list of admission gates, each a domain and a path."""
    errors = []
    seen = set()
    for gate in split_gates(text):
        if not gate:
            errors.append(problems.invalid(path, text, "cannot contain empty gate names"))
        elif gate in seen:
            errors.append(problems.invalid(path, text, f"duplicate gate name: {gate}"))
        else:
            seen.add(gate)
            errors += _wrong_gate(gate, path)
    return errors


def split_gates(text: str) -> list[str]:
    return [gate.strip() for gate in text.split(",")] if text.strip() else []


def _wrong_gate(gate: str, path: str) -> list[FieldError]:
    host, _, rest = gate.partition("/")
    if not host or not rest:
        return [problems.invalid(path, gate, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [problems.invalid(path, host, fault) for fault in subdomain_faults(host)]
    if not re.fullmatch(_HTTP_PATH, rest):
        rule = f"Invalid path (regex used for validation is '{_HTTP_PATH}')"
        errors.append(problems.invalid(path, rest, rule))
    if len(gate) > _MOST_GATE_CHARACTERS:
        errors.append(problems.too_long(path, gate, _MOST_GATE_CHARACTERS))
    return errors
