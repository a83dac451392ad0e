"""The one-node cluster as a whole: finding, starting and removing it."""

from dataclasses import dataclass
from pathlib import Path

from tools.cluster.places import Cache, ClusterError


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that is up."""

    name: str
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @classmethod
    def find(cls, name: str, cache: Cache | None = None) -> "RunningCluster":
        """The cluster of this name, if it is up."""
        found = cls(name, (cache or Cache.default()).root / "clusters" / name)
        if not found.kubeconfig.exists():
            raise ClusterError(
                f"the cluster {name} is not up: there is no {found.kubeconfig}; start it with `make cluster`"
            )
        return found
