"""Scheduler plugins by name: those of Fairway, and those of installed packages.

A package brings one by an entry point of the group `fairway.schedulers` that names a `SchedulerPlugin`:

    [project.entry-points."fairway.schedulers"]
    volcano = "fairway_volcano:PLUGIN"

Installed packages are looked at only where a configuration names a scheduler that is not Fairway's.
"""

from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from fairway.schedulers.plugin import SchedulerPlugin, SchedulingError

GROUP: Final = "fairway.schedulers"
OWN: Final = ("default", "fairway", "kueue", "yunikorn")
_METHODS: Final = ("set_scheduler_name", "create_labels", "create_group_labels")


class SchedulerNames(Collection[str]):
    """The names of all plugins; those of packages are looked up when they are needed."""

    def __contains__(self, name: object) -> bool:
        return name in OWN or any(point.name == name for point in _installed())

    def __iter__(self) -> Iterator[str]:
        return iter((*OWN, *(point.name for point in _installed() if point.name not in OWN)))

    def __len__(self) -> int:
        return len(list(iter(self)))


@cache
def scheduler_plugin(name: str) -> SchedulerPlugin:
    """The plugin of a name; `SchedulingError` if there is none, or it cannot be loaded."""
    if name in OWN:
        own: SchedulerPlugin = import_module(f"fairway.schedulers.{name}").PLUGIN
        return own
    point = next((one for one in _installed() if one.name == name), None)
    if point is None:
        raise SchedulingError(f"there is no scheduler {name!r}; there are {', '.join(SchedulerNames())}")
    try:
        found = point.load()
    except Exception as error:  # a package of others may raise anything
        raise SchedulingError(f"the scheduler {name!r} ({point.value}) cannot be loaded: {error!r}") from error
    missing = [method for method in _METHODS if not callable(getattr(found, method, None))]
    if missing or getattr(found, "name", None) != name:
        what = f"has no {missing[0]}()" if missing else f"calls itself {getattr(found, 'name', None)!r}"
        raise SchedulingError(f"the scheduler {name!r} ({point.value}) {what}; see docs/use/schedulers.md")
    plugin: SchedulerPlugin = found
    return plugin


@cache
def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))
