"""The configuration of an engine: fair sharing, requeueing, and the opt-in policies.

The defaults are those of Kueue 0.19 with its default feature gates. The policies at the end of :class:`Config` are
Fairway's own; each is inert unless it is set, so that an engine with default configuration decides as Kueue does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from fairway.apis.kueue.configuration import AdmissionFairSharingPolicy, FairSharingPolicy
from fairway.apis.machinery.quantities import Quantity

KUEUE_BATCH_SECONDS: Final = 1.0
"""How long Kueue collects freed quota before it tries parked workloads again."""


class RequeueTimestamp(StrEnum):
    EVICTION = "Eviction"
    CREATION = "Creation"


class PodsReady(Struct, frozen=True, kw_only=True):
    """What follows when the pods of an admitted workload do not become ready in time."""

    block_admission: bool = False
    requeue_timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION
    backoff_limit: int | None = None
    backoff_base_seconds: float = 60.0
    backoff_max_seconds: float = 3600.0


class Transformation(Struct, frozen=True, kw_only=True):
    """Count one resource as others: ``nvidia.com/mig-1g.5gb`` as so much ``credits``, say.

    Applied to each pod's request.
    """

    outputs: dict[str, Quantity]
    replace: bool = False
    multiply_by: str = ""


class Resources(Struct, frozen=True, kw_only=True):
    """How a pod's request becomes what quota is counted in."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: dict[str, Transformation] = {}
    ignore_undeclared: bool = False


class Config(Struct, frozen=True, kw_only=True):
    fair_sharing: FairSharingPolicy | None = None
    admission_fair_sharing: AdmissionFairSharingPolicy | None = None
    pods_ready: PodsReady = PodsReady()
    resources: Resources = Resources()
    requeue_batch_seconds: float = KUEUE_BATCH_SECONDS
    """How long freed quota may wait before parked workloads are tried again: changes within that time are taken
    together.
    """

    balanced_placement: bool = False
    """Spread pods that prefer a topology level evenly (Kueue's gate ``TASBalancedPlacement``)."""
    replace_failed_nodes_once: bool = True
    """Evict a workload when a failed node finds no replacement at once (``TASFailedNodeReplacementFailFast``)."""

    keep_first_submit_time: bool = False
    """Let a resubmitted workload queue by the time in its annotation ``fairway.dev/first-submitted-at``."""
    minimum_run_seconds: float = 0.0
    """How long a workload has held its quota before it may be chosen as a victim."""

    hold_admission: bool = False
    """Give nothing away: no workload is tried, so none gets quota and none is preempted."""
