"""Paths of volumes in containers.

Pods are processes of this machine and see its files, so a volume cannot appear at any path at will:

- A host path that is mounted where it is, is there already.
- A relative `mountPath` is taken from the working directory that the pod has of its own, and linked there.
- A scratch directory below `/tmp`, `/var/tmp` or `/dev/shm` is the machine's own one.
- Any other path where nothing is stays empty. The volume is at `$FAIRWAY_VOLUME_<NAME>`, and a `workingDir` inside of
  the mount is taken from there.
- Any other path where something is makes the container fail: it would take the machine's files for its volume's.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.runner.pods.expansion import expanded
from fairway.runner.pods.troubles import ConfigError

_SCRATCH: Final = (PurePosixPath("/tmp"), PurePosixPath("/var/tmp"), PurePosixPath("/dev/shm"))  # noqa: S108
_NOT_IN_A_VARIABLE: Final = re.compile(r"[^A-Z0-9_]")


class Mounts(Struct, frozen=True):
    """What came of the mounts of one container."""

    places: tuple[tuple[PurePosixPath, Path], ...]
    """Absolute mount paths, and where the volume really is."""

    missing: tuple[tuple[str, str], ...]
    """Volumes that are not where they were wanted: name and mount path."""

    def directory(self, wanted: str) -> str:
        """A working directory, taken from the volume where it lies in one."""
        if not self.places:
            return wanted
        path = PurePosixPath(wanted)
        for place, real in self.places:
            if path.is_relative_to(place):
                return str(real / path.relative_to(place))
        return wanted


NONE: Final = Mounts((), ())


def variable_of(volume: str) -> str:
    """The variable that holds the path of a volume."""
    return "FAIRWAY_VOLUME_" + _NOT_IN_A_VARIABLE.sub("_", volume.upper())


def variables(volumes: Mapping[str, Path]) -> dict[str, str]:
    return {variable_of(name): str(place) for name, place in volumes.items()}


def mounted(
    pod: Manifest,
    container: Mapping[str, Any],
    volumes: Mapping[str, Path],
    environment: Mapping[str, str],
    work: Path,
) -> Mounts:
    """Put the volumes of a container where they can be put; `ConfigError` where that would do harm."""
    places: list[tuple[PurePosixPath, Path]] = []
    missing: list[tuple[str, str]] = []
    kinds = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        name, wanted = mount["name"], PurePosixPath(mount["mountPath"])
        scratch = kinds[name].get("emptyDir") is not None
        real = _real(mount, volumes[name], environment, make=scratch)
        if not wanted.is_absolute():
            _link(work, wanted, real)
            continue
        places.append((wanted, real))
        if _is_there(wanted, real) or (scratch and any(wanted.is_relative_to(one) for one in _SCRATCH)):
            continue
        if os.path.lexists(wanted):
            raise ConfigError(
                f'volume "{name}" cannot be mounted at {wanted}: this machine has files of its own there, and pods '
                f"share its files. Use a relative mountPath, ${variable_of(name)}, or a path that is free.",
                lasting=True,
            )
        missing.append((name, str(wanted)))
    return Mounts(tuple(places), tuple(missing))


def _real(mount: Mapping[str, Any], volume: Path, environment: Mapping[str, str], *, make: bool) -> Path:
    inner = mount.get("subPath") or expanded(mount.get("subPathExpr") or "", environment)
    if not inner:
        return volume
    path = PurePosixPath(inner)
    if path.is_absolute() or ".." in path.parts:
        raise ConfigError(f"subPath {inner!r} leads out of the volume", lasting=True)
    if make:
        (volume / path).mkdir(mode=0o700, parents=True, exist_ok=True)
    return volume / path


def _is_there(wanted: PurePosixPath, real: Path) -> bool:
    try:
        return Path(wanted).samefile(real)
    except OSError:
        return False


def _link(work: Path, wanted: PurePosixPath, real: Path) -> None:
    if ".." in wanted.parts or not wanted.parts:
        raise ConfigError(f"mountPath {str(wanted)!r} leads out of the working directory", lasting=True)
    link = work / wanted
    link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if link.is_symlink():
        link.unlink()
    try:
        link.symlink_to(real)
    except FileExistsError:
        raise ConfigError(f"mountPath {str(wanted)!r}: the path exists already", lasting=True) from None
