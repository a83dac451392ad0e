"""Workloads that have their quota and wait for a node: says so on the Workload, in the condition `WaitingForNode`.

Kueue leaves this to the pods, where it is easily missed. The condition says why and since when, for users,
and so that a Workload without running pods releases its quota after a time (`controllers.workload`).
"""

from fairway.controllers.placement.controller import WaitingForNode

__all__ = ["WaitingForNode"]
