"""Counts as Workloads change, and tells everything when it is asked."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from fairway.admission.port import Decider
from fairway.apis.machinery.conditions import find
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.metrics import gauges, transitions
from fairway.controllers.metrics.series import COUNTERS, GAUGES, HISTOGRAMS, PREFIX, ROLE, Labels, Tally
from fairway.controllers.metrics.transitions import QueuePlace, QueueTallies, WorkloadView
from fairway.integrations import pods
from fairway.integrations.workloads import namespaced_name

_CLUSTER_QUEUES: Final = "clusterqueues.kueue.x-k8s.io"
_LOCAL_QUEUES: Final = "localqueues.kueue.x-k8s.io"
_COHORTS: Final = "cohorts.kueue.x-k8s.io"
_ATTEMPTS: Final = "admission_attempts"
_COHORT_COUNTER: Final = "cohort_subtree_admitted_workloads"

_GATE_TIME: Final = "pod_scheduling_gate_removal_seconds"

_NOTHING: Final[dict[str, Any]] = {}
_AT_ONCE: Final = ("QuotaReserved", "Admitted")
_FINISHED: Final = ("Finished",)

Key = tuple[str, str]


class QueueMetrics:
    """What `prometheus_client` calls a collector, of one control plane."""

    def __init__(self, cluster: Cluster, decider: Decider, configuration: ConfigurationSource) -> None:
        self._clock = cluster.clock
        self._decider = decider
        self._configuration = configuration
        self._tally = Tally()
        self._places = QueueTallies(self._queued_in)
        self._true: dict[Key, tuple[str, ...]] = {}
        """The conditions that are true of each Workload that has some and is not finished, as last seen.

        They are not read from the old object, which is cold in memory.
        """

        self._finished: dict[Key, QueuePlace] = {}
        """The place of each finished Workload that is still stored, by its namespace and name."""

        self._retired: set[str] = set()
        """Cohorts whose object was deleted, until something names them anew: their series end, as in Kueue."""

        self._cluster_queues = cluster.cache(_CLUSTER_QUEUES)
        self._local_queues = cluster.cache(_LOCAL_QUEUES)
        self._cluster_queues.on_change(self._cluster_queue_changed)
        self._local_queues.on_change(self._local_queue_changed)
        cluster.cache(_COHORTS).on_change(self._cohort_changed)
        self._workloads = cluster.cache(WORKLOADS)
        self._workloads.on_change(self._workload_changed)
        cluster.cache("pods").on_change(self._pod_changed)

    # Counting

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            if old is not None:
                self._left(old)
            return
        metadata, status = new["metadata"], new.get("status") or _NOTHING
        key = key_of(new)
        conditions = status.get("conditions") or ()
        true = tuple([one["type"] for one in conditions if one["status"] == "True"])
        if key in self._finished:
            self._finished_changed(key, old, new, true)
            return
        before = self._true.get(key, ())
        if true == before:
            return
        self._remember(key, new, true)
        if old is None:
            return
        if not before and true == _AT_ONCE and len(conditions) == len(true) and not status.get("admissionChecks"):
            waited = transitions.seconds(metadata["creationTimestamp"], self._clock.now())
            place = self._places.of(new)
            cohorts = self._decider.figures.cohorts_above(place.cluster_queue)
            place.admitted(waited, cohorts, self._tally)
        elif true[-1:] == _FINISHED and true[:-1] == before:
            self._finished[key].finished()
        else:
            self._count(before, old, new)

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        """A gate that was opened; of those that open together, the first."""
        if old is None or new is None or not old["spec"].get("schedulingGates"):
            return
        opened = pods.gates_of(old) - pods.gates_of(new)
        gate = next((one for one in pods.OWN_GATES if one in opened), None)
        workload = None if gate is None else self._workloads.get(new["metadata"]["namespace"], pods.workload_of(new))
        admitted = None if workload is None else find(workload, "Admitted")
        if gate is not None and workload is not None and admitted is not None and admitted["status"] == "True":
            labels = (WorkloadView(workload).cluster_queue, gate, str(bool(pods.group_name(new))).lower())
            waited = transitions.seconds(admitted["lastTransitionTime"], self._clock.now())
            self._tally.time(_GATE_TIME, labels, waited)

    def _remember(self, key: Key, workload: Manifest, true: tuple[str, ...]) -> None:
        if true and "Finished" not in true:
            self._true[key] = true
            return
        self._true.pop(key, None)
        if true:
            place = self._finished[key] = self._places.of(workload)
            place.keep()

    def _left(self, workload: Manifest) -> None:
        key = key_of(workload)
        self._true.pop(key, None)
        place = self._finished.pop(key, None)
        if place is not None:
            place.let_go()

    def _finished_changed(self, key: Key, old: Manifest | None, new: Manifest, true: tuple[str, ...]) -> None:
        if old is not None:
            self._count(WorkloadView(old).conditions, old, new)
        if "Finished" not in true:
            self._finished.pop(key).let_go()
            self._remember(key, new, true)

    def _count(self, before: Collection[str], old: Manifest, new: Manifest) -> None:
        """Any change, the long way."""
        shown = WorkloadView(new)
        transitions.count(self._tally, before, old, shown, self._clock.now(), self._queued_in(new))
        if "Admitted" in shown.conditions and "Admitted" not in before:
            for cohort in self._decider.figures.cohorts_above(shown.cluster_queue):
                self._tally.count(_COHORT_COUNTER, (cohort, shown.priority_class))

    def _queued_in(self, workload: Manifest) -> str:
        """The ClusterQueue that the LocalQueue of a Workload leads to."""
        found = self._local_queues.get(workload["metadata"]["namespace"], workload["spec"].get("queueName", ""))
        return "" if found is None else str(found["spec"].get("clusterQueue", ""))

    def _cluster_queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and (old is None or old["spec"] != new["spec"]):
            self._retired.discard(new["spec"].get("cohortName", ""))
        if old is not None and new is None:
            self._places.settle(self._tally)
            for name, family in (COUNTERS | HISTOGRAMS).items():
                if family.labels[0] in {"cluster_queue", "preempting_cluster_queue"}:
                    self._tally.forget(name, (old["metadata"]["name"],))

    def _local_queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is not None and (new is None or not self._is_exposed(new)):
            self._places.settle(self._tally)
            place = _place(old)
            for name, family in (COUNTERS | HISTOGRAMS).items():
                if family.labels[0] == "name":
                    self._tally.forget(name, place)

    def _is_exposed(self, local_queue: Manifest) -> bool:
        """Whether there are metrics of a LocalQueue."""
        selector = self._configuration.value.local_queue_metrics
        return selector is not None and selector.matches(local_queue["metadata"].get("labels") or {})

    def _cohort_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is not None:
            self._retired.discard(new["metadata"]["name"])
            self._retired.discard(new["spec"].get("parentName", ""))
        elif old is not None:
            self._places.settle(self._tally)
            self._tally.forget(_COHORT_COUNTER, (old["metadata"]["name"],))
            self._retired.add(old["metadata"]["name"])

    def _forget_left_cohorts(self) -> None:
        """Drop the counts of cohorts that no object and no child names any more."""
        counted = {labels[0] for labels in self._tally.counts.get(_COHORT_COUNTER, ())}
        present = {cohort.name for cohort in self._decider.figures.cohorts()}
        self._retired &= present
        for name in counted - present:
            self._tally.forget(_COHORT_COUNTER, (name,))

    # Telling

    def collect(self) -> Iterator[object]:
        """Every family that has something to tell."""
        from prometheus_client.core import (  # noqa: PLC0415 - only when asked for
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        self._places.settle(self._tally)
        self._forget_left_cohorts()
        exposed = {_place(one) for one in self._exposed()}
        for name, family in COUNTERS.items():
            series = self._attempts() if name == _ATTEMPTS else self._tally.counts.get(name, {})
            if family.labels[0] == "name":
                series = {labels: value for labels, value in series.items() if labels[:2] in exposed}
            counter = CounterMetricFamily(PREFIX + name, family.help, labels=[*family.labels, "replica_role"])
            for labels, value in sorted(series.items()):
                counter.add_metric([*labels, ROLE], value)
            yield counter
        for name, family in HISTOGRAMS.items():
            times = self._tally.times.get(name, {})
            if family.labels[0] == "name":
                times = {labels: found for labels, found in times.items() if labels[:2] in exposed}
            histogram = HistogramMetricFamily(PREFIX + name, family.help, labels=[*family.labels, "replica_role"])
            for labels, found in sorted(times.items()):
                histogram.add_metric([*labels, ROLE], list(found.cumulative()), found.total)
            yield histogram
        samples = self._samples()
        for name, family in GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, family.help, labels=[*family.labels, "replica_role"])
            for labels, value in sorted(samples.get(name, {}).items()):
                gauge.add_metric([*labels, ROLE], value)
            yield gauge

    def _attempts(self) -> dict[Labels, float]:
        attempts = self._decider.figures.attempts
        if attempts is None:
            return {}
        return {("success",): attempts.success, ("inadmissible",): attempts.inadmissible}

    def _samples(self) -> dict[str, dict[Labels, float]]:
        found: dict[str, dict[Labels, float]] = {}
        for sample in self._gauges():
            found.setdefault(sample.name, {})[sample.labels] = sample.value
        return found

    def _gauges(self) -> Iterator[gauges.Sample]:
        figures, configuration = self._decider.figures, self._configuration.value
        waiting: dict[str, tuple[int, int]] = {}
        for name in _names(self._cluster_queues.items()):
            yield from gauges.of_cluster_queue(figures, name, configuration)
            waiting |= figures.waiting_by_local_queue(name)
        for manifest in self._exposed():
            place = _place(manifest)
            cluster_queue = (manifest.get("spec") or {}).get("clusterQueue", "")
            here = waiting.get(namespaced_name(manifest), (0, 0))
            yield from gauges.of_local_queue(figures, place, cluster_queue, here, _active(manifest))
        for cohort in figures.cohorts():
            if cohort.name not in self._retired:
                yield from gauges.of_cohort(cohort, configuration)
        by_queue, by_local_queue = self._places.kept()
        for name, count in by_queue.items():
            yield gauges.Sample("finished_workloads", (name,), count)
        exposed = {_place(one) for one in self._exposed()}
        for local, count in by_local_queue.items():
            if local in exposed:
                yield gauges.Sample("local_queue_finished_workloads", local, count)

    def _exposed(self) -> list[Manifest]:
        return [one for one in self._local_queues.items() if self._is_exposed(one)]


def _names(manifests: Iterable[Manifest]) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in manifests]


def _place(local_queue: Manifest) -> Labels:
    return local_queue["metadata"]["name"], local_queue["metadata"]["namespace"]


def _active(local_queue: Manifest) -> str:
    return str((find(local_queue, "Active") or {}).get("status", "Unknown"))
