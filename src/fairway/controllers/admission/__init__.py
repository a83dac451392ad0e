"""The queue at work: what is stored goes into the engine, what the engine decides goes into the Workloads' status.

Who is admitted or evicted is decided in `fairway.admission`; who stops the jobs and gives their quota back, who counts
how long pods take, and who shows queues their status are other controllers.
"""

from fairway.controllers.admission.controller import QueueingController

__all__ = ["QueueingController"]
