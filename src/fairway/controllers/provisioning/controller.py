"""The admission check by ProvisioningRequest as a controller: asks for room for workloads that have quota.

For each workload it looks at in order: are its requests still wanted, what do they say, and is there one to be made.
Requests go with the workload, and are deleted before that once it has finished or was evicted.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from fairway.apis.kueue import manifests
from fairway.apis.kueue.objects import GROUP, CheckState, ProvisioningRequestConfig, ProvisioningRequestConfigSpec
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.status import StatusChange
from fairway.controllers.kit.writes import commit
from fairway.controllers.provisioning import decide
from fairway.controllers.provisioning.decide import ProvisionedPodSet
from fairway.errors import AlreadyExists, Conflict, FairwayError
from fairway.integrations import conditions
from fairway.integrations.workloads import controller_of, owner_reference
from fairway.runtime.worker import Worker

CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
"""What a check says that is answered here."""

_CONFIG_KIND: Final = "ProvisioningRequestConfig"
_ACTIVE: Final = "Active"

_LONGEST_EVENT: Final = 1024


def is_ours(check: Manifest | None) -> bool:
    return check is not None and check["spec"]["controllerName"] == CONTROLLER


def config_name(check: Manifest) -> str | None:
    """The configuration that a check names, if it names one of the right kind."""
    parameters = check["spec"].get("parameters")
    return str(parameters["name"]) if parameters is not None and _wrong_reference(parameters) is None else None


class CheckActivity:
    """Keeps `Active` true for checks with a configuration, and false, with the reason, for all others."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._writer = cluster.writer("kueue")
        self._checks = cluster.cache("admissionchecks")
        self._configs = cluster.cache("provisioningrequestconfigs")
        self._worker: Worker[str] = Worker("provisioning checks", cluster.clock, self._reconcile, parallel=1)
        self._checks.on_change(self._on_check_change)
        self._configs.on_change(self._on_config_change)

    async def run(self) -> None:
        """Look after the checks until cancelled."""
        await self._checks.synced.wait()
        await self._configs.synced.wait()
        await self._worker.run()

    def _on_check_change(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and is_ours(new):
            self._worker.add(new["metadata"]["name"])

    def _on_config_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is not None and new is not None:
            return  # only whether it is there counts
        name = (new or old or {})["metadata"]["name"]
        for check in self._checks.items():
            if is_ours(check) and config_name(check) == name:
                self._worker.add(check["metadata"]["name"])

    async def _reconcile(self, name: str) -> None:
        check = self._checks.get("", name)
        if check is None or not is_ours(check):
            return
        wrong = self._what_is_wrong(check)
        if wrong is None:
            status, reason, message = "True", "Active", "The admission check is active"
        else:
            status, reason, message = "False", "BadParametersRef", wrong
        known = conditions.find(check, _ACTIVE) or {}
        if (known.get("status"), known.get("reason"), known.get("message")) == (status, reason, message):
            return
        change = StatusChange(check, self._clock.now())
        change.set(_ACTIVE, status, reason, message)
        await commit(self._writer, "admissionchecks", change)

    def _what_is_wrong(self, check: Manifest) -> str | None:
        parameters = check["spec"].get("parameters")
        if parameters is None:
            return "missing parameters reference"
        wrong = _wrong_reference(parameters)
        if wrong is not None:
            return wrong
        if self._configs.get("", parameters["name"]) is None:
            return f'{_CONFIG_KIND}.{GROUP} "{parameters["name"]}" not found'
        return None


def _wrong_reference(parameters: Manifest) -> str | None:
    if not parameters.get("name"):
        return "empty name: bad parameters reference"
    if parameters.get("apiGroup") != GROUP:
        return f'wrong group "{parameters.get("apiGroup")}", expecting "{GROUP}": bad parameters reference'
    if parameters.get("kind") != _CONFIG_KIND:
        return f'wrong kind "{parameters.get("kind")}", expecting "{_CONFIG_KIND}": bad parameters reference'
    return None


@dataclass(slots=True)
class _Case:
    """One check of one workload."""

    check: Manifest
    """Its entry in the workload's status."""

    config: ProvisioningRequestConfigSpec | None
    asks: list[ProvisionedPodSet]
    request: Manifest | None = None
    """The latest one that asks as is configured."""

    attempt: int = 0

    @property
    def name(self) -> str:
        return str(self.check["name"])


class ProvisioningController:
    """Keeps a request for each check of each workload that has quota, and the check's state in step with it."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._clock = cluster.clock
        self._recorder = recorder
        self._writer = cluster.writer("kueue")
        self._activity = CheckActivity(cluster)
        self._owned: dict[Key, dict[str, Manifest]] = {}
        """The requests of each workload, by name."""
        self._worker: Worker[Key] = Worker("provisioning", cluster.clock, self._reconcile)
        self._workloads = cluster.cache("workloads")
        self._checks = cluster.cache("admissionchecks")
        self._configs = cluster.cache("provisioningrequestconfigs")
        self._flavors = cluster.cache("resourceflavors")
        self._requests = cluster.cache("provisioningrequests")
        self._templates = cluster.cache("podtemplates")
        self._caches = (
            self._workloads,
            self._checks,
            self._configs,
            self._flavors,
            self._requests,
            self._templates,
        )
        self._requests.on_change(self._on_request_change)
        self._workloads.on_change(self._on_workload_change)
        self._checks.on_change(self._on_check_change)
        self._configs.on_change(self._on_config_change)

    async def run(self) -> None:
        """Look after the checks of workloads until cancelled."""
        for cache in self._caches:
            await cache.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._activity.run())
            group.create_task(self._worker.run())

    # What happens outside

    def _on_workload_change(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            return  # its requests are collected with it
        key = key_of(new)
        if (new.get("status") or {}).get("admissionChecks") or key in self._owned:
            self._worker.add(key)

    def _on_request_change(self, old: Manifest | None, new: Manifest | None) -> None:
        request = new or old or {}
        owner = controller_of(request)
        if owner is None or owner["kind"] != "Workload":
            return
        key = request["metadata"]["namespace"], owner["name"]
        if new is not None:
            self._owned.setdefault(key, {})[request["metadata"]["name"]] = new
        elif key in self._owned:
            self._owned[key].pop(request["metadata"]["name"], None)
            if not self._owned[key]:
                del self._owned[key]
        self._worker.add(key)

    def _on_check_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if (is_ours(old) or is_ours(new)) and (old or {}).get("spec") != (new or {}).get("spec"):
            self._look_at_workloads_with({(new or old or {})["metadata"]["name"]})

    def _on_config_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if (old or {}).get("spec") == (new or {}).get("spec"):
            return
        name = (new or old or {})["metadata"]["name"]
        self._look_at_workloads_with(
            {check["metadata"]["name"] for check in self._checks.items() if config_name(check) == name}
        )

    def _look_at_workloads_with(self, checks: set[str]) -> None:
        """Every workload is gone through here; checks and their configurations change rarely."""
        for workload in self._workloads.items():
            listed = (workload.get("status") or {}).get("admissionChecks") or ()
            if any(check["name"] in checks for check in listed):
                self._worker.add(key_of(workload))

    # What is done about it

    async def _reconcile(self, key: Key) -> None:
        workload = self._workloads.get(*key)
        if workload is None:
            return
        owned = self._requests_of(workload)
        if conditions.is_true(workload, conditions.FINISHED) or conditions.is_true(workload, conditions.EVICTED):
            await self._delete(owned)
            return
        if not conditions.is_true(workload, conditions.QUOTA_RESERVED):
            return
        cases = [self._case(workload, check, owned) for check in self._our_checks(workload)]
        workload = await self._write_states(workload, cases)
        wanted = {case.request["metadata"]["name"] for case in cases if case.request is not None}
        await self._delete([request for request in owned if request["metadata"]["name"] not in wanted])
        for case in cases:
            if case.config is not None and case.asks and case.check["state"] != CheckState.READY:
                await self._keep_request(workload, case, case.config)

    def _requests_of(self, workload: Manifest) -> list[Manifest]:
        uid = workload["metadata"]["uid"]
        owned = self._owned.get(key_of(workload), {}).values()
        return [one for one in owned if (controller_of(one) or {}).get("uid") == uid]

    def _our_checks(self, workload: Manifest) -> list[Manifest]:
        return [
            check
            for check in workload["status"].get("admissionChecks") or ()
            if is_ours(self._checks.get("", check["name"]))
        ]

    def _case(self, workload: Manifest, check: Manifest, owned: list[Manifest]) -> _Case:
        config = self._config(check["name"])
        case = _Case(check, config, decide.asks_of(workload, config) if config is not None else [])
        if config is None or not case.asks:
            return case
        for request in owned:
            attempt = decide.attempt_of(request["metadata"]["name"], workload["metadata"]["name"], case.name)
            if attempt is not None and attempt > case.attempt and decide.is_as_configured(request, config):
                case.request, case.attempt = request, attempt
        return case

    def _config(self, check_name: str) -> ProvisioningRequestConfigSpec | None:
        check = self._checks.get("", check_name)
        name = config_name(check) if check is not None else None
        manifest = self._configs.get("", name) if name is not None else None
        if manifest is None:
            return None
        return manifests.typed(ProvisioningRequestConfig, manifest).spec

    async def _write_states(self, workload: Manifest, cases: list[_Case]) -> Manifest:
        """Bring the states of the checks in line with the requests; the workload as it is then."""
        now = stamp(self._clock.now())
        changes = []
        for case in cases:
            before, case.check = case.check, _state(workload, case)
            if case.check["state"] != before["state"]:
                case.check = {**case.check, "lastTransitionTime": now}
            if case.check != before:
                changes.append((before, case.check))
        if not changes:
            return workload
        workload = await self._write(workload, [after for _, after in changes])
        for before, after in changes:
            if before["state"] != after["state"]:
                said = f"Admission check {after['name']} updated state from {before['state']} to {after['state']}"
                said += f" with message: {after['message']}" if after["message"] else ""
                said = conditions.shortened(said, _LONGEST_EVENT)
                self._recorder.normal(workload, "AdmissionCheckUpdated", said)
        return workload

    async def _write(self, workload: Manifest, checks: list[Manifest]) -> Manifest:
        changed = {check["name"]: check for check in checks}
        listed = [changed.get(check["name"], check) for check in workload["status"]["admissionChecks"]]
        patch = {"status": {"admissionChecks": listed}}
        return await self._writer.patch("workloads", workload, patch, subresource="status", locked=True)

    async def _delete(self, unwanted: list[Manifest]) -> None:
        for request in unwanted:
            await self._writer.delete("provisioningrequests", request)

    # Requests and their templates

    async def _keep_request(self, workload: Manifest, case: _Case, config: ProvisioningRequestConfigSpec) -> None:
        """There is a request, and its templates are there and belong to it."""
        request = case.request
        if request is None or decide.calls_for_another(request, workload, case.check):
            attempt = case.attempt + 1 if request is not None else (case.check.get("retryCount") or 0) + 1
            name = decide.request_name(workload["metadata"]["name"], case.name, attempt)
            await self._keep_templates(workload, case, name, workload)
            request = await self._create_request(workload, case, config, name)
        await self._keep_templates(workload, case, request["metadata"]["name"], request)

    async def _create_request(
        self, workload: Manifest, case: _Case, config: ProvisioningRequestConfigSpec, name: str
    ) -> Manifest:
        try:
            request = decide.new_request(workload, name, config, case.asks)
            created = await self._writer.create("provisioningrequests", request)
        except (AlreadyExists, Conflict):
            raise
        except FairwayError as error:
            await self._emit_failure(workload, case, f'Error creating ProvisioningRequest "{name}": {error}')
            raise
        self._recorder.normal(workload, "ProvisioningRequestCreated", f'Created ProvisioningRequest: "{name}"')
        return created

    async def _keep_templates(self, workload: Manifest, case: _Case, request_name: str, owner: Manifest) -> None:
        """The templates of a request are there; until the request is, they belong to the workload."""
        for ask in case.asks:
            name = decide.template_name(request_name, ask.name)
            known = self._templates.get(workload["metadata"]["namespace"], name)
            holder = (controller_of(known) or {}).get("uid") if known is not None else None
            if holder == owner["metadata"]["uid"]:
                continue
            if known is not None and holder == workload["metadata"]["uid"]:
                patch = {"metadata": {"ownerReferences": [owner_reference(owner)]}}
                await self._writer.patch("podtemplates", known, patch, locked=True)
                continue
            if known is not None:  # left over from a request of the same name that is gone
                await self._writer.delete("podtemplates", known)
            await self._create_template(workload, case, ask, name, owner)

    async def _create_template(
        self, workload: Manifest, case: _Case, ask: ProvisionedPodSet, name: str, owner: Manifest
    ) -> None:
        try:
            template = decide.new_template(workload, name, ask, owner, lambda flavor: self._flavors.get("", flavor))
            await self._writer.create("podtemplates", template)
        except (AlreadyExists, Conflict):
            raise
        except FairwayError as error:
            await self._emit_failure(workload, case, f'Error creating PodTemplate "{name}": {error}')
            raise

    async def _emit_failure(self, workload: Manifest, case: _Case, message: str) -> None:
        self._recorder.warning(workload, "FailedCreate", conditions.shortened(message, _LONGEST_EVENT))
        if case.check["message"] != message:
            now = stamp(self._clock.now())
            await self._write(workload, [{**case.check, "message": message, "lastTransitionTime": now}])


def _state(workload: Manifest, case: _Case) -> Manifest:
    if case.config is None:
        return decide.inactive(case.check)
    if not case.asks:
        return decide.not_needed(case.check)
    if case.request is None:
        return case.check
    return decide.next_state(case.check, workload, case.request, case.config, case.attempt)
