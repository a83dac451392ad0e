"""The scheduler: gives each pod that waits for a node a node with room for it.

Pods are taken by priority, then by age; each is placed by itself, so that one that does not fit keeps no other
waiting. Nothing is decided here about quota: what the queue admits has its quota already. No pod is pushed out for
another one, and rules between pods (`podAffinity`, `topologySpreadConstraints`) and preferences are not looked at.
"""

from fairway.controllers.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
