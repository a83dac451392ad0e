"""Whether a provisioning check is ready for use: its condition `Active`, from the parameters that it names."""

from typing import Final

from fairway.apis.kueue.objects import GROUP
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.status import StatusChange
from fairway.controllers.kit.writes import commit
from fairway.integrations import conditions
from fairway.runtime.worker import Worker

CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
"""What a check says that is answered here."""

_CONFIG_KIND: Final = "ProvisioningRequestConfig"
_ACTIVE: Final = "Active"


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
        self._checks.on_change(self._hear_check)
        self._configs.on_change(self._hear_config)

    async def run(self) -> None:
        """Look after the checks until cancelled."""
        await self._checks.synced.wait()
        await self._configs.synced.wait()
        await self._worker.run()

    def _hear_check(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and is_ours(new):
            self._worker.add(new["metadata"]["name"])

    def _hear_config(self, old: Manifest | None, new: Manifest | None) -> None:
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
