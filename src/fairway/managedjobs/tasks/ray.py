"""`ray`: the workers of the Ray cluster whose driver is the task's `run`."""

from typing import Any, Final

from fairway.managedjobs.tasks import amounts
from fairway.managedjobs.tasks.accelerators import Alternative, alternatives
from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.task import Candidate, RayWorkers
from fairway.managedjobs.tasks.values import mapping, unknown, whole

FIELDS: Final = ("workers", "cpus", "memory", "gpus")
_EXAMPLE: Final = "{workers: 2, cpus: 4}"
_OF_THE_HEAD: Final = "`ray` describes the workers; the head has what `resources` says"


def ray(value: Any, where: Where, most_workers: int) -> RayWorkers:
    """The workers, from a map; what it leaves out is as in `resources`."""
    block = mapping(value, where, _EXAMPLE)
    for name in block:
        if name not in FIELDS:
            hint = "write gpus: T4:1" if name == "accelerators" else ""
            raise unknown(name, FIELDS, where.at(name), _OF_THE_HEAD if name == "head" else hint)
    workers, cpus, memory = block.get("workers"), block.get("cpus"), block.get("memory")
    at = where.at("workers")
    gpus = _gpus(block.get("gpus"), where.at("gpus"))
    return RayWorkers(
        count=1 if workers is None else whole(workers, at, least=0, most=most_workers, example="2"),
        cpus=Candidate().cpus if cpus is None else amounts.cpus(cpus, where.at("cpus")),
        memory="" if memory is None else amounts.memory(memory, where.at("memory")),
        gpus=gpus.number,
        accelerators=gpus.models,
    )


def _gpus(value: Any, where: Where) -> Alternative:
    if value in (None, 0, "0"):
        return Alternative((), 0)
    found = alternatives(value, where)
    if len(found) > 1:
        raise where.error("all workers have the same number of GPUs; name one, such as T4:1", value)
    return found[0]
