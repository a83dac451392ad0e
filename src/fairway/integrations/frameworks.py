"""The list of job kinds."""

from typing import Final

from fairway.integrations.batch_job import BatchJob
from fairway.integrations.framework import Framework

FRAMEWORKS: Final[tuple[Framework, ...]] = (BatchJob(),)
