"""The `runner:` block of the server's configuration: what is enforced on this machine, and how long results stay."""

from typing import Any, Final

from fairway.apis.machinery.quantities import Quantity
from fairway.managedjobs.configured import RunnerConfig
from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.values import mapping, shown, unknown, whole

FIELDS: Final = ("cpu", "memory", "results")
_RESULTS: Final = ("max_age_days", "max_attempts", "max_count", "max_size")
_CPU: Final = ("share", "limit", "none")
_MEMORY: Final = ("limit", "none")
_MOST: Final = 1_000_000


def runner(value: Any, where: Where) -> RunnerConfig:
    """What is said about the runner; `TaskError` for the first thing that is wrong."""
    block = _block(value, FIELDS, where)
    at = where.at("results")
    results = _block(block.get("results"), _RESULTS, at)
    return RunnerConfig(
        cpu=_choice(block.get("cpu"), _CPU, where.at("cpu")),
        memory=_choice(block.get("memory"), _MEMORY, where.at("memory")),
        results_days=_number(results, "max_age_days", at),
        results_attempts=_number(results, "max_attempts", at),
        results_count=_number(results, "max_count", at),
        results_bytes=_size(results.get("max_size"), at.at("max_size")),
    )


def _block(value: Any, known: tuple[str, ...], where: Where) -> dict[str, Any]:
    block = mapping(value, where, f"{{{known[0]}: …}}")
    for key in block:
        if key not in known:
            raise unknown(key, known, where.at(key))
    return block


def _choice(value: Any, choices: tuple[str, ...], where: Where) -> str:
    if value is None:
        return ""
    if value not in choices:
        raise where.error(f"{shown(value)} is not one of {', '.join(choices)}", value)
    return str(value)


def _number(results: dict[str, Any], name: str, where: Where) -> int | None:
    value = results.get(name)
    return None if value is None else whole(value, where.at(name), least=0, most=_MOST, example="30")


def _size(value: Any, where: Where) -> int | None:
    if value is None:
        return None
    try:
        size = Quantity.parse(str(value)).value()
    except ValueError:
        size = -1
    if size < 0:
        raise where.error(f"{shown(value)} is not an amount of bytes; write for example 20Gi", value)
    return size
