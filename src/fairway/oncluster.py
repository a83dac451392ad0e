"""A cluster as the home of the controllers: who admits there, what is served, and what of it is read.

Part of the composition root, beside `standalone`.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from fairway.admission.port import AdmittedBy
from fairway.apis.kueue.configuration import CONFIG_MAP, OWN_CONFIG_MAP
from fairway.apis.kueue.configuration import NAMESPACE as KUEUE_NAMESPACE
from fairway.apis.machinery import conditions
from fairway.apis.machinery.metadata import GROUP as KUEUE
from fairway.apis.registry import Registry
from fairway.client.cluster import Cluster
from fairway.client.http.transport import Transport
from fairway.client.protocol import Scope
from fairway.controllers.decider.stored import Positions
from fairway.deploy.names import NAME, NAME_LABEL, NAMESPACE, VISIBILITY_GROUP, VISIBILITY_VERSION, installed_way
from fairway.deploy.permissions import FOLLOWED_KUEUE_KINDS
from fairway.errors import FairwayError, Forbidden, NotFound, Unavailable
from fairway.integrations.frameworks import FRAMEWORKS
from fairway.managedjobs.clusterfiles import ANCHOR_LABEL
from fairway.managedjobs.pods import JOB
from fairway.quota.yunikorn import CONFIG_MAP as YUNIKORN_CONFIG_MAP
from fairway.settings import SYSTEM_NAMESPACE

_log = logging.getLogger(__name__)

AUTO: Final = "auto"
OUR_SERVER: Final = "+fairway-"
"""In the version of an API server that is Fairway's own."""

_JOBS: Final = "managedjobs.fairway.dev"
_WORKLOADS: Final = f"workloads.{KUEUE}"
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{_WORKLOADS}"
_OURS: Final = Scope(labels=f"{NAME_LABEL}={NAME}")
_QUEUED: Final = tuple(framework.resource for framework in FRAMEWORKS)
"""Job kinds that are queued where Fairway admits."""

_ORDER_SECONDS: Final = 2.0
_MOST_ORDERED: Final = 4000
"""Kueue gives no more at once."""

TRUSTING: Final = (
    "apiservices.apiregistration.k8s.io",
    _DEFINITIONS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)
"""The resources whose objects name the authority of our certificate."""


class UnfitClusterError(FairwayError):
    """The controllers cannot work on this cluster as it is; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where the controllers work."""

    way: AdmittedBy = AdmittedBy.FAIRWAY
    on_cluster: bool = False
    namespace: str = SYSTEM_NAMESPACE
    configured_in: str = KUEUE_NAMESPACE
    scopes: Mapping[str, Sequence[Scope]] = field(default_factory=dict)


async def find_home(transport: Transport, registry: Registry, admission: str) -> Home:
    """What the API server at the other end is, and who admits there."""
    version = await transport.json("GET", "/version")
    if OUR_SERVER in str(version.get("gitVersion")):
        if admission not in {AUTO, AdmittedBy.FAIRWAY}:
            raise UnfitClusterError(
                f"--admission={admission} is for a cluster, and {transport.server} is a Fairway server"
            )
        return Home()
    served = await _served(transport, registry)
    if _JOBS not in served:
        raise UnfitClusterError(f"{transport.server} serves no ManagedJobs; run `fairway cluster install` first")
    way = await _way(transport, served, admission)
    missing = sorted({_WORKLOADS, *(f"{name}.{KUEUE}" for name in FOLLOWED_KUEUE_KINDS)} - served)
    if way is not AdmittedBy.NONE and missing:
        raise Unavailable(f"Kueue is being installed: {', '.join(missing)} are not served yet")
    return Home(
        way=way,
        on_cluster=True,
        namespace=NAMESPACE,
        configured_in=KUEUE_NAMESPACE if way is AdmittedBy.KUEUE else NAMESPACE,
        scopes=scopes_of(way, registry, served),
    )


async def _served(transport: Transport, registry: Registry) -> set[str]:
    """The resources of our registry that the cluster serves; Kubernetes' own are not looked up."""
    groups = {one["name"] for one in (await transport.json("GET", "/apis"))["groups"]}
    found = {kind.resource for kind in registry.kinds if kind.builtin or kind.resource in TRUSTING}
    versions = {(kind.group, kind.stored) for kind in registry.kinds if not kind.builtin and kind.group in groups}
    for group, version in sorted(versions):
        try:
            answer: dict[str, Any] = await transport.json("GET", f"/apis/{group}/{version}")
        except NotFound:
            continue
        found |= {f"{one['name']}.{group}" for one in answer["resources"]}
    return found


async def _way(transport: Transport, served: set[str], admission: str) -> AdmittedBy:
    if admission == AdmittedBy.NONE:
        return AdmittedBy.NONE
    try:
        installed = AdmittedBy(installed_way(await transport.json("GET", _DEFINITION)))
    except NotFound:
        installed = AdmittedBy.NONE
    except Forbidden as error:
        if _WORKLOADS in served and admission == AUTO:
            raise UnfitClusterError(f"cannot find out who admits ({error}); say it with --admission") from error
        installed = AdmittedBy(admission) if _WORKLOADS in served else AdmittedBy.NONE
    if admission in {AUTO, installed}:
        return installed
    if installed is AdmittedBy.NONE:
        what = "Kueue is not installed" if admission == AdmittedBy.KUEUE else "Kueue's definitions are not installed"
        hint = f"`fairway cluster install --admission={admission}` says what to do"
        raise UnfitClusterError(f"--admission={admission}: {what} in {transport.server}; {hint}")
    whose = "Fairway's" if installed is AdmittedBy.FAIRWAY else "those of a Kueue that is installed"
    raise UnfitClusterError(
        f"--admission={admission}: the definitions of {KUEUE} in {transport.server} are {whose}; two would admit. "
        f"Start with --admission={installed}, or uninstall the other first"
    )


class AdmissionWatch:
    """Notices by definitions that Kueue was installed or removed, and that more job kinds are served."""

    def __init__(self, cluster: Cluster, home: Home, admission: str) -> None:
        """`admission` is the option: with `none`, Kueue does not matter."""
        self._cluster = cluster
        self._way = home.way
        self._unserved = [resource for resource in _QUEUED if not home.scopes.get(resource, (_OURS,))]
        self._fixed = admission == AdmittedBy.NONE
        self._definitions = cluster.cache(_DEFINITIONS)
        self._some = asyncio.Event()
        self._definitions.on_change(lambda _old, _new: self._some.set())

    async def changed(self) -> str:
        """Return when other controllers or caches are right, with a sentence that says why; else never."""
        await self._cluster.synced()
        while True:
            self._some.clear()
            found = AdmittedBy(installed_way(self._definitions.get("", _WORKLOADS)))
            if found is not self._way and not self._fixed:
                return f"{_CHANGES[found]} (before: --admission={self._way})"
            for resource in self._unserved if found is AdmittedBy.FAIRWAY else ():
                if conditions.is_true(self._definitions.get("", resource) or {}, "Established"):
                    return f"{resource} was installed, so such jobs are queued now"
            await self._some.wait()


_CHANGES: Final = {
    AdmittedBy.KUEUE: "Kueue was installed, so Kueue admits jobs now",
    AdmittedBy.FAIRWAY: "Fairway's definitions of Kueue's kinds were installed, so Fairway admits jobs now",
    AdmittedBy.NONE: "the definitions of Kueue's kinds were removed, so jobs start without waiting for quota now",
}


class KueueOrder:
    """The order of waiting Workloads, from Kueue's visibility API."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._answers = True

    async def __call__(self, cluster_queue: str) -> Positions | None:
        path = f"/apis/{VISIBILITY_GROUP}/{VISIBILITY_VERSION}/clusterqueues/{quote(cluster_queue)}/pendingworkloads"
        try:
            async with asyncio.timeout(_ORDER_SECONDS):
                found = await self._transport.json("GET", path, {"limit": _MOST_ORDERED})
        except (FairwayError, TimeoutError) as error:
            if self._answers:
                _log.warning("Kueue's visibility API does not answer: %s; positions are by priority and age", error)
            self._answers = False
            return None
        self._answers = True
        return {
            (one["metadata"]["namespace"], one["metadata"]["name"]): (
                one["positionInClusterQueue"] + 1,
                one["positionInLocalQueue"] + 1,
            )
            for one in found["items"]
        }


def scopes_of(way: AdmittedBy, registry: Registry, served: set[str]) -> dict[str, Sequence[Scope]]:
    """What of each resource is cached, where that is not everything."""
    scopes: dict[str, Sequence[Scope]] = {kind.resource: () for kind in registry.kinds if kind.resource not in served}
    scopes["secrets"] = ()  # those of a launch belong to its jobs, and go with them
    scopes |= dict.fromkeys(TRUSTING, (_OURS,))
    awaited = [_WORKLOADS, *(name for name in _QUEUED if way is AdmittedBy.FAIRWAY and name not in served)]
    scopes[_DEFINITIONS] = (
        _OURS,
        *(Scope(labels=f"{NAME_LABEL}!={NAME}", fields=f"metadata.name={name}") for name in awaited),
    )
    anchors = Scope(labels=ANCHOR_LABEL)
    elsewhere = f"metadata.name={YUNIKORN_CONFIG_MAP},metadata.namespace!={NAMESPACE}"
    yunikorn = Scope(labels=f"!{ANCHOR_LABEL}", fields=elsewhere)  # a definition names the namespace
    if way is AdmittedBy.FAIRWAY:
        scopes["configmaps"] = (anchors, Scope(NAMESPACE, labels=f"!{ANCHOR_LABEL}"), yunikorn)
        return scopes
    own = Scope(NAMESPACE, fields=f"metadata.name={OWN_CONFIG_MAP}")
    scopes["pods"] = (Scope(labels=JOB),)
    scopes["configmaps"] = (anchors, own, Scope(KUEUE_NAMESPACE, fields=f"metadata.name={CONFIG_MAP}"), yunikorn)
    if way is AdmittedBy.NONE:
        scopes["configmaps"] = (anchors, own, yunikorn)
        scopes |= {kind.resource: () for kind in registry.kinds if kind.group == KUEUE}
    return scopes
