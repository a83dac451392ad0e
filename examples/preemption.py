"""Quota, waiting, a high priority, a preemption and the way back, decided by the engine in virtual time.

Nothing is executed: the engine is a library, and this plays the part of the job controller.
"""

from fairway.admission import events, wording
from fairway.admission.engine import Engine
from fairway.admission.instructions import Admit, Evict, Explain, Instruction
from fairway.apis.kueue.manifests import load_as
from fairway.apis.kueue.objects import ClusterQueue, LocalQueue, ResourceFlavor, Workload

API = "kueue.x-k8s.io/v1beta2"
NINE_CPUS = {
    "apiVersion": API,
    "kind": "ClusterQueue",
    "metadata": {"name": "cluster-queue"},
    "spec": {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "default-flavor", "resources": [{"name": "cpu", "nominalQuota": 9}]}],
            }
        ],
    },
}
FLAVOR = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "default-flavor"}}
LOCAL = {
    "apiVersion": API,
    "kind": "LocalQueue",
    "metadata": {"name": "user-queue", "namespace": "default"},
    "spec": {"clusterQueue": "cluster-queue"},
}


def job(name: str, *, cpus: int, priority: int, at: float) -> events.WorkloadAdded:
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": str(cpus)}}}
    manifest = {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": f"2026-01-01T00:00:{int(at):02d}Z",
        },
        "spec": {
            "queueName": "user-queue",
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }
    return events.WorkloadAdded(at=at, workload=load_as(Workload, manifest))


def tell(headline: str, instructions: list[Instruction]) -> None:
    print(f"\n{headline}")
    for each in instructions:
        name = each.key.partition("/")[2]
        if isinstance(each, Admit):
            print(f"  {name} starts: quota reserved in {each.cluster_queue}")
        elif isinstance(each, Evict):
            print(f"  {name} must stop: {wording.eviction(each)}")
        elif isinstance(each, Explain):
            print(f"  {name} waits: {wording.waiting(each.explanation)}")


def main() -> None:
    engine = Engine()
    engine.handle(
        events.NamespaceChanged(at=0, name="default", labels={}),
        events.FlavorChanged(at=0, flavor=load_as(ResourceFlavor, FLAVOR)),
        events.QueueChanged(at=0, queue=load_as(ClusterQueue, NINE_CPUS)),
        events.LocalQueueChanged(at=0, queue=load_as(LocalQueue, LOCAL)),
    )
    print("A ClusterQueue with 9 CPUs; jobs of 6 CPUs each.")
    tell("job-1 is submitted, priority 0", engine.handle(job("job-1", cpus=6, priority=0, at=1)))
    tell("job-2 is submitted, priority 0", engine.handle(job("job-2", cpus=6, priority=0, at=2)))
    why = engine.why("default/job-2")
    if why is not None:
        shortage = why.shortages[0]
        held = ", ".join(f"{holder.workload} ({holder.amount // 1000} CPUs)" for holder in shortage.holders)
        print(
            f"  why: position {why.position}, {shortage.missing // 1000} CPUs short in {shortage.flavor},"
            f" held by {held}; waiting can help: {'yes' if why.can_ever_fit else 'no'}"
        )
    tell("job-3 is submitted, priority 1000", engine.handle(job("job-3", cpus=6, priority=1000, at=3)))
    tell("job-1 has stopped", engine.handle(events.QuotaReleased(at=4, key="default/job-1")))
    tell("job-3 finishes", engine.handle(events.WorkloadFinished(at=4.5, key="default/job-3")))
    due = engine.next_wakeup
    if due is not None:
        headline = "a moment later those who waited are tried again: job-1 kept its place before job-2"
        tell(headline, engine.handle(events.TimePassed(at=due)))
    print("\nNext: README.md shows how to use the library; `make test` replays 632 recorded worlds of a real Kueue.")


if __name__ == "__main__":
    main()
