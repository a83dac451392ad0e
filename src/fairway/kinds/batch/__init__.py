"""The kinds of the batch group; `KINDS` are their records."""

from typing import Final

from fairway.kinds.batch.jobs import JOB
from fairway.kinds.kind import Kind

KINDS: Final[tuple[Kind, ...]] = (JOB,)
