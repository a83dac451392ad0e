"""What LocalQueues used lately, for admission fair sharing: recent use counts most, old use fades by half each
half-life.

Between samples a newly admitted workload counts as a penalty at once, so that a burst from one LocalQueue does not
pass before its use shows in a sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fairway.apis.kueue.configuration import AdmissionFairSharingPolicy


class UsageLedger:
    """Consumed resources and pending penalties, by LocalQueue. Amounts are in the unit quota is counted in."""

    __slots__ = ("_config", "_consumed", "_penalties", "_sampled")

    def __init__(self, config: AdmissionFairSharingPolicy | None) -> None:
        self._config = config
        self._consumed: dict[str, dict[str, float]] = {}
        self._sampled: dict[str, float] = {}
        self._penalties: dict[str, dict[str, dict[str, float]]] = {}

    @property
    def enabled(self) -> bool:
        return self._config is not None

    def usage(self, local_queue: str, weight: float) -> float:
        """The weighted sum that LocalQueues are ordered by: the lower, the sooner."""
        if self._config is None:
            return 0.0
        total = dict(self._consumed.get(local_queue, {}))
        for penalty in self._penalties.get(local_queue, {}).values():
            for resource, amount in penalty.items():
                total[resource] = total.get(resource, 0.0) + amount
        weights = self._config.resource_weights
        value = sum(weights.get(resource, 1.0) * _whole_units(resource, total[resource]) for resource in sorted(total))
        return math.inf if weight <= 0 else value / weight

    def _fade(self, elapsed: float) -> float:
        half_life = self._config.half_life_seconds if self._config is not None else 0.0
        return 0.5 ** (elapsed / half_life) if half_life > 0 else 0.0

    def penalise(self, local_queue: str, workload: str, requests: Mapping[str, int]) -> None:
        """A workload got quota: count it at once, as much as one sampling interval of it would."""
        if self._config is None or self._config.half_life_seconds <= 0:
            return
        share = 1.0 - self._fade(self._config.sampling_seconds)
        penalty = {resource: amount * share for resource, amount in requests.items()}
        self._penalties.setdefault(local_queue, {})[workload] = penalty

    def forgive(self, local_queue: str, workload: str) -> None:
        """The quota was given back, or never became an admission."""
        self._penalties.get(local_queue, {}).pop(workload, None)

    def settle(self, local_queue: str, workload: str, current: Mapping[str, int], now: float) -> None:
        """The workload was admitted: what was a penalty is consumption from now on."""
        self.sample(local_queue, current, now)
        penalty = self._penalties.get(local_queue, {}).pop(workload, {})
        consumed = self._consumed.setdefault(local_queue, {})
        for resource, amount in penalty.items():
            consumed[resource] = consumed.get(resource, 0.0) + amount

    def sample(self, local_queue: str, current: Mapping[str, int], now: float) -> None:
        """Mix what is in use now into what was used before. Without a half-life nothing is remembered."""
        if self._config is None:
            return
        before = self._sampled.get(local_queue, now)
        self._sampled[local_queue] = max(before, now)
        if self._config.half_life_seconds <= 0:
            self._consumed[local_queue] = {}
            return
        keep = self._fade(max(0.0, now - before))
        old = self._consumed.get(local_queue, {})
        self._consumed[local_queue] = {
            resource: keep * old.get(resource, 0.0) + (1.0 - keep) * current.get(resource, 0)
            for resource in sorted(old.keys() | current.keys())
        }

    def restore(self, local_queue: str, consumed: Mapping[str, int], now: float) -> None:
        """Begin with what the LocalQueue's status shows, as of now: the engine that worked it out is gone."""
        if self._config is not None and local_queue not in self._sampled:
            self._consumed[local_queue] = {resource: float(amount) for resource, amount in consumed.items()}
            self._sampled[local_queue] = now

    def forget(self, local_queue: str) -> None:
        """The LocalQueue is gone."""
        for known in (self._consumed, self._sampled, self._penalties):
            known.pop(local_queue, None)

    def consumed(self, local_queue: str) -> dict[str, float]:
        """What a LocalQueue's status shows."""
        return dict(self._consumed.get(local_queue, {}))

    def sampled_at(self, local_queue: str) -> float | None:
        """When that was worked out."""
        return self._sampled.get(local_queue)


def _whole_units(resource: str, amount: float) -> float:
    """Usage is summed over resources in whole units, so a core counts as one."""
    return amount / 1000.0 if resource == "cpu" else amount
