"""`resources` of a task: what every node needs, as candidates in the order in which they are tried."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs

from fairway.integrations.names import PRIORITY_CLASS
from fairway.managedjobs.tasks import accelerators, amounts, infra
from fairway.managedjobs.tasks.labels import label_value, labels, object_name
from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.recovery import job_recovery
from fairway.managedjobs.tasks.task import Candidate, Recovery
from fairway.managedjobs.tasks.values import mapping, shown, sort_of, text, unknown, whole

LOWEST_PRIORITY: Final = -(2**31)
HIGHEST_PRIORITY: Final = 2**31 - 1
"""Those of Kubernetes. Which of them a user may have in a queue is the server's decision."""

MOST_CANDIDATES: Final = 50

_PLACE: Final = ("infra", "cloud", "region", "zone")
_SHARED: Final = ("job_recovery", "priority", "max_duration")
"""What a task has once, whichever candidate it runs as."""

_KNOWN: Final = (
    "cpus", "memory", "accelerators", "image_id", "labels", "infra", "cloud", "priority_class", *_SHARED
)  # fmt: skip
_LISTS: Final = ("any_of", "ordered")
MEANINGLESS: Final = (
    "instance_type", "accelerator_args", "disk_size", "disk_tier", "network_tier", "local_disk", "max_hourly_cost",
    "use_spot", "ports", "autostop", "spot_recovery", "volumes", "region", "zone",
)  # fmt: skip
"""Fields that SkyPilot has and that say nothing about a job here."""

KNOWN: Final = (*_KNOWN, *_LISTS)
_OF_THE_TASK: Final = (
    "name", "num_nodes", "ray", "workdir", "envs", "secrets", "file_mounts", "setup", "run", "config"
)  # fmt: skip


class Needs(Struct, frozen=True, kw_only=True):
    """All that `resources` says."""

    candidates: tuple[Candidate, ...] = (Candidate(),)
    recovery: Recovery = Recovery()
    priority: int | None = None
    max_duration_seconds: int | None = None


class _Given(NamedTuple):
    value: Any
    where: Where


class _Layers:
    """The fields of one candidate: its own, and below them those that it shares with the others."""

    __slots__ = ("_layers",)

    def __init__(self, *layers: tuple[dict[str, Any], Where]) -> None:
        self._layers = layers

    def get(self, name: str) -> _Given | None:
        """The field, from the topmost layer that has it; `None` if no layer does."""
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[_Given]:
        for block, where in self._layers:
            if block.get(name) is not None:
                yield _Given(block[name], where.at(name))

    def place(self) -> "_Layers":
        """The topmost layer that says where to run: what is below it says so for others."""
        found = (one for one in self._layers if any(one[0].get(name) is not None for name in _PLACE))
        return _Layers(*[one for one in (next(found, None),) if one is not None])


def needs(value: Any, where: Where, ignored: list[Where]) -> Needs:
    """What a task needs; fields that mean nothing here are added to `ignored`."""
    block = mapping(value, where, "{cpus: 4, memory: 16GB}")
    _check_names(block, where, ignored, KNOWN)
    layers = list(_candidates(block, where, ignored))
    found: list[Candidate] = []
    left_out: list[_Given] = []
    for one in layers:
        place, said = _place(one.place(), ignored)
        if place.elsewhere and said is not None:
            left_out.append(said)
            continue
        found += _expanded(one, place.context)
        if len(found) > MOST_CANDIDATES:  # at once: a short list in a short list stands for millions
            raise where.error(f"stands for more than {MOST_CANDIDATES} candidates, which is the most; name fewer")
    if not found:
        cloud, said_by = left_out[0]
        raise said_by.error(infra.elsewhere_only(shown(cloud)), cloud)
    ignored += [said.where for said in left_out]
    return Needs(candidates=tuple(_distinct(found)), **_shared([_Layers((block, where)), *layers], ignored))


def priority(value: Any, where: Where) -> int:
    return whole(value, where, least=LOWEST_PRIORITY, most=HIGHEST_PRIORITY, example="100 (higher goes first)")


def image(value: Any, where: Where) -> str:
    name = text(value, where, "docker:ubuntu:22.04").strip().removeprefix("docker:")
    if not name or any(sign.isspace() for sign in name) or len(name) > 1000:
        raise where.error(f"{shown(value)} is not the name of an image; write for example docker:ubuntu:22.04", value)
    return name


def _check_names(block: dict[str, Any], where: Where, ignored: list[Where], known: tuple[str, ...]) -> None:
    for name in block:
        if name in known:
            continue
        inner = where.at(name)
        if name not in MEANINGLESS:
            hint = f"{name} is a field of the task: move it out of `resources`" if name in _OF_THE_TASK else ""
            if name in _LISTS:
                hint = "a candidate has no candidates of its own; write one list"
            raise unknown(name, known, inner, hint, also=MEANINGLESS)
        if name == "volumes":
            raise inner.error("volumes cannot be mounted here; use file_mounts, or a path of this machine", of_key=True)
        if name != "region" or block.get("cloud") is None:  # the region of Kubernetes is the context
            ignored.append(inner)


def _candidates(block: dict[str, Any], where: Where, ignored: list[Where]) -> Iterator[_Layers]:
    given = [name for name in _LISTS if block.get(name) is not None]
    if len(given) > 1:
        raise where.at("ordered").error("any_of and ordered cannot be given both; keep one of them", of_key=True)
    if not given:
        yield _Layers((block, where))
        return
    inner = where.at(given[0])
    items = block[given[0]]
    if type(items) is not list or not items:
        what = "is empty" if type(items) is list else f"is {sort_of(items)}"
        raise inner.error(f"must be a list of candidates, but {what}; write for example [{{infra: k8s}}]", items)
    for position, item in enumerate(items):
        at = inner.at(position)
        candidate = mapping(item, at, "{infra: k8s, cpus: 4}")
        _check_names(candidate, at, ignored, _KNOWN)
        yield _Layers((candidate, at), (block, where))


def _place(layers: _Layers, ignored: list[Where]) -> tuple[infra.Infra, _Given | None]:
    named, cloud, region = layers.get("infra"), layers.get("cloud"), layers.get("region")
    if named is not None and cloud is not None:
        raise cloud.where.error("infra says the same and more; remove cloud", cloud.value, of_key=True)
    if named is not None:
        return infra.of_infra(named.value, named.where), named
    if cloud is None:
        return infra.Infra(), None
    place = infra.of_cloud(cloud.value, region.value if region is not None else None, cloud.where)
    if region is not None and place.context != region.value:
        ignored.append(region.where)
    return place, cloud


def _expanded(layers: _Layers, context: str) -> list[Candidate]:
    """The candidates that one entry stands for: one for each alternative of its accelerators."""
    cpus, memory = layers.get("cpus"), layers.get("memory")
    picture, models = layers.get("image_id"), layers.get("accelerators")
    candidate = Candidate(
        infra=context,
        cpus=amounts.cpus(cpus.value, cpus.where) if cpus is not None else Candidate().cpus,
        memory=amounts.memory(memory.value, memory.where) if memory is not None else "",
        image=image(picture.value, picture.where) if picture is not None else "",
        labels=_labels(layers),
    )
    if models is None:
        return [candidate]
    return [
        structs.replace(candidate, gpus=one.number, accelerators=one.models)
        for one in accelerators.alternatives(models.value, models.where)
    ]


def _labels(layers: _Layers) -> dict[str, str]:
    """Those of all layers, the topmost winning; a class of the queue may also have a field of its own."""
    found: dict[str, str] = {}
    for one in reversed(list(layers.all("labels"))):
        found |= labels(one.value, one.where)
    named = layers.get("priority_class")
    if named is not None:
        name = text(named.value, named.where, "high-priority")
        name = label_value(object_name(name, named.where, "a priority class"), named.where)
        if found.setdefault(PRIORITY_CLASS, name) != name:
            raise named.where.error(f"the label {PRIORITY_CLASS} names another class; keep one of them", name)
    return found


def _shared(layers: list[_Layers], ignored: list[Where]) -> dict[str, Any]:
    """What must be the same for all candidates, wherever it was written."""
    found: dict[str, Any] = {}
    seen: set[tuple[str | int, ...]] = set()
    for layer in layers:
        for name in _SHARED:
            for given in layer.all(name):
                if given.where.path in seen:
                    continue
                seen.add(given.where.path)
                value = _read_shared(name, given, ignored)
                if found.setdefault(name, value) != value:
                    message = f"{name} must be the same for all candidates; write it once, beside any_of or ordered"
                    raise given.where.error(message, given.value)
    renamed = {"job_recovery": "recovery", "priority": "priority", "max_duration": "max_duration_seconds"}
    return {renamed[name]: value for name, value in found.items()}


def _read_shared(name: str, given: _Given, ignored: list[Where]) -> Any:
    if name == "job_recovery":
        return job_recovery(given.value, given.where, ignored)
    if name == "priority":
        return priority(given.value, given.where)
    return amounts.duration(given.value, given.where)


def _distinct(candidates: list[Candidate]) -> list[Candidate]:
    return [one for place, one in enumerate(candidates) if one not in candidates[:place]]
