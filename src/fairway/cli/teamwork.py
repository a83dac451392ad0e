"""What `fairway teams` knows of a server: its teams, its machines, and the queue that has what teams leave."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from fairway.apis.core.accelerators import LABEL as ACCELERATOR
from fairway.apis.core.accelerators import declared_gpus
from fairway.apis.fairway import teams
from fairway.apis.fairway.quotas import QUOTA_LABEL
from fairway.apis.fairway.teams import Quotas, TeamShare
from fairway.apis.kueue import commitment
from fairway.apis.machinery.amounts import readable
from fairway.apis.machinery.conditions import is_true_in
from fairway.apis.machinery.quantities import ZERO, Quantity, amount_of, quantity_of
from fairway.cli.session import Session
from fairway.client.rest import paths
from fairway.errors import FairwayError, Forbidden, NotFound

Manifest = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
DEFAULT_QUEUE: Final = "cluster-queue"
_DEFAULT_FLAVOR: Final = "default-flavor"
_MADE: Final = ("kueue-system", "fairway-defaults", "clusterQueueSpec")
"""Annotation with the original spec, to detect changes."""

_ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})


class TeamError(FairwayError):
    """Something about a team that cannot be done; the message says why and what can."""


class Team(NamedTuple):
    name: str
    namespace: str
    queue: Manifest
    """Its ClusterQueue."""


class TeamState:
    """What is there when a command begins; nothing is asked for twice."""

    def __init__(self, session: Session) -> None:
        self.rest = session.rest
        self._session = session

    def write(self, namespace: str, operations: Sequence[Manifest]) -> None:
        """All changes of a command, in one transaction where the server has them."""
        from fairway.cli.writing import write  # noqa: PLC0415 - not for lists

        write(self._session, operations, "Writing objects", namespace=namespace)

    @cached_property
    def queues(self) -> list[Manifest]:
        return list(self.rest.get(paths.resource(teams.KUEUE, "clusterqueues"))["items"])

    @cached_property
    def namespaces(self) -> dict[str, Manifest]:
        return {one["metadata"]["name"]: one for one in self.rest.get("/api/v1/namespaces")["items"]}

    @cached_property
    def nodes(self) -> list[Manifest]:
        return list(self.rest.get("/api/v1/nodes")["items"])

    @cached_property
    def teams(self) -> list[Team]:
        homes = {_label(one): name for name, one in self.namespaces.items() if _label(one)}
        found = [queue for queue in self.queues if teams.is_team(queue)]
        return sorted(Team(_label(queue), homes.get(_label(queue), ""), queue) for queue in found)

    def team(self, name: str) -> Team:
        for team in self.teams:
            if team.name == name:
                return team
        there = ", ".join(team.name for team in self.teams)
        raise TeamError(
            f"there is no team {name!r}; {f'there is {there}' if there else 'add one with `fairway teams add`'}"
        )

    def changeable(self, name: str) -> Team:
        """A team that no quota definition has."""
        team = self.team(name)
        definition = (team.queue["metadata"].get("labels") or {}).get(QUOTA_LABEL)
        if definition:
            raise TeamError(
                f"team {name!r} is part of the quota definition {definition!r}: change its file, then run "
                "`fairway quota apply FILE`"
            )
        return team

    def queue(self, name: str) -> Manifest | None:
        return next((queue for queue in self.queues if queue["metadata"]["name"] == name), None)

    @cached_property
    def capacity(self) -> dict[str, Quantity]:
        """What all machines have for jobs, by resource."""
        found: dict[str, Quantity] = {}
        for node in self.nodes:
            for resource, amount in (node["status"].get("allocatable") or {}).items():
                found[resource] = found.get(resource, ZERO) + Quantity.parse(amount)
        return found

    @cached_property
    def example(self) -> Manifest:
        """The ClusterQueue whose flavors and resources teams have, too: the default one, or that of another team."""
        found = self.queue(DEFAULT_QUEUE) or next((team.queue for team in self.teams), None)
        if found is not None:
            return found
        flavors = self.rest.get(paths.resource(teams.KUEUE, "resourceflavors"))["items"]
        if all(one["metadata"]["name"] != _DEFAULT_FLAVOR for one in flavors):
            raise TeamError(
                f"there is no ResourceFlavor {_DEFAULT_FLAVOR!r} for the quota; create it with kubectl first"
            )
        covered = [name for name in ("cpu", "memory", GPU) if name in self.capacity]
        resources = [{"name": name, "nominalQuota": "0"} for name in covered]
        group = {"coveredResources": covered, "flavors": [{"name": _DEFAULT_FLAVOR, "resources": resources}]}
        return {"spec": {"resourceGroups": [group]}}

    def share(self, resource: str, queue: Manifest) -> TeamShare:
        """The one flavor in which a ClusterQueue has a resource."""
        found = [share for share in teams.quotas_of(queue) if share.resource == resource]
        if len(found) == 1:
            return found[0]
        if not found:
            raise TeamError(f"there is no {resource} to give: the ClusterQueues here do not cover it")
        names = ", ".join(share.flavor for share in found)
        hint = "give the model, as in --gpus T4:2" if resource == GPU else "change it with `kubectl edit clusterqueue`"
        raise TeamError(f"{resource} is in several flavors ({names}): {hint}")

    def gpus(self, text: str, queue: Manifest) -> Quotas:
        """`2`, `T4:2` or `T4:2,V100:4` as quotas."""
        found: Quotas = {}
        for part in text.split(","):
            try:
                count, model = declared_gpus(part.strip())
            except ValueError as error:
                raise TeamError(f"--gpus {part.strip()}: {error}") from None
            share = self._flavor_of(model, queue) if model else self.share(GPU, queue)
            found[share] = quantity_of(GPU, count)
        return found

    def _flavor_of(self, model: str, queue: Manifest) -> TeamShare:
        """The flavor of a GPU model; where all GPUs are of one model it is the one that there is."""
        offered = [share for share in teams.quotas_of(queue) if share.resource == GPU]
        for share in offered:
            flavor = self.rest.get(paths.resource(teams.KUEUE, "resourceflavors", None, share.flavor))
            if ((flavor.get("spec") or {}).get("nodeLabels") or {}).get(ACCELERATOR) == model.lower():
                return share
        models = {(node["metadata"].get("labels") or {}).get(ACCELERATOR, "") for node in self.nodes}
        if len(offered) == 1 and models == {model.lower()}:
            return offered[0]
        there = ", ".join(sorted(name for name in models if name)) or "no GPU whose model is known"
        raise TeamError(f"--gpus {model}: no machine here has that model; there is {there}")

    def jobs(self, namespace: str) -> list[str]:
        """What runs or waits in a namespace, by kind and name."""

        def names(api: str, plural: str, live: Any) -> Iterator[str]:
            for one in self.rest.get(paths.resource(api, plural, namespace))["items"]:
                if live(one.get("status") or {}):
                    yield f"{plural}/{one['metadata']['name']}"

        def open_job(status: Manifest) -> bool:
            return not (is_true_in(status, "Complete") or is_true_in(status, "Failed"))

        return [
            *names("fairway.dev/v1alpha1", "managedjobs", lambda status: not _has_ended(status.get("phase", ""))),
            *names("batch/v1", "jobs", open_job),
            *names("v1", "pods", lambda status: status.get("phase") in {"Pending", "Running"}),
        ]

    def default_queue_patches(self, queues: Sequence[Manifest]) -> tuple[list[Manifest], str]:
        """What keeps the default queue to what teams leave, given all ClusterQueues as they will be; and a sentence.

        An edited default queue is not changed.
        """
        queue = self.queue(DEFAULT_QUEUE)
        memory = self._memory()
        if queue is None or memory is None or teams.is_team(queue):
            return [], ""
        if _text(queue["spec"]) != memory["data"].get(_MADE[2]):
            return [], ""
        own = teams.quotas_of(queue)
        capacity = {share: self._capacity_of(share, own) for share in own}
        left = teams.left_by(queues, capacity)
        spec = {
            **queue["spec"],
            "preemption": {**queue["spec"].get("preemption", {}), "reclaimWithinCohort": "Any"},
            "resourceGroups": teams.resource_groups(queue, left, borrow=None),
        }
        spec.pop("cohortName", None)
        if any(teams.is_team(one) for one in queues):
            spec["cohortName"] = teams.COHORT
        if spec == queue["spec"]:
            return [], ""
        changes = {name: spec.get(name) for name in ("cohortName", "preemption", "resourceGroups")}
        said = ", ".join(
            f"{_short(share.resource)} {readable(share.resource, amount.nanos)}" for share, amount in left.items()
        )
        return [
            patch(queue, {"spec": changes}),
            patch(memory, {"data": {_MADE[2]: _text(spec)}}),
        ], f"The default queue has the quota that the teams leave: {said}."

    def _capacity_of(self, share: TeamShare, own: Quotas) -> Quantity:
        """What the machines have of a share: all of a resource, unless it is in several flavors."""
        if sum(one.resource == share.resource for one in own) == 1:
            return self.capacity.get(share.resource, ZERO)
        already = [teams.quotas_of(queue).get(share, ZERO) for queue in self.queues if teams.is_team(queue)]
        return sum(already, own[share])

    def _memory(self) -> Manifest | None:
        namespace, name, _ = _MADE
        try:
            found: Manifest = self.rest.get(paths.resource("v1", "configmaps", namespace, name))
        except (NotFound, Forbidden):
            return None
        return {"apiVersion": "v1", "kind": "ConfigMap", **found, "data": found.get("data") or {}}

    def warnings(self) -> list[str]:
        """A sentence for each resource of which the ClusterQueues, as they are now, promise more than there is."""
        queues = self.rest.get(paths.resource(teams.KUEUE, "clusterqueues"))["items"]
        return commitment.warnings(
            {one["metadata"]["name"]: commitment.promised(one) for one in queues},
            {one["metadata"]["name"]: commitment.allocatable(one) for one in self.nodes},
        )


def fair_memory(cpus: Quantity, capacity: dict[str, Quantity]) -> Quantity:
    """The same part of the memory as of the CPUs, in whole MiB."""
    all_cpus, memory = amount_of("cpu", capacity.get("cpu", ZERO)), amount_of("memory", capacity.get("memory", ZERO))
    if not all_cpus:
        return ZERO
    part = memory * min(amount_of("cpu", cpus), all_cpus) // all_cpus
    return quantity_of("memory", part >> 20 << 20)


def patch(manifest: Manifest, change: Manifest) -> Manifest:
    """An operation of a transaction, on the object as it was read: a change meanwhile is a conflict."""
    metadata = manifest["metadata"]
    return {
        "verb": "patch",
        "apiVersion": manifest.get("apiVersion", teams.KUEUE),
        "kind": manifest.get("kind", "ClusterQueue"),
        "name": metadata["name"],
        "resourceVersion": metadata["resourceVersion"],
        "patch": change,
        **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
    }


def removal(api: str, kind: str, name: str, namespace: str = "") -> Manifest:
    where = {"namespace": namespace} if namespace else {}
    return {"verb": "delete", "apiVersion": api, "kind": kind, "name": name, **where}


def _label(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(teams.LABEL, ""))


def _has_ended(phase: str) -> bool:
    return any(phase.startswith(one) for one in _ENDED)


def _short(resource: str) -> str:
    return {"cpu": "CPUs", GPU: "GPUs"}.get(resource, resource)


def _text(spec: Any) -> str:
    import msgspec  # noqa: PLC0415 - not for lists

    return msgspec.json.encode(spec, order="deterministic").decode()
