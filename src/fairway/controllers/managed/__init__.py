"""Managed jobs: one controller for all users and namespaces.

It sees (caches), has the state machine in `fairway.managed` decide, and carries that out. What is decided is decided
there; who may run is decided by the queue, on the job's Workload.
"""
