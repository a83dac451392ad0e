"""The Secret of a launch goes with the last job that names it."""

import pytest

from fairway.apis.machinery.kind import Manifest

from .scene import JOBS, Scene, a_scene, job, story, task

LABELS = {"fairway.dev/secrets-of": "managed-jobs"}
HOUR = 3600


async def make_secret(scene: Scene, name: str = "values", labels: Manifest | None = None) -> None:
    manifest = {"metadata": {"name": name, "labels": LABELS if labels is None else labels}, "data": {"TOKEN": "eA=="}}
    await scene.api.create("secrets", manifest)
    await scene.rest()


def sweep_of(secret: str) -> Manifest:
    return job("sweep", task(1), secretName=secret)


@story
async def test_a_secret_stays_until_the_last_job_of_its_sweep_is_gone() -> None:
    async with a_scene() as scene:
        await make_secret(scene)
        first, second = [await scene.launch(sweep_of("values")) for _ in range(2)]
        await scene.end_all(first)
        await scene.api.delete(JOBS, first)
        await scene.pass_time(2 * HOUR)
        assert scene.api.names("secrets") == {"values"}

        await scene.end_all(second)
        await scene.pass_time(2 * HOUR)
        assert scene.api.names("secrets") == {"values"}, "an ended job may be retried"
        await scene.api.delete(JOBS, second)
        await scene.rest()
        assert not scene.api.names("secrets")


@story
async def test_a_secret_that_somebody_made_is_left_alone() -> None:
    async with a_scene() as scene:
        await make_secret(scene, labels={})
        name = await scene.launch(sweep_of("values"))
        await scene.api.delete(JOBS, name)
        await scene.pass_time(2 * HOUR)

        assert scene.api.names("secrets") == {"values"}


@pytest.mark.parametrize("killed", [pytest.param(True, id="after a restart"), pytest.param(False, id="without one")])
@story
async def test_a_secret_that_no_job_names_stays_for_an_hour(*, killed: bool) -> None:
    """Its jobs may be on their way, or went while nobody looked."""
    async with a_scene() as scene:
        await make_secret(scene, "lonely")
        await make_secret(scene, "awaited")
        if killed:
            await scene.kill()
            await scene.start()
        await scene.pass_time(HOUR - 60)
        assert scene.api.names("secrets") == {"lonely", "awaited"}
        await scene.launch(sweep_of("awaited"))

        await scene.pass_time(120)
        assert scene.api.names("secrets") == {"awaited"}


@story
async def test_a_secret_whose_jobs_went_while_no_server_ran_goes_too() -> None:
    async with a_scene() as scene:
        await make_secret(scene)
        name = await scene.launch(sweep_of("values"))
        await scene.pass_time(2 * HOUR)
        await scene.kill()
        await scene.api.delete(JOBS, name)

        await scene.start()
        await scene.pass_time(1)
        assert not scene.api.names("secrets")
