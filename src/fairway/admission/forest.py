"""ClusterQueues and cohorts as trees.

A tree is what decisions are made in: quota moves only inside it, and a change in one tree never touches another.
Trees are relinked when an object changes its place, and their quotas are summed up again, lazily, before the next
decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fairway.admission.clusterqueues import QueueState, compile_quotas, weight_of
from fairway.admission.holders import Holders
from fairway.admission.quota import CohortNode, Node, compile_alone
from fairway.admission.reasons import Outcome
from fairway.admission.records import Record
from fairway.admission.resources import FlavorResource, FlavorResources
from fairway.apis.kueue.objects import Cohort

if TYPE_CHECKING:
    from fairway.admission.preemption.flat import Losses

Loss = tuple[int, Record]
"""So much of a flavor-resource, and who would have to give it up."""


class CohortTree:
    """ClusterQueues that share quota. ``ready`` names those that may have a head to try; ``cycle`` counts the tries.

    ``guaranteed`` are the flavor-resources that some queue keeps from its cohort. ``losses`` is worked out by searches
    and holds until a holder changes.
    """

    __slots__ = (
        "by_leaf",
        "cycle",
        "guaranteed",
        "looping",
        "losses",
        "name",
        "queues",
        "ready",
        "root",
        "stale",
        "version",
        "victims",
        "wakes_at",
    )

    def __init__(self, name: str, root: Node, queues: Iterable[QueueState], *, looping: bool) -> None:
        self.name = name
        self.root = root
        self.queues = {queue.name: queue for queue in sorted(queues, key=lambda queue: queue.name)}
        self.by_leaf = {queue.leaf: queue for queue in self.queues.values()}
        self.looping = looping
        self.ready: set[str] = set()
        self.cycle = 0
        self.stale = True
        self.version = 0
        self.guaranteed: frozenset[FlavorResource] = frozenset()
        self.losses: dict[tuple[FlavorResource, int | None], Losses] = {}
        self.victims = Holders()
        self.wakes_at: float | None = None
        """Until when no workload wakes up, for the sake of a preemptor."""

        for queue in self.queues.values():
            queue.tree = self
            for record in queue.holders.values():
                self.victims.add(record)

    @property
    def has_preemptor(self) -> bool:
        """Whether a pending workload waits for its victims to stop, as of its last try."""
        preemptors = (queue.pending.preemptor for queue in self.queues.values())
        return any(
            one is not None and one.explanation is not None and one.explanation.outcome is Outcome.PENDING_PREEMPTION
            for one in preemptors
        )

    def compile(self) -> None:
        """Sum up quotas and usage, and see who takes part."""
        if isinstance(self.root, CohortNode):
            if not self.looping:
                self.root.compile()
                _measure(self.root, frozenset(queue.leaf for queue in self.queues.values() if queue.active))
        else:
            for queue in self.queues.values():
                compile_alone(queue.leaf)
        for queue in self.queues.values():
            queue.grow()
            queue.precedents.clear()
        self.guaranteed = frozenset(fr for queue in self.queues.values() for fr in queue.leaf.guaranteed)
        self.losses.clear()
        self.stale = False
        self.version += 1


def _measure(cohort: CohortNode, active: frozenset[Node]) -> int:
    heights = [_measure(child, active) + 1 for child in cohort.children]
    cohort.height = max(min(1, len(cohort.children) + sum(leaf in active for leaf in cohort.leaves)), *heights, 0)
    return cohort.height


class Forest:
    """The objects by name and the trees they form. A cohort exists while it has an object or a child names it."""

    __slots__ = ("_bare", "_cohort_manifests", "_frs", "_linked", "_trees", "queues")

    def __init__(self, frs: FlavorResources) -> None:
        self._frs = frs
        self._cohort_manifests: dict[str, Cohort] = {}
        self._trees: dict[str, CohortTree] = {}
        self._bare: list[CohortNode] = []
        """Roots that no ClusterQueue is below of: nothing is decided there."""

        self._linked = True
        self.queues: dict[str, QueueState] = {}

    def __iter__(self) -> Iterator[CohortTree]:
        """All trees, up to date."""
        self._relink()
        return (tree for name in tuple(self._trees) if (tree := self.tree_named(name)) is not None)

    def set_cohort(self, manifest: Cohort) -> None:
        self._cohort_manifests[manifest.metadata.name] = manifest
        self._linked = False

    def delete_cohort(self, name: str) -> None:
        if self._cohort_manifests.pop(name, None) is not None:
            self._linked = False

    def relink(self) -> None:
        """A ClusterQueue came, went or moved."""
        self._linked = False

    def tree_of(self, queue: QueueState) -> CohortTree:
        if not self._linked:
            self._relink()
        tree = queue.tree
        if tree.stale:
            tree.compile()
        return tree

    def cohort_root_name(self, cohort: str) -> str:
        """The name of the tree that a cohort is in, whether it has queues or not."""
        seen = {cohort}
        while (above := self._parent_of(cohort)) and above not in seen:
            seen.add(above)
            cohort = above
        return f"cohort/{cohort}"

    def cohorts(self) -> Iterator[CohortNode]:
        """Every cohort, also those without a ClusterQueue."""
        waiting: list[Node] = [tree.root for tree in self]
        waiting += self._bare
        while waiting:
            node = waiting.pop()
            if isinstance(node, CohortNode):
                yield node
                waiting.extend(node.children)

    def tree_named(self, name: str) -> CohortTree | None:
        self._relink()
        tree = self._trees.get(name)
        if tree is not None and tree.stale:
            tree.compile()
        return tree

    def _parent_of(self, cohort: str) -> str:
        manifest = self._cohort_manifests.get(cohort)
        return manifest.spec.parent_name if manifest is not None else ""

    # Linking

    def _relink(self) -> None:
        """Build the trees again. All their queues are tried again; cycles are counted on, and wakes are not put off."""
        if self._linked:
            return
        self._linked = True
        cohorts, looping_cohorts = self._link_cohorts()
        members: dict[str, list[QueueState]] = {}
        roots: dict[str, tuple[Node, bool]] = {}
        for queue in self.queues.values():
            if queue.cohort_name:
                cohort = cohorts[queue.cohort_name]
                queue.leaf.parent = cohort
                cohort.leaves.append(queue.leaf)
                path = (cohort, *cohort.path_up())
                name = f"cohort/{path[-1].name}"
                roots[name] = (path[-1], path[-1].name in looping_cohorts)
            else:
                queue.leaf.parent = None
                name = f"queue/{queue.name}"
                roots[name] = (queue.leaf, False)
            members.setdefault(name, []).append(queue)
            queue.watched = any(cohort.name in self._cohort_manifests for cohort in queue.leaf.path_up())
        previous = self._trees
        self._trees = {}
        for name, (root, looping) in roots.items():
            tree = self._trees[name] = CohortTree(name, root, members[name], looping=looping)
            tree.ready = set(tree.queues)
            if (before := previous.get(name)) is not None:
                tree.cycle, tree.wakes_at = before.cycle, before.wakes_at
        with_queues = {id(root) for root, _ in roots.values()}
        self._bare = [one for one in cohorts.values() if one.parent is None and id(one) not in with_queues]
        for root in self._bare:
            root.compile()

    def _link_cohorts(self) -> tuple[dict[str, CohortNode], frozenset[str]]:
        """All cohorts, linked; and those that are their own ancestors, which are left without a parent."""
        names = set(self._cohort_manifests) | {queue.cohort_name for queue in self.queues.values() if queue.cohort_name}
        names |= {above for name in self._cohort_manifests if (above := self._parent_of(name))}
        cohorts = {name: CohortNode(name) for name in sorted(names)}
        for name, cohort in cohorts.items():
            manifest = self._cohort_manifests.get(name)
            if manifest is None:
                continue
            cohort.set_quotas(compile_quotas(manifest.spec.resource_groups, self._frs))
            cohort.weight = weight_of(manifest.spec.fair_sharing)
        looping = frozenset(name for name in cohorts if self._is_own_ancestor(name))
        for name, cohort in cohorts.items():
            above = self._parent_of(name)
            if above and name not in looping:
                cohort.parent = cohorts[above]
                cohort.parent.children.append(cohort)
        return cohorts, looping

    def _is_own_ancestor(self, name: str) -> bool:
        seen: set[str] = set()
        above = self._parent_of(name)
        while above and above not in seen:
            if above == name:
                return True
            seen.add(above)
            above = self._parent_of(above)
        return False
