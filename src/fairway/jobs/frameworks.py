"""Every job kind that the queue knows."""

from typing import Final

from fairway.jobs.batch_job import BatchJob
from fairway.jobs.framework import Framework

FRAMEWORKS: Final[tuple[Framework, ...]] = (BatchJob(),)
