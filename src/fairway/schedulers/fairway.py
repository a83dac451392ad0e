"""Fairway: Kueue's labels, for the kinds that Fairway queues itself."""

from typing import Final

from fairway.integrations.frameworks import FRAMEWORKS
from fairway.schedulers.kueue import KueueScheduler


class FairwayScheduler(KueueScheduler):
    """The pods of kinds without an integration are a group, as with Kueue."""

    name = "fairway"
    integrations = ("fairway.dev/managedjob", *(framework.name for framework in FRAMEWORKS))


PLUGIN: Final = FairwayScheduler()
