"""The tasks of jobs, read once for each state of a job that is looked at again and again."""

from collections import OrderedDict
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.parse import stored_tasks
from fairway.managedjobs.tasks.task import Task

_MOST: Final = 256
"""So many are kept: those that run and change, not those that wait."""


class Tasks:
    """Remembers the tasks of the jobs that were looked at last."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, int], tuple[tuple[Task, ...], str]] = OrderedDict()

    def of(self, job: Manifest) -> tuple[tuple[Task, ...], str]:
        """The tasks; or none, and why they cannot be read."""
        key = (job["metadata"]["uid"], job["metadata"].get("generation", 0))
        found = self._read.pop(key, None)
        if found is None:
            try:
                found = stored_tasks(job), ""
            except TaskError as error:
                found = (), str(error)
        self._read[key] = found
        if len(self._read) > _MOST:
            self._read.popitem(last=False)
        return found
