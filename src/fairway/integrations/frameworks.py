"""The list of job kinds."""

from typing import Final

from fairway.integrations.batch_job import BatchJob
from fairway.integrations.framework import Framework
from fairway.integrations.ray_cluster import RayCluster
from fairway.integrations.ray_job import RayJob

FRAMEWORKS: Final[tuple[Framework, ...]] = (BatchJob(), RayJob(), RayCluster())
