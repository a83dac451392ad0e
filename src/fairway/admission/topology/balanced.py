"""Balanced placement: pods spread as evenly as possible over the fewest domains that do.

Among siblings of the requested level those are taken where the least loaded domain gets most. Domains that could not
carry that much are left out, a smallest set is chosen that fits all pods with the least room to spare, and every
domain of it gets the threshold first and then what is left over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fairway.admission.topology.counting import add_up_domain
from fairway.admission.topology.requests import PlacementRequest
from fairway.admission.topology.tree import Domain, TopologyTree


class EvenChoice(NamedTuple):
    """Domains with the pods that each gets, and their level."""

    domains: list[Domain]
    level: int


class _Greedy(NamedTuple):
    """What the fullest domains come to: how many are needed, and the last ones taken."""

    domains: int
    last_led: Domain | None
    last: Domain | None


def choose(tree: TopologyTree, want: PlacementRequest) -> EvenChoice | None:
    """Domains for an even placement; ``None`` if there is none, so that the usual way is taken."""
    domains, threshold = _best_siblings(tree, want)
    if threshold <= 0:
        return None
    level = want.level
    if want.level < want.slice_level:
        chosen = _smallest_set(domains, want, by_entropy=True)
        if chosen is None:
            return None
        domains = [child for domain in chosen for child in domain.children]
        level += 1
    spread = _spread(domains, want, threshold)
    return None if spread is None else EvenChoice(spread, level)


def _best_siblings(tree: TopologyTree, want: PlacementRequest) -> tuple[list[Domain], int]:
    """The siblings at the requested level with the highest threshold, and it; of equal ones the fewest domains."""
    families = [tree.tiers[0]] if want.level == 0 else [one.children for one in tree.tiers[want.level - 1]]
    best: list[Domain] = []
    best_threshold = fewest = 0
    for family in families:
        candidates = [domain.copy() for domain in family]
        lower = [child for one in candidates for child in one.children] if want.level < want.slice_level else candidates
        greedy = _greedy(lower, want)
        if greedy is None:
            continue
        threshold = _threshold(greedy, want)
        cautious = threshold
        if want.leaders and greedy.last is not None:
            cautious = min(threshold, greedy.last.slices_led)
        if threshold < best_threshold:
            continue
        _prune(candidates, threshold, want)
        left = _greedy(candidates, want)
        if left is None and cautious < threshold:
            if cautious <= 0 or cautious < best_threshold:
                continue
            threshold = cautious
            candidates = [domain.copy() for domain in family]
            _prune(candidates, threshold, want)
            left = _greedy(candidates, want)
        if left is not None and (threshold > best_threshold or (threshold == best_threshold and left.domains < fewest)):
            best, best_threshold, fewest = candidates, threshold, left.domains
    return best, best_threshold


def _fullest(domains: list[Domain]) -> list[Domain]:
    return sorted(domains, key=lambda one: (-one.slices, one.pods, one.rank))


def _fullest_with_leader(domains: list[Domain]) -> list[Domain]:
    return sorted(domains, key=lambda one: (-one.leaders, -one.slices_led, one.pods_led, one.rank))


def _greedy(domains: list[Domain], want: PlacementRequest) -> _Greedy | None:
    """Take the fullest domains until all slices and leaders have a place; ``None`` if they do not get one."""
    remaining, leaders = want.slices, want.leaders
    used = 0
    last_led: Domain | None = None
    last: Domain | None = None
    rest = domains
    if leaders:
        rest = _fullest_with_leader(domains)
        while leaders > 0 and used < len(rest) and rest[used].leaders > 0:
            last_led = rest[used]
            leaders -= last_led.leaders
            remaining -= last_led.slices_led
            used += 1
        rest = rest[used:]
    if leaders > 0:
        return None
    for domain in _fullest(rest):
        if remaining <= 0 or domain.slices <= 0:
            break
        used += 1
        last = domain
        remaining -= domain.slices
    return None if remaining > 0 else _Greedy(used, last_led, last)


def _threshold(greedy: _Greedy, want: PlacementRequest) -> int:
    """The most that the least loaded domain can have."""
    threshold = want.slices // greedy.domains if greedy.domains else 0
    if greedy.last_led is not None:
        threshold = min(threshold, greedy.last_led.slices_led)
    if greedy.last is not None:
        threshold = min(threshold, greedy.last.slices)
    return threshold


def _prune(domains: list[Domain], threshold: int, want: PlacementRequest) -> None:
    """Leave out what cannot carry the threshold, and sum up again."""
    plain = want._replace(inner={})
    for domain in domains:
        for child in domain.children:
            _prune_one(child, threshold, want)
    for domain in domains:
        _sum_up(domain, want.level, plain)
        _prune_one(domain, threshold, want)


def _sum_up(domain: Domain, level: int, want: PlacementRequest) -> None:
    if not domain.children:
        if level == want.slice_level:
            domain.slices, domain.slices_led = domain.pods // want.slice_size, domain.pods_led // want.slice_size
        return
    for child in domain.children:
        _sum_up(child, level + 1, want)
    add_up_domain(domain, level, want)


def _prune_one(domain: Domain, threshold: int, want: PlacementRequest) -> None:
    if domain.slices < threshold:
        _clear(domain, everything=True)
    elif want.leaders and domain.leaders > 0 and domain.slices_led < threshold:
        _clear(domain, everything=False)  # it may still have pods, but no leader


def _clear(domain: Domain, *, everything: bool) -> None:
    domain.pods_led = domain.slices_led = domain.leaders = 0
    if everything:
        domain.pods = domain.slices = 0
    for child in domain.children:
        _clear(child, everything=everything)


def _smallest_set(domains: list[Domain], want: PlacementRequest, *, by_entropy: bool) -> list[Domain] | None:
    """As few domains as the greedy choice needs, with the least room to spare in all.

    ``sets[n]`` has, for each number of leaders and pods left over, the first set of n domains that leaves it.
    """
    greedy = _greedy(domains, want)
    if greedy is None:
        return None
    ordered = sorted(domains, key=_entropy_key if by_entropy else lambda one: one.rank)
    sets: list[dict[tuple[int, int], tuple[Domain, ...]]] = [{} for _ in range(greedy.domains + 1)]
    sets[0][want.leaders, want.slices * want.slice_size] = ()
    for domain in ordered:
        for size in range(greedy.domains, 0, -1):
            for (leaders, pods), before in sorted(sets[size - 1].items(), key=lambda item: item[0]):
                if leaders <= 0 and pods <= 0:
                    continue
                if leaders > 0 and domain.leaders > 0:
                    sets[size].setdefault((leaders - domain.leaders, pods - domain.pods_led), (*before, domain))
                if domain.slices > 0:
                    sets[size].setdefault((leaders, pods - domain.pods), (*before, domain))
    enough = [pods for leaders, pods in sets[greedy.domains] if leaders == 0 and pods <= 0]
    return list(sets[greedy.domains][0, max(enough)]) if enough else None


def _entropy_key(domain: Domain) -> tuple[int, int, float, int]:
    """The fullest first; of equal ones that with the most even children."""
    total = sum(child.pods for child in domain.children)
    shares = [child.pods / total for child in domain.children if child.pods > 0] if total else []
    return -domain.leaders, -domain.slices_led, sum(share * math.log2(share) for share in shares), domain.rank


def _spread(domains: list[Domain], want: PlacementRequest, threshold: int) -> list[Domain] | None:
    """The threshold for each domain, and what is left over to the fullest."""
    chosen = _smallest_set(domains, want, by_entropy=False)
    if chosen is None or want.slices < len(chosen) * threshold:
        return None
    extra, leaders = want.slices - len(chosen) * threshold, want.leaders
    chosen = _fullest_with_leader(chosen)
    for domain in chosen:
        more = 0
        if leaders > 0:
            more = min(domain.slices_led - threshold, extra)
            domain.leaders = 1
            leaders -= 1
        else:
            more = min(domain.slices - threshold, extra) if extra > 0 else 0
            domain.leaders = 0
        domain.slices = domain.slices_led = threshold + more
        domain.pods = domain.slices * want.slice_size
        domain.pods_led = domain.pods - domain.leaders
        extra -= more
    return None if extra > 0 or leaders > 0 else chosen
