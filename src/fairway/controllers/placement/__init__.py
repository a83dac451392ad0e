"""Workloads that have their quota and wait for a node: says so on the Workload, in the condition `WaitingForNode`.

Kueue leaves this to the pods, where it is easily missed. The condition says why and since when, so that people are
told, and so that a Workload of which nothing runs gives its quota back after a time (`controllers.lifecycle`).
"""

from fairway.controllers.placement.controller import WaitingForNode

__all__ = ["WaitingForNode"]
