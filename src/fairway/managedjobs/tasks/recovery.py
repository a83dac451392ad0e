"""`job_recovery`: when a task that failed by itself is started again."""

from typing import Any, Final

from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.task import Recovery
from fairway.managedjobs.tasks.values import mapping, nearest, shown, sort_of, unknown, whole

_STRATEGIES: Final = ("EAGER_NEXT_REGION", "FAILOVER", "NONE")
"""Where SkyPilot looks for another machine. Here a job goes back to its queue, so none of them says anything."""

_FIELDS: Final = ("strategy", "max_restarts_on_errors", "recover_on_exit_codes")
_MOST_RESTARTS: Final = 1_000_000


def job_recovery(value: Any, where: Where, ignored: list[Where]) -> Recovery:
    """The rules, from a map or from the name of a strategy, which is added to `ignored`."""
    if type(value) is str:
        _strategy(value, where)
        ignored.append(where)
        return Recovery()
    block = mapping(value, where, "{max_restarts_on_errors: 3}")
    for name in block:
        if name not in _FIELDS:
            raise unknown(name, _FIELDS, where.at(name))
    if block.get("strategy") is not None:
        _strategy(block["strategy"], where.at("strategy"))
        ignored.append(where.at("strategy"))
    restarts, codes = block.get("max_restarts_on_errors"), block.get("recover_on_exit_codes")
    at = where.at("max_restarts_on_errors")
    return Recovery(
        max_restarts_on_errors=0
        if restarts is None
        else whole(restarts, at, least=0, most=_MOST_RESTARTS, example="3"),
        exit_codes=frozenset() if codes is None else _exit_codes(codes, where.at("recover_on_exit_codes")),
    )


def _strategy(value: Any, where: Where) -> None:
    if type(value) is not str:
        raise where.error(f"must be the name of a strategy, but is {sort_of(value)}; leave it out", value)
    if value.upper() not in _STRATEGIES:
        near = nearest(value, _STRATEGIES)
        way_out = f"did you mean {near}?" if near else "write for example {max_restarts_on_errors: 3}"
        raise where.error(f"{shown(value)} is no strategy; {way_out}", value)


def _exit_codes(value: Any, where: Where) -> frozenset[int]:
    if type(value) is not list:
        return frozenset({_exit_code(value, where)})
    return frozenset(_exit_code(one, where.at(position)) for position, one in enumerate(value))


def _exit_code(value: Any, where: Where) -> int:
    return whole(value, where, least=0, most=255, example="33, or a list such as [33, 34]")
