"""Stopping a job: told to suspend, waited for, and its templates made what they were."""

from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.jobframework.tools import Tools
from fairway.integrations.conditions import shortened
from fairway.integrations.framework import Framework, StopProgress

LONGEST_EVENT: Final = 1024
_MOST_STEPS: Final = 8
"""More than any kind takes; the rest is for the next time."""


async def stop(tools: Tools, framework: Framework, job: Manifest, workload: Manifest | None, why: str) -> bool:
    """Take the steps that can be taken now; whether the job has stopped by them."""
    pod_sets = None if workload is None else workload["spec"]["podSets"]
    for _ in range(_MOST_STEPS):
        step = framework.stop(job, pod_sets)
        if isinstance(step, StopProgress):
            return step is StopProgress.STOPPED
        job = await tools.writer.patch(framework.resource, job, step.patch, subresource=step.subresource, locked=True)
        if step.stops:
            tools.recorder.normal(job, "Stopped", shortened(why, LONGEST_EVENT))
    return False
