"""Labels and names, as Kubernetes allows them."""

import re
from typing import Any, Final

from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.values import mapping, shown, written

MOST_LABELS: Final = 500
"""They are read once for every candidate of a task."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


def labels(value: Any, where: Where) -> dict[str, str]:
    """A map of labels; numbers and booleans count as they were written."""
    found: dict[str, str] = {}
    given = mapping(value, where, "{team: research}")
    if len(given) > MOST_LABELS:
        raise where.error(f"has {len(given)} labels, and at most {MOST_LABELS} fit; name fewer", of_key=True)
    for key, one in given.items():
        inner = where.at(key)
        if not is_key(key):
            raise inner.error(
                f"{shown(key)} is not the name of a label; use letters, digits, `-`, `_` and `.`, at most 63, such as "
                "team or example.com/team",
                key,
                of_key=True,
            )
        found[key] = label_value(written(one, inner, "research"), inner)
    return found


def label_value(value: str, where: Where) -> str:
    if value and not _NAME.fullmatch(value):
        raise where.error(
            f"{shown(value)} is not the value of a label; use letters, digits, `-`, `_` and `.`, at most 63, with a "
            "letter or digit at both ends",
            value,
        )
    return value


def object_name(value: str, where: Where, what: str) -> str:
    """The name of a queue or of a class, such as `user-queue`."""
    if not _DOMAIN.fullmatch(value):
        raise where.error(
            f"{shown(value)} is not the name of {what}; use small letters, digits, `-` and `.`, such as user-queue",
            value,
        )
    return value


def is_key(key: str) -> bool:
    domain, slash, name = key.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (bool(_DOMAIN.fullmatch(domain)) if slash else True)


def is_dns_label(name: str) -> bool:
    return bool(_DNS_LABEL.fullmatch(name))
