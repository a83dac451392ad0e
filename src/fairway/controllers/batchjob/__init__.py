"""The job controller: batch/v1 Jobs become pods, as Kubernetes' own job controller makes them.

What to do is decided by pure functions (`deciding`, with `specs`, `pods`, `indexes`, `policies`, `ledgers`, `counts`,
`verdicts`, `statuses` and `templates`); `controller` carries it out and `owned` knows whose pod is whose. Whether a job
may run at all is not decided here: who queues jobs suspends them.
"""

from fairway.controllers.batchjob.controller import JobController

__all__ = ["JobController"]
