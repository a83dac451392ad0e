"""Fairway's own settings: `fairway-config`, beside Kueue's."""

import asyncio

import pytest

from fairway.apis.kueue import configuration_file
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import CurrentConfiguration
from fairway.errors import ValidationError
from fairway.testing.clusters import local_cluster

KUEUE = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: true
"""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", {"node_timeout_seconds": 300.0, "jobs_outside_queues": "Allow"}),
        ("nodeTimeout: 90s", {"node_timeout_seconds": 90.0, "jobs_outside_queues": "Allow"}),
        ("nodeTimeout: 0s", {"node_timeout_seconds": None, "jobs_outside_queues": "Allow"}),
        (
            "holdAdmission: true",
            {"node_timeout_seconds": 300.0, "jobs_outside_queues": "Allow", "hold_admission": True},
        ),
        ("jobsOutsideQueues: Deny", {"node_timeout_seconds": 300.0, "jobs_outside_queues": "Deny"}),
    ],
)
def test_what_can_be_set(text: str, want: dict[str, object]) -> None:
    assert configuration_file.read_own(text) == {"hold_admission": False, **want}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("nodeTimeout: soon", "nodeTimeout"),
        ("nodeTimeout: -5m", "nodeTimeout"),
        ("jobsOutsideQueues: Maybe", "jobsOutsideQueues"),
        ("nodeTimeuot: 5m", "nodeTimeuot"),
    ],
)
def test_what_cannot_be_used_is_named(text: str, want: str) -> None:
    with pytest.raises(ValidationError, match=want):
        configuration_file.read_own(text)


def test_both_config_maps_are_in_force_together() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            current = CurrentConfiguration(world.cluster, Recorder(world.cluster, "kueue"))
            async with world.running():
                await world.api.create("namespaces", {"metadata": {"name": "kueue-system"}})
                for name, key, text in (
                    ("fairway-config", "config.yaml", "nodeTimeout: 90s"),
                    (
                        "kueue-manager-config",
                        "controller_manager_config.yaml",
                        KUEUE,
                    ),
                ):
                    made = {"metadata": {"name": name, "namespace": "kueue-system"}, "data": {key: text}}
                    await world.api.create("configmaps", made, namespace="kueue-system")
                await world.cluster_says(lambda: current.value.manage_jobs_without_queue_name)
                assert current.value.node_timeout_seconds == 90.0
                await world.api.delete("configmaps", "fairway-config", namespace="kueue-system")
                await world.cluster_says(lambda: current.value.node_timeout_seconds == 300.0)
                assert current.value.manage_jobs_without_queue_name

    asyncio.run(story())
