"""The records of the batch kinds."""

from typing import Final

from fairway.apis.batch.jobs import JOB
from fairway.apis.machinery.kind import Kind

KINDS: Final[tuple[Kind, ...]] = (JOB,)
