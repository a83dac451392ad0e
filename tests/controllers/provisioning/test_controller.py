"""The check by ProvisioningRequest on a real store, with the queue and the provisioner played by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllers import timeline
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.provisioning import ProvisioningController
from fairway.integrations.conditions import find
from fairway.integrations.workloads import controller_of, owner_reference
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster

from .things import (
    CLASS,
    answer,
    check,
    check_of,
    condition,
    config,
    events,
    pod_set,
    reserve,
    reserved,
    set_status,
    state,
    workload,
)

REQUEST, TEMPLATE = "wl-prov-1", "ppt-wl-prov-1-main"
SAID_NOT_NEEDED = (
    "Admission check prov updated state from Pending to Ready with message: the provisioning request is not needed"
)


def flavor() -> Manifest:
    return {"metadata": {"name": "flavor"}, "spec": {"nodeLabels": {"type": "spot"}}}


@asynccontextmanager
async def provisioning(*objects: Manifest, keepers: bool = True, **spec: Any) -> AsyncIterator[LocalCluster]:
    """A cluster with a check, its configuration and the controller of them."""
    async with local_cluster(keepers=keepers) as local:
        recorder = Recorder(local.cluster, "kueue-admission")
        controller = ProvisioningController(local.cluster, recorder)
        async with local.running(controller, recorder):
            await timeline.create(
                local,
                resourceflavors=flavor(),
                provisioningrequestconfigs=config(**spec),
                admissionchecks=list(objects or (check(),)),
            )
            yield local


def names(local: LocalCluster) -> tuple[set[str], set[str]]:
    """The requests and the templates that are there."""
    return local.api.names("provisioningrequests"), local.api.names("podtemplates")


def answer_of(local: LocalCluster) -> tuple[str, str]:
    said = check_of(local)
    return said["state"], said["message"]


def active(local: LocalCluster, name: str = "prov") -> tuple[str, str, str] | None:
    found = find(local.api.get("admissionchecks", name) or {}, "Active")
    return (found["status"], found["reason"], found["message"]) if found else None


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(check(), ("True", "Active", "The admission check is active"), id="a check that is complete"),
        pytest.param(
            check(name="prov") | {"spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"}},
            ("False", "BadParametersRef", "missing parameters reference"),
            id="no parameters",
        ),
        pytest.param(
            check(name="prov")
            | {"spec": check()["spec"] | {"parameters": {**check()["spec"]["parameters"], "name": "x"}}},
            ("False", "BadParametersRef", 'ProvisioningRequestConfig.kueue.x-k8s.io "x" not found'),
            id="parameters that are not there",
        ),
        pytest.param(
            check(apiGroup="x.io"),
            (
                "False",
                "BadParametersRef",
                'wrong group "x.io", expecting "kueue.x-k8s.io": bad parameters reference',
            ),
            id="parameters of another group",
        ),
        pytest.param(
            check(kind="ConfigMap"),
            (
                "False",
                "BadParametersRef",
                'wrong kind "ConfigMap", expecting "ProvisioningRequestConfig": bad parameters reference',
            ),
            id="parameters of another kind",
        ),
        pytest.param(check(controller="example.com/budget"), None, id="the check of somebody else"),
    ],
)
def test_a_check_says_whether_it_is_active(made: Manifest, want: tuple[str, str, str] | None) -> None:
    async def story() -> None:
        async with provisioning(made) as local:
            assert active(local) == want

    asyncio.run(story())


def test_a_check_is_active_as_long_as_its_configuration_is_there() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await local.api.delete("provisioningrequestconfigs", "prov-config")
            await timeline.catch_up(local)
            assert active(local) == (
                "False",
                "BadParametersRef",
                'ProvisioningRequestConfig.kueue.x-k8s.io "prov-config" not found',
            )

            await timeline.create(local, provisioningrequestconfigs=config())
            assert active(local) == ("True", "Active", "The admission check is active")

    asyncio.run(story())


def test_a_workload_with_quota_asks_for_room() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await reserve(local, workload("wl", pod_set(count=3)))

            request = local.api.get("provisioningrequests", REQUEST)
            template = local.api.get("podtemplates", TEMPLATE)
            assert request is not None
            assert template is not None
            assert request["spec"] == {
                "provisioningClassName": CLASS,
                "parameters": {},
                "podSets": [{"podTemplateRef": {"name": TEMPLATE}, "count": 3}],
            }
            assert (controller_of(request) or {})["name"] == "wl"
            assert (controller_of(template) or {})["uid"] == request["metadata"]["uid"]
            assert template["template"]["spec"]["nodeSelector"] == {"type": "spot"}
            assert check_of(local)["state"] == "Pending"
            assert CLASS in check_of(local)["message"]
            assert await events(local) == [
                ("Normal", "ProvisioningRequestCreated", f'Created ProvisioningRequest: "{REQUEST}"')
            ]

    asyncio.run(story())


def test_a_workload_without_quota_asks_for_nothing() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await timeline.create(local, workloads=workload())
            await set_status(local, "wl", {"admissionChecks": [state()]})

            assert names(local) == (set(), set())

    asyncio.run(story())


def test_a_check_of_another_controller_is_left_alone() -> None:
    async def story() -> None:
        async with provisioning(check(controller="example.com/budget")) as local:
            await reserve(local, workload())

            assert names(local) == (set(), set())
            assert answer_of(local) == ("Pending", "")

    asyncio.run(story())


def test_a_workload_that_uses_nothing_of_it_is_ready_at_once() -> None:
    async def story() -> None:
        async with provisioning(managedResources=["nvidia.com/gpu"]) as local:
            await reserve(local, workload())

            assert answer_of(local) == ("Ready", "the provisioning request is not needed")
            assert names(local) == (set(), set())
            assert await events(local) == [("Normal", "AdmissionCheckUpdated", SAID_NOT_NEEDED)]

    asyncio.run(story())


def test_room_that_was_made_makes_the_check_ready() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await reserve(local, workload())
            await answer(local, REQUEST, condition("Accepted"), condition("Provisioned", "False", "In an hour"))
            assert answer_of(local) == ("Pending", "In an hour")

            local.clock.advance(60)
            await answer(local, REQUEST, condition("Accepted"), condition("Provisioned", message="Here"))
            assert check_of(local) == {
                "name": "prov",
                "state": "Ready",
                "message": "Here",
                "lastTransitionTime": "2026-01-01T00:01:00Z",
                "podSetUpdates": [
                    {
                        "name": "main",
                        "annotations": {
                            "autoscaling.x-k8s.io/consume-provisioning-request": REQUEST,
                            "autoscaling.x-k8s.io/provisioning-class-name": CLASS,
                        },
                    }
                ],
            }
            said = "Admission check prov updated state from Pending to Ready with message: Here"
            assert ("Normal", "AdmissionCheckUpdated", said) in await events(local)

    asyncio.run(story())


async def _evict(local: LocalCluster, retries: int | None) -> None:
    """What the queue does with a workload whose check says Retry, both halves of it."""
    entry = state(message="Reset to Pending after eviction. Previously: Retry")
    if retries is not None:
        entry["retryCount"] = retries
    await set_status(
        local, "wl", {"conditions": [condition("QuotaReserved"), condition("Evicted")], "admissionChecks": [entry]}
    )
    await set_status(
        local, "wl", {"conditions": [condition("QuotaReserved", "False"), condition("Evicted")], "admission": None}
    )


async def _reserve_again(local: LocalCluster) -> None:
    quota = {"conditions": [condition("QuotaReserved"), condition("Evicted", "False")]}
    await set_status(local, "wl", {**quota, "admission": reserved(workload())["status"]["admission"]})


def test_a_failed_request_is_made_again_after_longer_and_longer_waits_and_given_up_at_last() -> None:
    async def story() -> None:
        async with provisioning(retryStrategy={"backoffLimitCount": 2, "backoffBaseSeconds": 60}) as local:
            await reserve(local, workload())
            for attempt, wait in ((1, 60), (2, 120)):
                name = f"wl-prov-{attempt}"
                assert names(local) == ({name}, {f"ppt-{name}-main"})
                await answer(local, name, condition("Failed", message="No stock"))
                assert answer_of(local) == ("Retry", "Retrying after failure: No stock")
                assert check_of(local)["requeueAfterSeconds"] == wait

                await _evict(local, attempt)
                await timeline.catch_up(local)
                assert names(local) == (set(), set())
                await timeline.pass_time(local, wait, step=10)
                await _reserve_again(local)

            await answer(local, "wl-prov-3", condition("Failed", message="No stock"))
            assert answer_of(local) == ("Rejected", "No stock")

    asyncio.run(story())


def test_a_booking_that_expires_before_admission_is_made_again() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await reserve(local, workload())
            expired = condition("BookingExpired", message="Late")
            await answer(local, REQUEST, condition("Provisioned"), expired)
            assert answer_of(local) == ("Retry", "Retrying after booking expired: Late")

    asyncio.run(story())


@pytest.mark.parametrize("keepers", [True, False], ids=["collected at once", "collected later"])
def test_a_workload_that_was_evicted_for_another_reason_asks_again_under_the_same_name(*, keepers: bool) -> None:
    """The template of the first request may still be there when the second one, of the same name, is made."""

    async def story() -> None:
        async with provisioning(keepers=keepers) as local:
            await reserve(local, workload())
            await answer(local, REQUEST, condition("Provisioned"))
            first = local.api.get("provisioningrequests", REQUEST)
            await _evict(local, None)
            await _reserve_again(local)

            second, template = local.api.get("provisioningrequests", REQUEST), local.api.get("podtemplates", TEMPLATE)
            assert first is not None
            assert second is not None
            assert template is not None
            assert first["metadata"]["uid"] != second["metadata"]["uid"]
            assert (controller_of(template) or {})["uid"] == second["metadata"]["uid"]

    asyncio.run(story())


@pytest.mark.parametrize("ending", ["finished", "deleted"])
def test_requests_go_when_the_workload_has_finished_or_is_gone(ending: str) -> None:
    async def story() -> None:
        async with provisioning() as local:
            await reserve(local, workload())
            assert names(local) == ({REQUEST}, {TEMPLATE})

            if ending == "finished":
                await set_status(local, "wl", {"conditions": [condition("QuotaReserved"), condition("Finished")]})
            else:
                await local.api.delete("workloads", "wl")
            await local.api.until(lambda: names(local) == (set(), set()))

    asyncio.run(story())


def test_a_request_that_asks_in_another_way_than_configured_is_made_anew() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await reserve(local, workload())
            await local.api.patch("provisioningrequestconfigs", "prov-config", {"spec": {"parameters": {"zone": "a"}}})
            await timeline.catch_up(local)

            request, template = local.api.get("provisioningrequests", REQUEST), local.api.get("podtemplates", TEMPLATE)
            assert request is not None
            assert template is not None
            assert request["spec"]["parameters"] == {"zone": "a"}
            assert (controller_of(template) or {})["uid"] == request["metadata"]["uid"]

    asyncio.run(story())


def test_a_check_without_a_configuration_waits_for_one() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await local.api.delete("provisioningrequestconfigs", "prov-config")
            await reserve(local, workload())
            assert answer_of(local) == ("Pending", "the check is not active")

            await timeline.create(local, provisioningrequestconfigs=config())
            assert names(local) == ({REQUEST}, {TEMPLATE})

    asyncio.run(story())


def test_a_template_that_cannot_be_made_is_reported() -> None:
    async def story() -> None:
        async with provisioning() as local:
            await reserve(local, workload("wl", pod_set(nodeSelector={"type": "on-demand"})))

            said = (
                f'Error creating PodTemplate "{TEMPLATE}": invalid admission check PodSetUpdate: conflict for'
                " nodeSelector: conflict for key=type, value1=on-demand, value2=spot"
            )
            assert answer_of(local) == ("Pending", said)
            assert ("Warning", "FailedCreate", said) in await events(local)

    asyncio.run(story())


def test_a_controller_that_was_stopped_half_way_goes_on_where_it_was() -> None:
    """It was killed after the template and before the request, and again after the request."""

    async def story() -> None:
        async with local_cluster() as local:
            await timeline.create(
                local, resourceflavors=flavor(), provisioningrequestconfigs=config(), admissionchecks=check()
            )
            await reserve(local, workload())
            owner = local.api.get("workloads", "wl")
            assert owner is not None
            reference = {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "name": "wl",
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
            metadata = {"name": TEMPLATE, "namespace": "default", "ownerReferences": [reference]}
            template = workload()["spec"]["podSets"][0]["template"]
            await timeline.create(local, podtemplates={"metadata": metadata, "template": template})
            for _ in range(2):
                again = LocalCluster(local.api, cluster_on(local.api, local.clock), local.clock)
                async with again.running(
                    ProvisioningController(again.cluster, Recorder(again.cluster, "kueue-admission"))
                ):
                    await timeline.catch_up(local)
                assert names(local) == ({REQUEST}, {TEMPLATE})

            request, made = local.api.get("provisioningrequests", REQUEST), local.api.get("podtemplates", TEMPLATE)
            assert (controller_of(made or {}) or {})["uid"] == (request or {})["metadata"]["uid"]

    asyncio.run(story())


def test_of_several_requests_the_last_one_counts_and_the_others_go() -> None:
    async def story() -> None:
        async with local_cluster() as local:
            await timeline.create(
                local,
                resourceflavors=flavor(),
                provisioningrequestconfigs=config(retryStrategy={"backoffLimitCount": 20}),
                admissionchecks=check(),
            )
            await reserve(local, workload(), state(retryCount=10))
            owner = owner_reference(local.api.get("workloads", "wl") or {})
            for attempt in (2, 10):
                metadata = {"name": f"wl-prov-{attempt}", "namespace": "default", "ownerReferences": [owner]}
                pods = [{"podTemplateRef": {"name": "any"}, "count": 1}]
                spec = {"provisioningClassName": CLASS, "podSets": pods}
                await timeline.create(local, provisioningrequests={"metadata": metadata, "spec": spec})
            await answer(local, "wl-prov-10", condition("Failed", message="No stock"))
            recorder = Recorder(local.cluster, "kueue-admission")
            async with local.running(ProvisioningController(local.cluster, recorder)):
                await timeline.catch_up(local)

            assert names(local)[0] == {"wl-prov-11"}

    asyncio.run(story())


def test_two_checks_have_a_request_each() -> None:
    async def story() -> None:
        async with provisioning(check("one"), check("two")) as local:
            await reserve(local, workload(), state("one"), state("two"))
            assert names(local)[0] == {"wl-one-1", "wl-two-1"}

            await answer(local, "wl-two-1", condition("Provisioned", message="Here"))
            found = local.api.get("workloads", "wl")
            assert found is not None
            assert [one["state"] for one in found["status"]["admissionChecks"]] == ["Pending", "Ready"]

    asyncio.run(story())
