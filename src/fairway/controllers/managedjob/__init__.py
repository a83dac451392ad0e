"""Managed jobs: one controller for all users and namespaces.

It sees (caches), has the state machine in `fairway.managedjobs` decide, and carries that out; who may run is decided by
the queue, on the Workload of the job.
"""
