"""Control groups: what the kernel offers to limit the CPU and memory of a process and of all that it starts.

Version 2 is used where it has the controllers, version 1 otherwise. Groups are made below the group that the supervisor
is in, or below the nearest one above where that is allowed; a machine where neither works limits nothing, and `note`
says why in a sentence for people.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from fairway.runner.processes import ProcessLimits
from fairway.runner.shortages import is_shortage
from fairway.runner.supervising.loop import note

PERIOD_MICROSECONDS = 100_000
SHORTEST_QUOTA = 1000
"""Microseconds; the kernel takes no less."""

FEWEST_SHARES, MOST_SHARES = 2, 262_144
_ROOT = Path("/")


class CgroupMount(NamedTuple):
    """A cgroup file system, and which part of the tree is to be seen there."""

    version: int
    controllers: frozenset[str]
    root: str
    point: Path


class Cgroup:
    """The groups of one process: one directory for each hierarchy that limits something."""

    def __init__(self, directories: list[Path]) -> None:
        self._directories = directories

    @property
    def entrances(self) -> list[str]:
        """The files that move a process that writes `0` to them."""
        return [str(directory / "cgroup.procs") for directory in self._directories]

    def members(self) -> set[int]:
        return set(_members(self._directories))

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed one of them because the limit was reached."""
        for directory in self._directories:
            for name in ("memory.events", "memory.oom_control"):
                with suppress(OSError):
                    for line in (directory / name).read_text().splitlines():
                        field, _, value = line.partition(" ")
                        if field == "oom_kill" and value != "0":
                            return True
        return False

    def remove(self) -> bool:
        """Whether nothing is left of them; a group that still has members cannot be removed yet."""
        return False not in [_remove(directory) for directory in self._directories]


class Cgroups:
    """All groups of one state directory."""

    def __init__(self, name: str, mounts: Iterable[CgroupMount], memberships: dict[str, str]) -> None:
        """`name` is unique to the state directory; `memberships` are those of this process, by controller."""
        self.instance = secrets.token_hex(6)
        """Of this supervisor; its groups begin with it, those of a predecessor do not."""

        self._homes: dict[str, Path] = {}
        self._versions: dict[str, int] = {}
        self._numbers = count(1)
        self._to_remove: list[Cgroup] = []
        reasons: dict[str, str] = {}
        by_preference = sorted(mounts, key=lambda mount: -mount.version)
        for controller in ("cpu", "memory"):
            mount = next((one for one in by_preference if controller in one.controllers), None)
            if mount is None:
                reasons[controller] = "the control groups for it are not mounted"
                continue
            own = memberships.get(controller if mount.version == 1 else "", "/")
            try:
                self._homes[controller] = _home(mount, own, name)
                self._versions[controller] = mount.version
                if controller == "cpu":  # jobs as a whole against everything else here, as a kubelet has it
                    for file, value in _share(mount.version, (os.cpu_count() or 1) * 1000):
                        _set(self._homes[controller], f"?{file}", value)
            except OSError as error:
                reasons[controller] = f"cannot create control groups under {mount.point} ({error.strerror})"
        self.note = _sentence(reasons)

    @property
    def controllers(self) -> dict[str, int]:
        """What can be enforced, and by which version of control groups."""
        return dict(self._versions)

    @classmethod
    def of_this_machine(cls, name: str) -> "Cgroups":
        return cls(name, _mounts(), _memberships())

    def make(self, limits: ProcessLimits) -> Cgroup | None:
        """A new group with these limits, or `None` where there is nothing to limit, or no way to."""
        name = f"{self.instance}-{next(self._numbers)}"
        directories: list[Path] = []
        for controller, home in self._homes.items():
            settings = list(_SETTINGS[controller](self._versions[controller], limits))
            if not settings:
                continue
            directory = home / name
            try:
                directory.mkdir(exist_ok=True)
                for file, value in settings:
                    _set(directory, file, value)
            except OSError as error:
                if is_shortage(error.errno):
                    for made in (*directories, directory):
                        _remove(made)
                    raise
                note(f"cannot limit {controller}: {error}")
                _remove(directory)
                continue
            if directory not in directories:
                directories.append(directory)
        return Cgroup(directories) if directories else None

    def discard(self, group: Cgroup) -> None:
        """Remove it now, or as soon as that is possible."""
        self._to_remove = [one for one in (*self._to_remove, group) if not one.remove()]

    def left_behind(self) -> set[int]:
        """Everybody in a group that a predecessor made."""
        return set(_members(self._old()))

    def clear(self) -> None:
        """Remove what a predecessor made, as far as it is empty."""
        for directory in self._old():
            _remove(directory)

    def close(self) -> None:
        """Leave nothing; called when all have ended."""
        for group in self._to_remove:
            group.remove()
        self.clear()
        for home in set(self._homes.values()):
            _remove(home)

    def _old(self) -> list[Path]:
        everything = (directory for home in set(self._homes.values()) for directory in _below(home))
        return [directory for directory in everything if not directory.name.startswith(f"{self.instance}-")]


def _memory(version: int, limits: ProcessLimits) -> Iterator[tuple[str, str]]:
    """The files to write; those with a `?` only where they are there."""
    limit = limits.memory_bytes
    if limit is None:
        return
    if version == 1:
        yield "memory.limit_in_bytes", str(limit)
        yield "?memory.memsw.limit_in_bytes", str(limit)
    else:
        yield "memory.max", str(limit)
        yield "?memory.swap.max", "0"
        yield "?memory.oom.group", "1"


def _cpu(version: int, limits: ProcessLimits) -> Iterator[tuple[str, str]]:
    if limits.cpu_share_millis is not None:
        yield from _share(version, limits.cpu_share_millis)
    if limits.cpu_millis is None:
        return
    quota = max(SHORTEST_QUOTA, limits.cpu_millis * PERIOD_MICROSECONDS // 1000)
    if version == 1:
        yield "cpu.cfs_period_us", str(PERIOD_MICROSECONDS)
        yield "cpu.cfs_quota_us", str(quota)
    else:
        yield "cpu.max", f"{quota} {PERIOD_MICROSECONDS}"


def _share(version: int, millis: int) -> Iterator[tuple[str, str]]:
    """A share under contention, with a kubelet's numbers."""
    shares = min(MOST_SHARES, max(FEWEST_SHARES, millis * 1024 // 1000))
    if version == 1:
        yield "cpu.shares", str(shares)
    else:
        yield "cpu.weight", str(1 + (shares - FEWEST_SHARES) * 9999 // (MOST_SHARES - FEWEST_SHARES))


_SETTINGS = {"cpu": _cpu, "memory": _memory}


def _set(directory: Path, name: str, value: str) -> None:
    optional = name.startswith("?")
    file = directory / name.removeprefix("?")
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError:
        if not optional:
            raise


def _home(mount: CgroupMount, own: str, name: str) -> Path:
    """The directory for all groups of a state directory, as near to our own group as it can be made."""
    place = mount.point / Path(own).relative_to(mount.root if own.startswith(mount.root) else _ROOT)
    failure: OSError | None = None
    while True:
        home = place / name
        try:
            if not os.access(place / "cgroup.procs", os.W_OK):
                raise PermissionError(13, "Permission denied")
            home.mkdir(exist_ok=True)
            if mount.version == 2:
                _hand_down(place, home)
        except OSError as error:
            failure = failure or error
            _remove(home)
        else:
            return home
        if mount.version == 1 or place == mount.point:
            raise failure
        place = place.parent


def _hand_down(place: Path, home: Path) -> None:
    """In version 2 a group has the controllers that the one above it hands down, which those with members cannot."""
    for directory in (place, home):
        handed = (directory / "cgroup.subtree_control").read_text().split()
        if not {"cpu", "memory"} <= set(handed):
            _set(directory, "cgroup.subtree_control", "+cpu +memory")


def _below(home: Path) -> list[Path]:
    try:
        return [entry for entry in home.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _members(directories: Iterable[Path]) -> Iterator[int]:
    for directory in directories:
        with suppress(OSError):
            yield from map(int, (directory / "cgroup.procs").read_text().split())


def _remove(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _sentence(reasons: dict[str, str]) -> str:
    if not reasons:
        return ""
    what = " and ".join({"cpu": "CPU", "memory": "memory"}[controller] for controller in reasons)
    return f"{what} limits of containers are not enforced: {'; '.join(dict.fromkeys(reasons.values()))}."


def _mounts() -> list[CgroupMount]:
    """From `/proc/self/mountinfo`; both versions can be there at once, each with some of the controllers."""
    found = []
    for line in _lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(), "", "", ""][:3]
        fields = before.split()
        point = Path(fields[4].replace("\\040", " "))
        if kind == "cgroup":
            found.append(CgroupMount(1, frozenset(options.split(",")), fields[3], point))
        elif kind == "cgroup2":
            controllers = " ".join(_lines(point / "cgroup.controllers")).split()
            found.append(CgroupMount(2, frozenset(controllers), fields[3], point))
    return found


def _memberships() -> dict[str, str]:
    """Our own group by controller; that of version 2 under the empty name."""
    memberships = {}
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            memberships[controller] = path
    return memberships


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
