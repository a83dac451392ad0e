"""What `/metrics` tells: requests by verb, resource and code, objects, watches, revisions, and what others add.

Counting is a few additions on plain numbers; the exposition format is written for each request.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from fairway.store.store import Store

_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Collector(Protocol):
    """A further collector of metrics, as in `prometheus_client`."""

    def collect(self) -> Iterable[object]: ...


class _Series:
    """How often, and how long it took."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * len(_BUCKETS)
        self.count = 0
        self.seconds = 0.0


class Metrics:
    """The numbers of one server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._requests: dict[tuple[str, str, int], int] = {}
        self._durations: dict[tuple[str, str], _Series] = {}
        self._others: list[Collector] = []
        self.watches = 0
        self.in_flight = 0

    def add(self, collector: Collector) -> None:
        """Tell what this one has to tell as well."""
        self._others.append(collector)

    def count(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Note one answered request."""
        key = (verb, resource, code)
        self._requests[key] = self._requests.get(key, 0) + 1
        if verb in {"watch", "connect"}:
            return  # they last as long as the client likes
        series = self._durations.get((verb, resource))
        if series is None:
            series = self._durations[verb, resource] = _Series()
        series.count += 1
        series.seconds += seconds
        position = bisect_left(_BUCKETS, seconds)
        if position < len(_BUCKETS):
            series.buckets[position] += 1

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return exposition((self, *self._others))

    def collect(self) -> Iterator[object]:
        """What `prometheus_client` asks of a collector."""
        from prometheus_client.core import (  # noqa: PLC0415
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        requests = CounterMetricFamily(
            "fairway_api_requests", "Answered requests.", labels=["verb", "resource", "code"]
        )
        for (verb, resource, code), count in sorted(self._requests.items()):
            requests.add_metric([verb, resource, str(code)], count)
        yield requests
        durations = HistogramMetricFamily(
            "fairway_api_request_duration_seconds", "From arrival to answer.", labels=["verb", "resource"]
        )
        for labels, series in sorted(self._durations.items()):
            durations.add_metric(list(labels), list(_cumulative(series)), series.seconds)
        yield durations
        yield GaugeMetricFamily("fairway_api_watches", "Open watches.", value=self.watches)
        yield GaugeMetricFamily("fairway_api_requests_in_flight", "Requests being answered.", value=self.in_flight)
        yield GaugeMetricFamily("fairway_store_revision", "The newest durable revision.", value=self._store.revision)
        objects = GaugeMetricFamily("fairway_store_objects", "Objects by resource.", labels=["resource"])
        for resource, count in sorted(self._store.counts().items()):
            objects.add_metric([resource], count)
        yield objects


def _cumulative(series: _Series) -> Iterable[tuple[str, float]]:
    total = 0
    for bound, count in zip(_BUCKETS, series.buckets, strict=True):
        total += count
        yield str(bound), total
    yield "+Inf", series.count


def exposition(collectors: Iterable[Collector]) -> bytes:
    """What these collectors have, in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - only when asked for

    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)  # type: ignore[arg-type]
    return generate_latest(registry)
