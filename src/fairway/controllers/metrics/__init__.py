"""What queues and workloads did, in numbers: the `kueue_*` metrics that Kueue's dashboards and alerts read.

Counting is a few additions when a Workload changes; gauges are read from the engine for each request. Nothing here
is stored: counters begin anew with each process, as they do everywhere.
"""

from fairway.controllers.metrics.controller import QueueMetrics

__all__ = ["QueueMetrics"]
