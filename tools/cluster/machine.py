"""What this machine must have, and the words for what it lacks."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.cluster.places import ClusterError

_PROGRAMS: Final = {
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "busybox": "busybox-static",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""What a node and its images need, and the Debian package of each."""

_PLUGINS: Final = "containernetworking-plugins"
CGROUPS: Final = Path("/sys/fs/cgroup")
_CNI: Final[tuple[Path, ...]] = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_GIGABYTE: Final = 1 << 30
_SOURCES: Final = re.compile(r"^(?:deb(?: \[[^]]*\])?|URIs:) +(\S+)", re.MULTILINE)


def require(program: str, package: str) -> str:
    """The path of a program that comes with a package."""
    if found := shutil.which(program):
        return found
    raise ClusterError(f"there is no {program} on the PATH; install it with `apt install {package}`")


def require_root(what: str) -> None:
    if os.geteuid() != 0:
        raise ClusterError(
            f"{what} needs root; run it with sudo, or stay with what needs no root, `make test-cluster "
            "KUBELET=0`: a control plane alone"
        )


def require_disk(path: Path, gigabytes: int) -> None:
    """So many gigabytes are free where this will be written."""
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < gigabytes * _GIGABYTE:
        raise ClusterError(
            f"{existing} has {free / _GIGABYTE:.1f} GB free, and {gigabytes} GB are needed; make room, or set "
            "$FAIRWAY_CLUSTER_CACHE (binaries and images) or $GOCACHE and $GOMODCACHE (what Go keeps) elsewhere"
        )


def require_node() -> None:
    """Everything that a node of its own needs besides what is built."""
    require_root("a cluster in namespaces of its own")
    require_cgroups()
    if lacking := lacking_packages():
        raise ClusterError(f"these packages are missing; install them with `apt install {' '.join(lacking)}`")


def lacking_packages() -> list[str]:
    """Debian packages that a node needs and that are not there."""
    lacking = {package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    return sorted(lacking if _cni() else {*lacking, _PLUGINS})


def install_packages(say: Callable[[str], None]) -> None:
    """Install what is missing with apt; nothing that is installed is changed."""
    lacking = lacking_packages()
    if not lacking or shutil.which("apt-get") is None:
        return
    require_root("a cluster in namespaces of its own")
    say(f"installing {' '.join(lacking)} with apt")
    command = ["apt-get", "install", "--yes", "--no-upgrade", "--no-install-recommends", *lacking]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed; `apt-get update` may help: {ended.stderr.strip()[-1000:]}")


def cni() -> Path:
    """Where the CNI plugins are."""
    if found := _cni():
        return found
    raise ClusterError(f"there are no CNI plugins; install them with `apt install {_PLUGINS}`")


def _cni() -> Path | None:
    return next((folder for folder in _CNI if (folder / "bridge").exists()), None)


def require_cgroups() -> None:
    """Control groups of version 1 that can be written."""
    if (CGROUPS / "cgroup.controllers").exists():
        raise ClusterError(
            "this machine has control groups of version 2 only, where this node was never tried; boot with "
            "systemd.unified_cgroup_hierarchy=0, or stay with `make test-cluster KUBELET=0`"
        )
    lacking = [name for name in ("cpu", "cpuset", "memory", "pids") if not os.access(CGROUPS / name, os.W_OK)]
    if lacking:
        raise ClusterError(
            f"these control group hierarchies are not mounted writable beneath {CGROUPS}: {', '.join(lacking)}; in a "
            "container, start it privileged"
        )


def hierarchies() -> list[Path]:
    """The control group hierarchies of this machine."""
    return sorted(folder for folder in CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink())


def mirror() -> str:
    """Where this machine's own apt gets its packages."""
    listed = Path("/etc/apt")
    for path in (listed / "sources.list", *sorted((listed / "sources.list.d").glob("*"))):
        for found in _SOURCES.findall(path.read_text()) if path.exists() else ():
            if "security" not in found:
                return str(found)
    raise ClusterError("no Debian mirror is named in /etc/apt; the python image is made with debootstrap from one")
