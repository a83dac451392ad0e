"""Plain pods and pod groups as jobs: each pod, or each group, has a workload and runs when that is admitted.

What a pod or a group is and what follows from its state is decided in `jobs`; here it is read from the caches and
carried out. Pods of Jobs and of other kinds that the queue knows are no concern of this controller.
"""

from fairway.controllers.pods.controller import PodController

__all__ = ["PodController"]
