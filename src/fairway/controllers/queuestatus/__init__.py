"""What ClusterQueues, LocalQueues and Cohorts show of themselves, and the finalizers that keep objects in use.

The numbers are the engine's; here they are only written down. Nothing here decides or touches a workload.
"""

from fairway.controllers.queuestatus.controller import QueueStatuses

__all__ = ["QueueStatuses"]
