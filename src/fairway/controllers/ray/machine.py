"""Ray on this machine: whether it is installed, free ports, and the temporary directories of its clusters."""

import hashlib
import os
import shutil
import socket
import sys
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fairway.ray.commands import LONGEST_TEMP_DIR
from fairway.ray.nodes import RayInstallation
from fairway.runtime.privacy import make_private

_NAME_LENGTH: Final = 9
"""Of a cluster's directory, with its slash."""


def temp_root(state: Path) -> Path:
    """In the state directory if the path is short enough for Unix sockets, else in `/tmp`."""
    inside = state / "ray"
    if len(str(inside)) + _NAME_LENGTH <= LONGEST_TEMP_DIR:
        return inside
    digest = hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:8]
    return Path(f"/tmp/fw-{os.geteuid()}-{digest}")  # noqa: S108 - private, and checked to be


def installed(state: Path) -> RayInstallation | None:
    """Ray in the Python environment of this process; `None` without it, or without its job server."""
    try:
        found = version("ray")
    except PackageNotFoundError:
        return None
    if find_spec("aiohttp") is None or find_spec("grpc") is None:  # `ray` without `[default]`
        return None
    # Not resolved: `python` of a virtual environment is a link to the system's.
    return RayInstallation(version=found, programs=str(Path(sys.executable).parent), temp_root=str(temp_root(state)))


def is_free(port: int) -> bool:
    """Whether nothing on this machine listens on a port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def prepare(root: Path) -> None:
    """Make the directory that holds those of the clusters; Ray opens its own to everybody."""
    make_private(root)


def sweep(root: Path, keep: Collection[str]) -> None:
    """Remove the directories of clusters that are gone."""
    if not root.is_dir():
        return
    for found in root.iterdir():
        if found.name not in keep:
            shutil.rmtree(found, ignore_errors=True)
