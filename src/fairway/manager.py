"""The controllers, put together on any API: in the server's process, or in one of their own (`fairway controller`).

Part of the composition root. What cannot leave the API server is in `plane`: the webhooks and the node agent.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from fairway.accounting.books import AccountBooks
from fairway.admission.config import KUEUE_BATCH_SECONDS
from fairway.admission.port import AdmittedBy, Decider, WaitingExplainer
from fairway.apis.core.node_views import DEFAULT_SCHEDULER
from fairway.apis.fairway.records import KINDS as FAIRWAY_KINDS
from fairway.apis.kueue.configuration import NAMESPACE as CONFIGURATION_NAMESPACE
from fairway.apis.kueue.records import KINDS as KUEUE_KINDS
from fairway.apis.machinery.admission import AdmissionChain, AdmissionPlugin
from fairway.apis.ray.records import GROUP as RAY_GROUP
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.contexts import configuration_of, other_servers
from fairway.controllers.accounting.controller import AccountingController
from fairway.controllers.admission.controller import Pace, QueueingController
from fairway.controllers.admission.waiting import WaitingWorkloads
from fairway.controllers.batchjob.controller import JobController
from fairway.controllers.decider.stored import PendingOrder, StoredDecider, StoredExplainer, unknown_order
from fairway.controllers.jobframework.controller import FrameworkController
from fairway.controllers.kit.configuration import ConfigurationSource, CurrentConfiguration
from fairway.controllers.limits.controller import LimitsController
from fairway.controllers.managedjob.controller import ManagedJobController
from fairway.controllers.managedjob.kubelets import Kubelets
from fairway.controllers.managedjob.plugin import Ids, ManagedJobAdmission, ReservedIds
from fairway.controllers.metrics import QueueMetrics
from fairway.controllers.placement import WaitingForNode
from fairway.controllers.pods.controller import PodController
from fairway.controllers.provisioning.check_capacity import CheckCapacity
from fairway.controllers.provisioning.controller import ProvisioningController
from fairway.controllers.queuestatus.controller import QueueStatuses
from fairway.controllers.quota import QuotaDrift
from fairway.controllers.ray.controller import RayController
from fairway.controllers.ray.machine import installed as installed_ray
from fairway.controllers.scheduler.scheduler import Scheduler
from fairway.controllers.topology import TopologyController
from fairway.controllers.webhooks.commitment import CommitmentWarnings
from fairway.controllers.webhooks.creators import CreatorAnnotations
from fairway.controllers.webhooks.finalizers import FinalizerAdmission
from fairway.controllers.webhooks.kindrules import KindRules
from fairway.controllers.webhooks.podlimits import PodLimitAdmission
from fairway.controllers.webhooks.priority_ranges import PriorityAdmission
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.controllers.webhooks.scheduling import SchedulingAdmission
from fairway.controllers.workload.controller import WorkloadLifecycle
from fairway.integrations.framework import Framework
from fairway.integrations.frameworks import FRAMEWORKS
from fairway.managedjobs.kubernetes import DEFAULT_IMAGE, OnKubernetes
from fairway.managedjobs.machine import ThisMachine
from fairway.managedjobs.platform import Platform
from fairway.runner.workers import WorkerProcess
from fairway.runtime.parts import Part, running, unless
from fairway.settings import Settings
from fairway.simulate.live import Simulations
from fairway.simulate.livestate import MODULE

SERVER_CONFIG_MAP: Final = "fairway-server"
"""In `kube-system`: the controllers that the server runs itself, so that no other process runs them, too."""


ON_A_CLUSTER: Final[Mapping[AdmittedBy, frozenset[str]]] = {
    AdmittedBy.KUEUE: frozenset({"accounting", "limits", "managedjob", "quota"}),
    AdmittedBy.NONE: frozenset({"accounting", "managedjob", "quota"}),
    AdmittedBy.FAIRWAY: frozenset(
        {
            "accounting",
            "admission",
            "jobframework",
            "limits",
            "managedjob",
            "metrics",
            "pods",
            "provisioning",
            "queuestatus",
            "quota",
            "topology",
            "workload",
        }
    ),
}
"""The controllers that run on a cluster. Those that stand for kubelet, scheduler and Job controller never do."""


def reviewed_resources(way: AdmittedBy) -> frozenset[str]:
    """What webhooks are to be asked about on a cluster."""
    own = frozenset(kind.resource for kind in FAIRWAY_KINDS)
    if way is not AdmittedBy.FAIRWAY:
        return own
    frameworks = (framework.resource for framework in FRAMEWORKS)
    queues = (kind.resource for kind in KUEUE_KINDS)
    return own.union(("pods", *frameworks, *queues), PriorityAdmission.resources)


def run_frameworks(names: Collection[str]) -> tuple[Framework, ...]:
    """The job kinds that something on this machine runs; those of Ray without Ray would hold quota and never end."""
    if "ray" not in names or installed_ray() is not None:
        return FRAMEWORKS
    return tuple(framework for framework in FRAMEWORKS if framework.group != RAY_GROUP)


def server_plugins(
    cluster: Cluster,
    configuration: ConfigurationSource,
    settings: Settings,
    ids: Ids,
    *more: AdmissionPlugin,
    scheduling: SchedulingAdmission | None = None,
) -> AdmissionChain:
    """The plugins of a server; a job gets its queue from `scheduling` before the others see it."""
    frameworks = run_frameworks(settings.controller_names)
    return AdmissionChain(
        *(() if scheduling is None else (scheduling,)),
        PodLimitAdmission(cluster),
        PriorityAdmission(cluster),
        QueueAdmission(cluster, configuration, frameworks),
        CreatorAnnotations(frameworks),
        CommitmentWarnings(cluster),
        FinalizerAdmission(topologies="queuestatus" in settings.controller_names),
        ManagedJobAdmission(ids),
        *more,
    )


def webhook_plugins(
    cluster: Cluster,
    configuration: ConfigurationSource,
    ids: ReservedIds,
    way: AdmittedBy,
    scheduling: SchedulingAdmission | None = None,
) -> AdmissionChain:
    """The plugins of webhooks that are served to a cluster's API server."""
    queues = cluster.cache("localqueues.kueue.x-k8s.io") if way is AdmittedBy.KUEUE else None
    first = () if scheduling is None else (scheduling,)
    jobs = (*first, PriorityAdmission(cluster), ManagedJobAdmission(ids, queues))
    if way is not AdmittedBy.FAIRWAY:
        return AdmissionChain(*jobs, KindRules(FAIRWAY_KINDS))
    rules = KindRules((*FAIRWAY_KINDS, *KUEUE_KINDS))
    queueing = QueueAdmission(cluster, configuration, pod_priorities=False)
    return AdmissionChain(*jobs, queueing, CreatorAnnotations(), FinalizerAdmission(), rules)


def pod_platform(settings: Settings, kubelets: Kubelets | None) -> Platform:
    """Where the pods of managed jobs run."""
    if kubelets is None:
        state = settings.state
        return ThisMachine(
            archives=str(state / "archives"),
            checkpoint_root=str(state / "checkpoints"),
            ray_path=str(Path(sys.executable).parent),
        )
    said = configuration_of(settings)
    return OnKubernetes(
        image=said.image or DEFAULT_IMAGE, checkpoint_volume=said.checkpoints, node_labels=kubelets.nodes.labels
    )


class ControllerManager:
    """The selected controllers on one cluster, with what they share. `settings` are those of the API server."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        names: Collection[str],
        *,
        admitted_by: AdmittedBy = AdmittedBy.FAIRWAY,
        configured_in: str = CONFIGURATION_NAMESPACE,
        own_nodes: bool = True,
        order: PendingOrder = unknown_order,
    ) -> None:
        """`names` are folders of `fairway.controllers` (`settings.CONTROLLERS`); `configured_in` is the namespace of
        the configuration. `own_nodes` says that this machine runs the pods, so that there will be no other nodes, and
        not the kubelets of a cluster. `order` asks a decider elsewhere for the positions of waiting Workloads.
        """
        kueue, kubernetes = Recorder(cluster, "kueue"), Recorder(cluster, "fairway")
        configuration = CurrentConfiguration(cluster, kueue, configured_in)
        self.cluster = cluster
        self.configuration = configuration
        self._own_nodes = own_nodes
        self.recorder = kubernetes
        """For what is done to pods and nodes."""

        self.explainer: WaitingExplainer
        """Who waits and why: from the engine if it is here, else from the stored objects."""

        self.collectors: list[QueueMetrics | QuotaDrift] = []
        """What `/metrics` has of the controllers."""

        self.accounting = AccountingController(cluster) if "accounting" in names else None
        """Keeps the history of attempts, if it does so here."""

        self.parts: list[Part] = [kueue, kubernetes]
        decider: Decider
        if "admission" in names:
            decider = engine = QueueingController(
                cluster,
                configuration,
                kueue,
                # On a cluster as in Kueue: evicted jobs take a while to stop there, and what wakes up in between would
                # take their place before the preemptor does.
                requeue_batch_seconds=None if own_nodes else KUEUE_BATCH_SECONDS,
                pace=Pace(),
                schedulers=frozenset({DEFAULT_SCHEDULER}) if own_nodes else None,
            )
            self.explainer = WaitingWorkloads(cluster, engine)
            self.parts.append(engine)
        else:
            decider = stored = StoredDecider(cluster, configuration)
            self.explainer = StoredExplainer(cluster, stored.figures, order)
        self._add_reports(names, decider, admitted_by)
        self._add_queueing(names, decider, kueue, own_nodes=own_nodes)
        scheduler = Scheduler(cluster, kubernetes) if "scheduler" in names else None
        if "batchjob" in names:
            # A pod that the scheduler of this process would bind at once is created with its node: one write less.
            self.parts.append(JobController(cluster, kubernetes, scheduler))
        if "ray" in names:
            self.parts.append(RayController(cluster, kubernetes, installed_ray()))
        if "managedjob" in names:
            kubelets = None if own_nodes else Kubelets(cluster)
            platform = pod_platform(settings, kubelets)
            remotes = other_servers(settings, os.environ, cluster.clock)
            self.parts.append(
                ManagedJobController(
                    cluster, configuration, kubernetes, decider, platform, remotes, kubelets, admitted_by
                )
            )
        if scheduler is not None:
            self.parts.append(scheduler)

    def _add_queueing(self, names: Collection[str], decider: Decider, kueue: Recorder, *, own_nodes: bool) -> None:
        """What Kueue does besides deciding: Workloads, their pods' places, jobs, pods and provisioning."""
        cluster, configuration = self.cluster, self.configuration
        if "workload" in names:
            self.parts.append(WorkloadLifecycle(cluster, decider, configuration, kueue))
        if "topology" in names:
            self.parts.append(TopologyController(cluster, decider, kueue))
        if "jobframework" in names:
            frameworks = run_frameworks(names) if own_nodes else FRAMEWORKS
            self.parts.append(FrameworkController(cluster, configuration, kueue, frameworks))
        if "pods" in names:
            self.parts.append(PodController(cluster, configuration, kueue))
        if "provisioning" in names:
            self.parts.append(ProvisioningController(cluster, kueue))
            if own_nodes:
                self.parts.append(CheckCapacity(cluster, kueue))

    def add_simulations(self) -> Simulations:
        """Expected starts and what-if runs, for a process that answers requests."""
        own_nodes = self._own_nodes
        simulations = Simulations(
            self.cluster,
            self.configuration,
            WorkerProcess(MODULE),
            books=self.books,
            requeue_batch_seconds=0.0 if own_nodes else KUEUE_BATCH_SECONDS,
            schedulers=frozenset({DEFAULT_SCHEDULER}) if own_nodes else None,
        )
        self.parts.append(simulations)
        return simulations

    def books(self) -> AccountBooks | None:
        """The history, if it is kept in this process and has been read."""
        accounting = self.accounting
        return accounting.books if accounting is not None and accounting.ready.is_set() else None

    def _add_reports(self, names: Collection[str], decider: Decider, admitted_by: AdmittedBy) -> None:
        """The controllers that only report: in statuses and metrics."""
        if "metrics" in names:
            self.collectors.append(QueueMetrics(self.cluster, decider, self.configuration))
        if "queuestatus" in names:
            self.parts.append(QueueStatuses(self.cluster, decider, self.configuration))
        if "quota" in names:
            drift = QuotaDrift(self.cluster, self.recorder)
            self.collectors.append(drift)
            self.parts.append(drift)
        if "placement" in names:
            self.parts.append(WaitingForNode(self.cluster))
        if self.accounting is not None:
            self.parts.append(self.accounting)
        if "limits" in names:
            self.parts.append(LimitsController(self.cluster, self.books, kueue_admits=admitted_by is AdmittedBy.KUEUE))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Future[None]"]:
        """Caches and controllers at work; the future that is given ends only with the error of a part that broke."""
        async with running(self.cluster) as broken:
            await unless(broken, self.cluster.synced())
            async with running(*self.parts, broken=broken):
                yield broken
