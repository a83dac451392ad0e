"""Limits and shares of a container, as enforced by its control group.

`limits` of a container are enforced, and its `requests` of CPU are its share under contention, as on a kubelet. A
managed job has no limits; it asks for `cpus` and `memory`. By configuration its memory is a limit or not, and its CPUs
are a share, a limit, or neither.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity
from fairway.runner.directories import managed_job_of
from fairway.runner.processes import ProcessLimits

NONE: Final = "none"


class Enforcement(Struct, frozen=True, kw_only=True):
    """What is enforced of what tasks ask for."""

    cpu: str = "share"
    """`share`, `limit` or `none`."""

    memory: str = "limit"
    """`limit` or `none`."""

    def limits(self, pod: Manifest, container: Mapping[str, Any]) -> ProcessLimits:
        """Those of one container; what it does not say, its pod may."""
        own = container.get("resources") or {}
        whole = pod["spec"].get("resources") or {}
        cpu, memory = (_amount(own, whole, "limits", name) for name in ("cpu", "memory"))
        share = _amount(own, whole, "requests", "cpu") if self.cpu != NONE else None
        if managed_job_of(pod):
            if memory is None and self.memory == "limit":
                memory = _amount(own, whole, "requests", "memory")
            if cpu is None and self.cpu == "limit":
                cpu = share
        return ProcessLimits(
            cpu_millis=cpu.milli() if cpu else None,
            cpu_share_millis=share.milli() if share else None,
            memory_bytes=memory.value() if memory else None,
        )


def _amount(own: Mapping[str, Any], whole: Mapping[str, Any], part: str, name: str) -> Quantity | None:
    said = (own.get(part) or {}).get(name) or (whole.get(part) or {}).get(name)
    found = Quantity.parse(said) if said else None
    return found if found is not None and found.milli() > 0 else None
