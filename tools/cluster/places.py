"""Where the cluster's files are. Nothing is written into the source tree."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.cluster import versions

ROOT: Final = Path(__file__).resolve().parents[2]
"""The source tree."""

CACHE_VARIABLE: Final = "FAIRWAY_CLUSTER_CACHE"
_VERSIONS: Final = {
    "kubernetes": versions.KUBERNETES,
    "kueue": versions.KUEUE,
    "kuberay": versions.KUBERAY,
    "yunikorn": versions.YUNIKORN,
}
_KUBERNETES = f"kubernetes-{versions.KUBERNETES}"
_FOLDERS: Final = {
    "etcd": f"etcd-{versions.ETCD}",
    "kube-apiserver": _KUBERNETES,
    "kube-controller-manager": _KUBERNETES,
    "kube-scheduler": _KUBERNETES,
    "kubelet": _KUBERNETES,
    "kube-proxy": _KUBERNETES,
    "coredns": f"coredns-{versions.COREDNS}",
    "kueue": f"kueue-{versions.KUEUE}",
    "ray-operator": f"kuberay-{versions.KUBERAY}",
    "yunikorn-scheduler": f"yunikorn-{versions.YUNIKORN}",
    "yunikorn-admission-controller": f"yunikorn-{versions.YUNIKORN}",
}
"""Binaries by the folder of their version: another version is another file."""


class ClusterError(Exception):
    """Something is missing or did not start; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Cache:
    """What is built once and used by all clusters."""

    root: Path

    @classmethod
    def default(cls) -> "Cache":
        """`$FAIRWAY_CLUSTER_CACHE`, else `fairway/cluster` in the user's cache directory."""
        if chosen := os.environ.get(CACHE_VARIABLE):
            return cls(Path(chosen).absolute())
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(home).absolute() / "fairway" / "cluster")

    @property
    def images(self) -> Path:
        return self.root / "images"

    def manifests(self, project: str) -> Path:
        """What is kept of a project's sources: manifests, and the C file of the pause image."""
        return self.root / "manifests" / f"{project}-{_VERSIONS[project]}"

    def cluster(self, name: str) -> Path:
        """The state of a cluster: gone when it is down."""
        return self.root / "clusters" / name

    def path(self, name: str) -> Path:
        """Where this binary is or will be."""
        return self.root / "bin" / _FOLDERS[name] / name

    def missing(self, *names: str) -> list[str]:
        """Those of the binaries that are not built."""
        return [name for name in names if not os.access(self.path(name), os.X_OK)]

    def binary(self, name: str) -> Path:
        """A binary that is there."""
        if self.missing(name):
            raise ClusterError(
                f"{self.path(name)} is not built; run `python -m tools.cluster build {name}` in the source tree, or "
                f"set ${CACHE_VARIABLE} to the directory of a cache that has it"
            )
        return self.path(name)
