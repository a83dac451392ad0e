"""Ray on this machine: whether it is installed, and free ports."""

import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from fairway.ray.commands import VOLUME_VARIABLE
from fairway.ray.nodes import RayInstallation


def installed() -> RayInstallation | None:
    """Ray in the Python environment of this process; `None` without it, or without its job server."""
    try:
        found = version("ray")
    except PackageNotFoundError:
        return None
    if find_spec("aiohttp") is None or find_spec("grpc") is None:  # `ray` without `[default]`
        return None
    # Not resolved: `python` of a virtual environment is a link to the system's.
    start = f"{sys.executable} -P -m fairway.controllers.ray.start {VOLUME_VARIABLE}"
    return RayInstallation(version=found, programs=str(Path(sys.executable).parent), start=start)


def is_free(port: int) -> bool:
    """Whether nothing on this machine listens on a port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
