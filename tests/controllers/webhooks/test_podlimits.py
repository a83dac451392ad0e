"""New pods get the defaults of their namespace and the overhead of their class, or are refused with 403."""

import asyncio

import pytest

from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.webhooks.podlimits import PodLimitAdmission
from fairway.errors import Forbidden
from fairway.testing.clock import settle
from fairway.testing.clusters import local_cluster


def a_pod(**spec: object) -> Manifest:
    container = {"name": "c", "resources": {}}
    return {"metadata": {"generateName": "p-", "namespace": "default"}, "spec": {"containers": [container], **spec}}


def test_pods_are_completed_and_refused_by_what_there_is_now() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            plugin = PodLimitAdmission(world.cluster)
            async with world.running():
                kind = world.api.kind("pods")

                def admit(pod: Manifest) -> Manifest:
                    assert plugin.admit(AdmissionRequest(kind, pod)) == ALLOWED
                    return pod

                untouched = admit(a_pod())
                assert untouched == a_pod()
                with pytest.raises(Forbidden, match='pods "p-" is forbidden: pod rejected: RuntimeClass "x" not found'):
                    admit(a_pod(runtimeClassName="x"))

                limits = [{"type": "Container", "default": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "2"}}]
                bounds = {"metadata": {"name": "bounds", "namespace": "default"}, "spec": {"limits": limits}}
                await world.api.create("limitranges", bounds)
                sandbox = {"metadata": {"name": "x"}, "handler": "x", "overhead": {"podFixed": {"cpu": "1"}}}
                await world.api.create("runtimeclasses.node.k8s.io", sandbox)
                await settle()

                made = admit(a_pod(runtimeClassName="x"))
                assert made["spec"]["overhead"] == {"cpu": "1"}
                assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
                three = {"name": "d", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}}
                with pytest.raises(Forbidden, match="maximum cpu usage per Pod is 2, but limit is 3"):
                    admit(a_pod(containers=[three]))

                await world.api.delete("limitranges", "bounds", namespace="default")
                await settle()
                assert admit(a_pod()) == a_pod()

    asyncio.run(story())
