"""Parses accelerators in all their forms: alternative models with counts.

`T4:4` and `T4` are one alternative; a bare number (`2`) is so many of whatever model, as `GPU:2` is; a list is several
in order; a map of several (`{T4: 1, V100: 1}`, also as `{T4:1, V100:1}`, whose keys YAML reads with the count in them)
is any of them.
"""

import re
from typing import Any, Final, NamedTuple

from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.values import shown, sort_of

ANY_MODEL: Final = "gpu"
"""What is written for a GPU of whatever model."""

_MODEL: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MOST: Final = 1024
_EXAMPLES: Final = "T4, T4:4 or {T4: 4}"
_NUMBER: Final = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")


class Alternative(NamedTuple):
    """So many accelerators of any of these models; of whatever model if there are none."""

    models: tuple[str, ...]
    number: int


def alternatives(value: Any, where: Where) -> list[Alternative]:
    """What will do, in the order of preference."""
    if type(value) in {str, int, float}:
        return [_one(str(value), where)]
    if type(value) is list:
        found = [one for position, item in enumerate(value) for one in _item(item, where.at(position))]
        if not found:
            raise where.error(f"the list is empty; write for example {_EXAMPLES}, or leave it out", value)
        return list(dict.fromkeys(found))
    if type(value) is dict:
        return _any(value, where)
    raise where.error(f"must name accelerators, but is {sort_of(value)}; write for example {_EXAMPLES}", value)


def _item(value: Any, where: Where) -> list[Alternative]:
    if type(value) in {str, int, float}:
        return [_one(str(value), where)]
    if type(value) is dict:
        return _any(value, where)
    raise where.error(f"must name an accelerator, but is {sort_of(value)}; write for example T4:4", value)


def _any(value: dict[Any, Any], where: Where) -> list[Alternative]:
    """A map: any of its entries. Those of equal count are one alternative, else each is one of its own."""
    if not value:
        raise where.error(f"the map is empty; write for example {_EXAMPLES}, or leave it out", value)
    found = []
    for name, count in value.items():
        if type(name) is not str:
            raise where.error(f"the name {shown(name)} is not text; put it in quotes", name)
        inner = where.at(name)
        found.append(_one(name, inner) if count is None else Alternative(_models(name, inner), _count(count, inner)))
    found = list(dict.fromkeys(found))
    if len({one.number for one in found}) == 1 and all(one.models for one in found):
        return [Alternative(tuple(model for one in found for model in one.models), found[0].number)]
    return found


def _one(text: str, where: Where) -> Alternative:
    name, colon, count = text.strip().partition(":")
    if not colon and _NUMBER.fullmatch(name):
        return Alternative((), _count(name, where))
    return Alternative(_models(name, where), _count(count.strip(), where) if colon else 1)


def _models(name: str, where: Where) -> tuple[str, ...]:
    if not _MODEL.fullmatch(name):
        raise where.error(f"{shown(name)} is not the name of an accelerator; write for example {_EXAMPLES}", name)
    if _NUMBER.fullmatch(name):
        raise where.error(
            f"{shown(name)} is a number, not a model; write {name} alone for any model, or T4:{name}", name
        )
    lower = name.lower()
    if lower.startswith("tpu"):
        raise where.error(f"{name} is a TPU, and only GPUs can be asked for here; name one, such as T4:1", name)
    if lower == "none":
        raise where.error("none is no accelerator; leave the field out to ask for none", name)
    return () if lower == ANY_MODEL else (name,)


def _count(value: Any, where: Where) -> int:
    text = str(value) if type(value) in {int, float, str} else ""
    if re.fullmatch(r"[0-9]{1,9}(\.0*)?", text):
        count = int(text.partition(".")[0])
        if 1 <= count <= _MOST:
            return count
        raise where.error(f"{text} accelerators cannot be had; ask for 1 to {_MOST}, or leave the field out", value)
    if re.fullmatch(r"[0-9]{0,9}\.[0-9]{1,20}", text):
        raise where.error(f"{text} is a part of an accelerator, and jobs get whole ones; ask for 1 or more", value)
    raise where.error(f"{shown(value)} is no number of accelerators; write for example {_EXAMPLES}", value)
