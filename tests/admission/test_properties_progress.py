"""What happens in the end: nobody waits for what is there, and what-ifs leave nothing behind."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from fairway.admission.config import KUEUE_BATCH_SECONDS
from fairway.admission.quota import CohortNode, Leaf, Node, Quota, having, without
from fairway.admission.reasons import Outcome
from fairway.admission.records import Record, Stage
from fairway.admission.resources import FlavorResource, FlavorResources
from fairway.apis.kueue.objects import Cohort, QueueingStrategy
from fairway.testing.conformance import Replay, read_worlds

from .quota_model import QuotaModel
from .worlds import FLAVORS, MEMORY_FLAVORS, Player, Script, Setup, Submit, cohorts, examples, scripts, setups


def could_be_admitted(player: Player) -> Iterator[str]:
    """Those who wait at rest although plain quota is there for them.

    Looked at are all who wait in a BestEffortFIFO queue and the first of each StrictFIFO queue. Left out, as in Kueue:

    * trees in which somebody of another queue waits without candidates and may not reclaim from all: in each cycle it
      keeps its room from those after it;
    * queues that prefer preemption to borrowing: they may choose a flavor they cannot get over one they could borrow.
    """
    held, model = player.usage(), player.model
    waiting = [record for record in player.bench.engine.records() if record.stage is Stage.PENDING and record.active]
    for record in waiting:
        queue = player.queue_of(record.key)
        if model.queues[queue].spec.flavor_fungibility.preference is not None:
            continue
        if not _is_tried(player, record) or any(_keeps_room(player, other, queue) for other in waiting):
            continue
        for wanted in model.choices(queue, player.workloads[record.key]):
            if model.fits(queue, wanted, held):
                yield f"{record.key} could have {wanted}: {player.bench.why(record.key)}"


def _is_tried(player: Player, record: Record) -> bool:
    queue = player.model.queues[player.queue_of(record.key)]
    if queue.spec.queueing_strategy is QueueingStrategy.BEST_EFFORT_FIFO:
        return True
    why = player.bench.why(record.key)
    return why is not None and why.position == 0


def _keeps_room(player: Player, other: Record, queue: str) -> bool:
    theirs = player.queue_of(other.key)
    if theirs == queue or player.model.root(theirs) != player.model.root(queue):
        return False
    if player.model.queues[theirs].spec.preemption.reclaim_within_cohort == "Any":
        return False
    why = player.bench.why(other.key)
    return why is not None and why.explanation.outcome is Outcome.NO_CANDIDATES


@examples(150)
@given(setups(), scripts)
def test_nobody_waits_for_what_is_there(setup: Setup, script: Script) -> None:
    player = Player(setup)
    for said in chain(player.play(script), player.come_to_rest()):
        for each in said:
            player.obey(each)

    assert list(could_be_admitted(player)) == [], player.bench.story()


@examples(60)
@given(setups(), scripts)
def test_when_all_have_finished_everybody_who_can_ever_fit_has_run(setup: Setup, script: Script) -> None:
    """Whoever runs is let finish, again and again: in the end only those wait who do not fit into an empty tree."""
    player = Player(setup)
    for said in player.play([[action for action in step if isinstance(action, Submit)] for step in script]):
        for each in said:
            player.obey(each)
    for _ in range(len(player.workloads) + 1):
        for said in player.come_to_rest():
            for each in said:
                player.obey(each)
        running = [record.name for record in player.bench.engine.records() if record.stage is Stage.ADMITTED]
        if not running:
            break
        for each in player.bench.finish(*running):
            player.obey(each)
        for name in running:
            player.held.pop(f"ns/{name}", None)
            player.evicting.discard(f"ns/{name}")

    assert player.held == {}
    assert list(could_be_admitted(player)) == [], player.bench.story()


RACING = {"more-plain": (30201, 30278), "more-fair": (40212, 40217)}
"""Recorded worlds in which workloads that wake up as soon as quota is free are preempted without end."""


@cache
def _racing() -> list[dict[str, Any]]:
    data = Path(__file__).parent.parent / "conformance" / "data"
    return [
        world
        for file, seeds in RACING.items()
        for world in read_worlds(data / f"{file}.jsonl.gz")
        if world["seed"] in seeds
    ]


@examples(40)
@given(st.integers(0, 3), st.sampled_from([0.0, KUEUE_BATCH_SECONDS]), st.sampled_from([1.0, 0.0, 0.02, 0.3, 1.3, 3.0]))
def test_evictions_are_bounded_with_kueues_batch_and_with_none(world: int, batch: float, release: float) -> None:
    """A preemptor gets the room of its victims before those who wake up, however long the victims take to stop."""
    replay = Replay(_racing()[world], batch, release)
    for step in replay.world["trace"]:
        replay.step(step["do"])

    assert max(sum(record.evictions.values()) for record in replay.engine.records()) <= 5


@examples(100)
@given(setups(), scripts)
def test_whether_waiting_can_ever_help(setup: Setup, script: Script) -> None:
    """An answer about the future, compared with what there would be in an empty tree."""
    player = Player(setup)
    for said in player.play(script):
        for each in said:
            player.obey(each)
    for record in player.bench.engine.records():
        why = player.bench.why(record.key)
        if why is not None:
            queue = player.queue_of(record.key)
            would_do = any(
                all(amount <= player.model.potential(queue, pair) for pair, amount in wanted.items())
                for wanted in player.model.choices(queue, player.workloads[record.key])
            )
            assert why.can_ever_fit == would_do, f"{why}; {player.bench.story()}"


# What-ifs


class Built:
    """The engine's quota nodes and the test's model of the same cohorts, one queue in each."""

    def __init__(self, made: list[Cohort]) -> None:
        self.frs = FlavorResources()
        self.model = QuotaModel(made)
        self.nodes: dict[str, Node] = {}
        for each in made:
            self._place(CohortNode(each.name), f"cohort {each.name}")
        self.leaves: list[Leaf] = [self._hang(name) for name in list(self.nodes)]
        for node in self.nodes.values():
            if isinstance(node, CohortNode) and node.parent is None:
                node.compile()

    def _place(self, node: Node, name: str) -> None:
        self.nodes[name] = node
        node.set_quotas({self.fr(pair): Quota(*limits) for pair, limits in self.model.limits.get(name, {}).items()})
        above = self.nodes.get(self.model.parent.get(name, ""))
        if isinstance(above, CohortNode):
            node.parent = above
            if isinstance(node, CohortNode):
                above.children.append(node)
            elif isinstance(node, Leaf):
                above.leaves.append(node)

    def _hang(self, cohort: str) -> Leaf:
        """A queue with the same quotas as its cohort, so that it lends and keeps as well."""
        leaf, name = Leaf(cohort.removeprefix("cohort ")), cohort.removeprefix("cohort ")
        self.model.limits[name] = dict(self.model.limits[cohort])
        self.model.parent[name] = cohort
        self.model.queues[name] = None  # type: ignore[assignment]  # only its name is asked for
        self._place(leaf, name)
        return leaf

    def fr(self, pair: tuple[str, str]) -> FlavorResource:
        return self.frs.get(*pair)

    def usage(self) -> dict[str, dict[FlavorResource, int]]:
        return {name: {fr: used for fr, used in node.usage.items() if used} for name, node in self.nodes.items()}


PAIRS = [
    *((flavor, resource) for flavor in FLAVORS for resource in ("cpu", "memory")),
    *((flavor, "memory") for flavor in MEMORY_FLAVORS.values()),
]
amounts = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(PAIRS), st.integers(0, 9000)), max_size=8)


@examples(150)
@given(cohorts(FLAVORS).filter(bool), amounts, amounts, amounts)
def test_a_what_if_leaves_the_tree_as_it_was(
    made: list[Cohort],
    held: list[tuple[int, tuple[str, str], int]],
    tried: list[tuple[int, tuple[str, str], int]],
    more: list[tuple[int, tuple[str, str], int]],
) -> None:
    built = Built(made)
    nodes = built.leaves
    for index, pair, amount in held:
        nodes[index % len(nodes)].add(built.fr(pair), amount)
    before = built.usage()
    removed = [(nodes[index % len(nodes)], ((built.fr(pair), amount),)) for index, pair, amount in held[::2]]
    added = [(nodes[index % len(nodes)], ((built.fr(pair), amount),)) for index, pair, amount in (*tried, *more)]

    with without(removed):
        for node, what in added:
            with having(node, what), having(node, what):
                pass
    assert built.usage() == before

    for node, what in added:
        node.add_all(what)
    for node, what in reversed(added):
        node.remove_all(what)
    assert built.usage() == before


@examples(150)
@given(cohorts(FLAVORS).filter(bool), amounts)
def test_the_tree_counts_as_the_rules_say(made: list[Cohort], held: list[tuple[int, tuple[str, str], int]]) -> None:
    built = Built(made)
    books: dict[str, dict[tuple[str, str], int]] = {}
    for index, pair, amount in held:
        leaf = built.leaves[index % len(built.leaves)]
        leaf.add(built.fr(pair), amount)
        of_leaf = books.setdefault(leaf.name, {})
        of_leaf[pair] = of_leaf.get(pair, 0) + amount
    for name, node in built.nodes.items():
        for pair in PAIRS:
            fr = built.fr(pair)
            assert (node.usage.get(fr, 0), node.available(fr), node.potential.get(fr, 0)) == (
                built.model.usage(name, pair, books),
                built.model.available(name, pair, books),
                built.model.potential(name, pair),
            ), (name, pair)


# Determinism between processes

_RECORDINGS = Path(__file__).parents[1] / "conformance" / "data"


def digest() -> str:
    """All that is decided in some recorded worlds, as one number."""
    decided = hashlib.sha256()
    for path in sorted(_RECORDINGS.glob("*.jsonl.gz")):
        for world in list(read_worlds(path))[:12]:
            replay = Replay(world)
            for step in world["trace"]:
                replay.step(step["do"])
                decided.update(repr(replay.outcome()).encode())
                decided.update("".join(replay.message(name) for name in step["expect"]).encode())
    return decided.hexdigest()


def test_decisions_do_not_depend_on_how_a_process_hashes() -> None:
    """Python hashes text differently in each process; an order that came from a set would differ as well."""
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})"
    program += "; from admission.test_properties_progress import digest; print(digest())"
    answers = [
        subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert answers[0] == answers[1]
