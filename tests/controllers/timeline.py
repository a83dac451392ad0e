"""Stories in virtual time on a real store: what happens at once, and what a stretch of time brings."""

from fairway.apis.machinery.kind import Manifest
from fairway.testing.clusters import LocalCluster


async def catch_up(local: LocalCluster) -> None:
    """Let everything happen that needs no time."""
    await local.rest()


async def create(local: LocalCluster, **objects: Manifest | list[Manifest]) -> None:
    """Create objects by kind, in this order, and let the controllers see them."""
    for kind, given in objects.items():
        for manifest in given if isinstance(given, list) else [given]:
            await local.api.create(kind, manifest)
    await catch_up(local)


async def pass_time(local: LocalCluster, seconds: float, step: float = 0.05) -> None:
    """Let time pass in small steps, each with all that it brings."""
    for _ in range(round(seconds / step)):
        await local.clock.run_for(step)
        await catch_up(local)
