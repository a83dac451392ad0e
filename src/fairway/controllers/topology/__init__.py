"""Pods of workloads that were placed in a topology: opens their gate with the labels of their domain, and reports nodes
that fail under them.

A pod waits behind the scheduling gate `kueue.x-k8s.io/topology` until it is known which domain it goes to. Failed nodes
are written into `status.unhealthyNodes`; the engine finds another node or evicts the workload.
"""

from fairway.controllers.topology.controller import TopologyController

__all__ = ["TopologyController"]
