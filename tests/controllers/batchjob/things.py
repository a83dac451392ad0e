"""Jobs and pods for tests, as they are stored, and a pure play of the two."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fairway.apis.batch.job_updates import wrong_job_update
from fairway.apis.batch.jobs import JOB
from fairway.apis.machinery.conditions import is_true_in
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob import statuses
from fairway.controllers.batchjob.decide import NewPod, Plan, decide
from fairway.controllers.batchjob.ledgers import Ledger, opened
from fairway.controllers.batchjob.observe import JobSpec

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job"}]}}


def ago(seconds: float) -> str:
    return stamp(NOW - timedelta(seconds=seconds))


def job(status: dict[str, Any] | None = None, **spec: Any) -> Manifest:
    """A job as the server keeps it, defaults and all."""
    manifest: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "default", "uid": "job-uid", "creationTimestamp": ago(60)},
        "spec": {"template": copy.deepcopy(TEMPLATE)},
    }
    restarts = spec.pop("restart_policy", None)
    if restarts:
        manifest["spec"]["template"]["spec"]["restartPolicy"] = restarts
    manifest["spec"].update(spec)
    JOB.rules.default(manifest)
    JOB.rules.prepare_create(manifest)
    manifest["status"] = status or {}
    return manifest


def indexed(status: dict[str, Any] | None = None, completions: int = 3, **spec: Any) -> Manifest:
    spec.setdefault("parallelism", completions)
    return job(status, completionMode="Indexed", completions=completions, **spec)


def pod(
    name: str = "p",
    phase: str = "Running",
    *,
    index: int | None = None,
    ended: float | None = None,
    told_to_go: float | None = None,
    ready: bool = False,
    node: str = "node",
    exit_code: int | None = None,
    restarts: int = 0,
    conditions: Iterable[dict[str, Any]] = (),
    failures: int | None = None,
    ignored: int | None = None,
    created: float = 60,
) -> Manifest:
    """A pod of the job; times are in seconds before now."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "resourceVersion": "1",
        "creationTimestamp": ago(created),
        "annotations": {},
    }
    if index is not None:
        metadata["annotations"][facts.COMPLETION_INDEX] = str(index)
    if failures is not None:
        metadata["annotations"][facts.INDEX_FAILURES] = str(failures)
    if ignored is not None:
        metadata["annotations"][facts.INDEX_IGNORED_FAILURES] = str(ignored)
    if told_to_go is not None:
        metadata |= {"deletionTimestamp": ago(told_to_go - 30), "deletionGracePeriodSeconds": 30}
    if ended is None and phase in ("Succeeded", "Failed"):
        ended = 1
    state: dict[str, Any] = {"running": {}}
    if ended is not None:
        code = exit_code if exit_code is not None else int(phase == "Failed")
        state = {"terminated": {"exitCode": code, "finishedAt": ago(ended)}}
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": list(conditions),
        "containerStatuses": [{"name": "main", "state": state, "restartCount": restarts}],
    }
    if ready:
        status["conditions"].append({"type": "Ready", "status": "True", "lastTransitionTime": ago(5)})
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


def lost() -> dict[str, Any]:
    """The condition of a pod that went down with the machine."""
    return {"type": "DisruptionTarget", "status": "True", "reason": facts.LOST}


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> dict[str, Any]:
    when = ago(10)
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": when,
        "lastTransitionTime": when,
        "reason": reason,
        "message": message,
    }


SUSPENDED = condition("Suspended", "JobSuspended", "Job suspended")
RESUMED = condition("Suspended", "JobResumed", "Job resumed", "False")


def ledger_of(manifest: Manifest, pods: Iterable[Manifest]) -> Ledger:
    """What is remembered of a job just after a restart."""
    status = manifest["status"]
    return opened(JobSpec.of(manifest), status, pods, failing=is_true_in(status, statuses.FAILURE))


def plan_for(manifest: Manifest, *pods: Manifest, ledger: Ledger | None = None, now: datetime = NOW) -> Plan:
    return decide(manifest, pods, ledger if ledger is not None else ledger_of(manifest, pods), now)


def conditions_of(plan: Plan) -> dict[str, tuple[str, str, str]]:
    """What the planned status says, by type of condition."""
    assert plan.status is not None
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in plan.status.get("conditions", [])}


def names(pods: Iterable[Manifest]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


def indexes(new: Iterable[NewPod]) -> list[int | None]:
    return [one.index for one in new]


@dataclass
class Play:
    """A job whose plans are carried out at once, on pods that end when they are told to.

    Every status is checked by the server's own rules. `forget` is a restart of the controller.
    """

    job: Manifest
    now: datetime = NOW
    pods: dict[str, Manifest] = field(default_factory=dict)
    ledger: Ledger | None = None
    made: int = 0
    writes: int = 0

    def sync(self, most_steps: int = 1000) -> bool:
        """Carry out plans until nothing is left to do; whether that was reached."""
        for _ in range(most_steps):
            plan = self.plan()
            for new in plan.create:
                self._create(new)
            if plan.status is not None:
                self._write(plan)
            if plan.excuses:
                self.ledger = self._ledger().excusing(facts.uid(pod) for pod in plan.delete)
            for pod in plan.delete:
                self.delete(pod["metadata"]["name"])
            if plan.is_last:
                return True
        return False

    def plan(self) -> Plan:
        return decide(self.job, list(self.pods.values()), self._ledger(), self.now)

    def active(self) -> list[str]:
        return [name for name, pod in self.pods.items() if facts.is_active(pod)]

    def unfinished(self) -> list[str]:
        return [name for name, pod in self.pods.items() if not facts.is_ended(pod)]

    def end(self, name: str, *, well: bool, by_itself: bool = False) -> None:
        """The process of a pod ends; one that was told to go does so because of that, unless said otherwise, and is
        then gone.
        """
        pod = self.pods[name]
        status = {**pod["status"], "phase": "Succeeded" if well else "Failed"}
        if well and facts.is_deleted(pod) and not by_itself:
            status["reason"] = facts.STOPPED
        terminated = {"exitCode": 0 if well else 1, "finishedAt": stamp(self.now)}
        status["containerStatuses"] = [{"name": "main", "restartCount": 0, "state": {"terminated": terminated}}]
        self.pods[name] = {**pod, "status": status}
        if facts.is_deleted(pod):
            self._gone(name)

    def lose(self, name: str) -> None:
        """A pod goes down with the machine."""
        self.end(name, well=False)
        self.pods[name]["status"]["conditions"] = [lost()]

    def delete(self, name: str) -> None:
        """Somebody deletes a pod."""
        pod = self.pods[name]
        if facts.is_ended(pod) or not pod["spec"].get("nodeName"):
            self._gone(name)
        elif not facts.is_deleted(pod):
            grace = {"deletionTimestamp": stamp(self.now + timedelta(seconds=30)), "deletionGracePeriodSeconds": 30}
            self.pods[name] = {**pod, "metadata": {**pod["metadata"], **grace}}

    def start(self, name: str) -> None:
        """A pod gets a node and runs."""
        pod = self.pods[name]
        self.pods[name] = {**pod, "spec": {"nodeName": "node"}, "status": {**pod["status"], "phase": "Running"}}

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def change(self, **spec: Any) -> None:
        self.job = {**self.job, "spec": {**self.job["spec"], **spec}}

    def forget(self) -> None:
        self.ledger = None

    def _ledger(self) -> Ledger:
        if self.ledger is None:
            self.ledger = ledger_of(self.job, self.pods.values())
        return self.ledger

    def _create(self, new: NewPod) -> None:
        self.made += 1
        made = pod(f"p{self.made}", "Pending", index=new.index, failures=new.failures, node="")
        made["metadata"]["creationTimestamp"] = stamp(self.now)
        self.pods[f"p{self.made}"] = made

    def _write(self, plan: Plan) -> None:
        assert plan.status is not None
        assert plan.settlement is not None
        after = {**self.job, "status": plan.status}
        assert wrong_job_update(self.job, after) == []
        self.job = after
        self.writes += 1
        self.ledger = self._ledger().settled(plan.settlement)

    def _gone(self, name: str) -> None:
        ledger = self._ledger()
        self.ledger = ledger.without(self.pods.pop(name))
