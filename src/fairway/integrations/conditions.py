"""The conditions of a Workload, and the functions on conditions of any object (`apis/machinery/conditions.py`)."""

from typing import Final

from fairway.apis.machinery.conditions import Condition, find, is_true, of, shortened, with_condition

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
REQUEUED: Final = "Requeued"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"
WAITING_FOR_NODE: Final = "WaitingForNode"
"""Fairway's own: it has its quota, and pods of it fit on no node."""

__all__ = [
    "ADMITTED",
    "EVICTED",
    "FINISHED",
    "PODS_READY",
    "QUOTA_RESERVED",
    "REQUEUED",
    "WAITING_FOR_NODE",
    "Condition",
    "find",
    "is_true",
    "of",
    "shortened",
    "with_condition",
]
