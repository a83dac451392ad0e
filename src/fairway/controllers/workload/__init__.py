"""What time and others do to Workloads: pods that are not ready, runs that take too long, owners that are gone,
finished ones that were kept long enough, priority classes that change their value.

What is due is worked out from the stored object alone, so a restart forgets nothing. Who is evicted how is the engine's
business: it gets an event. Nothing here starts or stops a job.
"""

from fairway.controllers.workload.controller import WorkloadLifecycle

__all__ = ["WorkloadLifecycle"]
