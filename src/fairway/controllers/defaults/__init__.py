"""The objects of a first start: a flavor, a ClusterQueue with what this machine has, a
LocalQueue, and Kueue's configuration to edit; and the Deployment that Kueue would be on a cluster.

Made once, on the first start. From then on they are like everybody's objects: who changes or deletes them is not
corrected. Only a ClusterQueue that is still as it was made follows the machine when that has other capacities at a
later start.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairway.apis.components import DEPLOYMENT, NAME_LABEL
from fairway.apis.core.accelerators import GPU
from fairway.apis.core.accelerators import LABEL as ACCELERATOR
from fairway.apis.fairway.teams import TeamShare, left_by
from fairway.apis.kueue.configuration import CONFIG_KEY, CONFIG_MAP, DEFAULT_TEXT, NAMESPACE
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity
from fairway.client.cluster import Cluster
from fairway.errors import AlreadyExists

FLAVOR: Final = "default-flavor"
CLUSTER_QUEUE: Final = "cluster-queue"
LOCAL_QUEUE: Final = "default"

_MEMORY: Final = "fairway-defaults"
"""The ConfigMap that remembers what was made."""

_MADE: Final = "clusterQueueSpec"
_MADE_BY: Final = "fairway.dev/made-by"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MANAGER: Final = "fairway-defaults"


class Defaults:
    """Makes what is missing on a first start."""

    def __init__(self, cluster: Cluster, capacity: dict[str, str], models: Mapping[str, int] | None = None) -> None:
        """`capacity` is what this machine has to give, by resource, as quantities; `models` are its GPUs by model,
        where there are several: each is a flavor of its own.
        """
        self._models = dict(models or {})
        self._cluster = cluster
        self._config_maps = cluster.cache("configmaps")
        self._namespaces = cluster.cache("namespaces")
        self._queues = cluster.cache("clusterqueues.kueue.x-k8s.io")
        self._writer = cluster.writer(_MANAGER)
        self._capacity = capacity

    async def ensure(self) -> None:
        """Bring the defaults about; to be called once the caches are full."""
        if self._namespaces.get("", NAMESPACE) is None:
            await self._create("namespaces", {"metadata": {"name": NAMESPACE}})
        metadata = {"name": DEPLOYMENT, "namespace": NAMESPACE, "labels": {NAME_LABEL: "kueue"}}
        await self._create("deployments.apps", {"metadata": metadata})
        memory = self._config_maps.get(NAMESPACE, _MEMORY)
        if memory is None:
            await self._make_all()
        else:
            await self._follow_the_machine(memory)

    async def _make_all(self) -> None:
        metadata: Manifest = {"name": CONFIG_MAP, "namespace": NAMESPACE}
        await self._create("configmaps", {"metadata": metadata, "data": {CONFIG_KEY: DEFAULT_TEXT}})
        await self._create("resourceflavors.kueue.x-k8s.io", {"metadata": {"name": FLAVOR}, "spec": {}})
        await self._make_model_flavors()
        queue = {"metadata": {"name": CLUSTER_QUEUE}, "spec": self._spec()}
        made = await self._create("clusterqueues.kueue.x-k8s.io", queue) or self._made_before()
        local = {
            "metadata": {"name": LOCAL_QUEUE, "namespace": "default"},
            "spec": {"clusterQueue": CLUSTER_QUEUE},
        }
        await self._create("localqueues.kueue.x-k8s.io", local)
        remembered = {_MADE: _text(made["spec"])} if made is not None else {}
        await self._create("configmaps", {"metadata": {"name": _MEMORY, "namespace": NAMESPACE}, "data": remembered})

    async def _make_model_flavors(self) -> None:
        for model in self._models:
            flavor = {"metadata": {"name": model}, "spec": {"nodeLabels": {ACCELERATOR: model}}}
            await self._create("resourceflavors.kueue.x-k8s.io", flavor)

    def _made_before(self) -> Manifest | None:
        """The ClusterQueue of a first start that did not come to its end."""
        queue = self._queues.get("", CLUSTER_QUEUE)
        ours = queue is not None and queue["spec"].get("resourceGroups") == self._spec()["resourceGroups"]
        return queue if ours else None

    async def _follow_the_machine(self, memory: Manifest) -> None:
        made = (memory.get("data") or {}).get(_MADE)
        queue = self._queues.get("", CLUSTER_QUEUE)
        if queue is None or made is None or _text(queue["spec"]) != made:
            return
        wanted = self._spec()["resourceGroups"]
        if queue["spec"]["resourceGroups"] == wanted:
            return
        await self._make_model_flavors()
        changed = await self._writer.patch(
            "clusterqueues.kueue.x-k8s.io", queue, {"spec": {"resourceGroups": wanted}}, locked=True
        )
        await self._writer.patch("configmaps", memory, {"data": {_MADE: _text(changed["spec"])}})

    def _spec(self) -> Manifest:
        """With what the teams leave of the machine."""
        capacity = {
            TeamShare(FLAVOR, name): Quantity.parse(amount)
            for name, amount in self._capacity.items()
            if name != GPU or not self._models
        }
        capacity |= {TeamShare(model, GPU): Quantity.parse(count) for model, count in self._models.items()}
        left = left_by(self._queues.items(), capacity)
        groups = [_group([share.resource for share in left if share.flavor == FLAVOR], [FLAVOR], left)]
        if self._models:
            groups.append(_group([GPU], self._models, left))
        return {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": groups,
        }

    async def _create(self, resource: str, manifest: Manifest) -> Manifest | None:
        """Create an object; `None` if it exists.

        Its fields have no owner, so that an apply of an object of that name takes it over without a conflict;
        and it says what it was made from, as `kubectl apply` does, so that what theirs does not have goes away.
        """
        kind = self._cluster.kind(resource)
        made_from = {"apiVersion": kind.api_version(kind.stored), "kind": kind.kind, **manifest}
        made_from["metadata"] = {"annotations": {}, **manifest["metadata"]}
        manifest["metadata"] = {
            **manifest["metadata"],
            "annotations": {_MADE_BY: "fairway", _LAST_APPLIED: f"{_text(made_from)}\n"},
        }
        try:
            made = await self._writer.create(resource, manifest)
        except AlreadyExists:
            return None
        owner = {
            "manager": _MANAGER,
            "operation": "Update",
            "apiVersion": made["apiVersion"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{_MADE_BY}": {}}}},
        }
        return await self._writer.patch(resource, made, {"metadata": {"managedFields": [owner]}})


def _group(covered: list[str], flavors: Iterable[str], quotas: Mapping[TeamShare, Quantity]) -> Manifest:
    """A resource group with these flavors."""
    return {
        "coveredResources": covered,
        "flavors": [
            {
                "name": flavor,
                "resources": [{"name": name, "nominalQuota": str(quotas[TeamShare(flavor, name)])} for name in covered],
            }
            for flavor in flavors
        ],
    }


def _text(spec: Any) -> str:
    return msgspec.json.encode(spec, order="deterministic").decode()
