"""Labels and annotations of Fairway that choose a queue or a scheduler."""

from typing import Final

from fairway.apis.fairway import teams

ORGANIZATION: Final = teams.ORGANIZATION_LABEL
"""Label of a namespace, or of a job in a namespace without one."""

TEAM: Final = teams.LABEL
"""Label of a namespace."""

JOB_TYPE: Final = "fairway.dev/job-type"
"""Label of a job; without it, the type is that of its kind."""

SCHEDULER: Final = "fairway.dev/scheduler"
"""Annotation of a ManagedJob: the plugin that completes the pods of each attempt."""

GANG: Final = "fairway.dev/gang-scheduling"
"""Annotation of a ManagedJob: `false` if its pods are scheduled one by one."""

DEFAULT_TYPE: Final = teams.LOCAL_QUEUE
"""The type of jobs whose kind is not configured."""
