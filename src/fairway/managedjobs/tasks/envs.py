"""Environment variables and secrets of a task, and where paths use them."""

import re
from collections.abc import Mapping
from typing import Any, Final

from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.values import clean, mapping, shown, sort_of, written

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_REFERENCE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")

_LONGEST: Final = 128 * 1024
"""Linux' limit for `NAME=value`, with the NUL at its end."""


def envs(value: Any, where: Where) -> dict[str, str | None]:
    """The variables; `None` where the value must be given at launch."""
    found: dict[str, str | None] = {}
    for name, one in mapping(value, where, "{EPOCHS: 10}").items():
        inner = where.at(checked_name(name, where.at(name)))
        if type(one) is dict or type(one) is list:
            raise inner.error(f"must be text, but is {sort_of(one)}; quote it to pass it as it is", one)
        found[name] = None if one is None else _short(name, written(one, inner, "10"), inner)
    return found


def secrets(value: Any, where: Where) -> dict[str, str | None]:
    """The secrets, from a map with values or from a list of names. No error quotes a value."""
    if type(value) is list:
        return dict.fromkeys(secret_names(value, where))
    found: dict[str, str | None] = {}
    for name, one in mapping(value, where, "{TOKEN: null}").items():
        inner = where.at(checked_name(name, where.at(name)))
        if type(one) is dict or type(one) is list:
            raise inner.error(f"must be text, but is {sort_of(one)}; write null to give it with --secret {name}=…")
        found[name] = None if one is None else _short(name, clean(inner.written(one), inner), inner)
    return found


def secret_names(value: list[Any], where: Where) -> tuple[str, ...]:
    names = []
    for position, name in enumerate(value):
        inner = where.at(position)
        if type(name) is not str:
            raise inner.error(f"must be the name of a secret, but is {sort_of(name)}; write for example TOKEN")
        names.append(checked_name(name, inner))
    return tuple(dict.fromkeys(names))


def checked_name(name: str, where: Where) -> str:
    if not _NAME.fullmatch(name):
        raise where.error(
            f"{shown(name)} is not the name of a variable; use letters, digits and `_`, such as {_like(name)}",
            name,
            of_key=True,
        )
    return name


def filled_in(path: str, variables: Mapping[str, str | None], where: Where) -> str:
    """A path with `$NAME` and `${NAME}` replaced."""

    def value_of(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        value = variables.get(name)
        if value is None:
            raise where.error(f"${name} is none of the task's envs; add it there, or pass --env {name}=…", path)
        return value

    return _REFERENCE.sub(value_of, path) if "$" in path else path


def missing(names: list[str], flag: str, where: Where) -> TaskError:
    """The error for variables without a value."""
    listed = ", ".join(names)
    ways = " ".join(f"{flag} {name}=…" for name in names)
    has = "has no value" if len(names) == 1 else "have no value"
    return where.error(f"{listed} {has}; pass {ways}, or {flag} NAME for what it is where you call", of_key=True)


def _like(name: str) -> str:
    made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_").upper()[:40]
    return made if _NAME.fullmatch(made) else "MY_NAME"


def _short(name: str, value: str, where: Where) -> str:
    size = len(name) + 1 + len(value.encode())
    if size >= _LONGEST:
        raise where.error(f"has {size} bytes, and no process can be given {_LONGEST} or more; put it into a file")
    return value
