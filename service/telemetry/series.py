"""Counters and histograms whose updates are one or two additions: prometheus_client's own take locks and checks.

They are collectors of a prometheus_client registry, which renders them. One thread updates them, any may collect.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from time import time

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


class CounterChild:
    """One series of a counter."""

    __slots__ = ("exemplar", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.exemplar: Exemplar | None = None

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:
        """Add `amount`, which must not be negative; the exemplar replaces the one before."""
        self.value += amount
        if exemplar is not None:
            self.exemplar = Exemplar(exemplar, amount, time())


class Counter(Collector):
    """Counter series by their label values."""

    def __init__(self, name: str, text: str, labels: Labels, registry: CollectorRegistry) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._children: dict[Labels, CounterChild] = {}
        registry.register(self)

    def labels(self, **values: str) -> CounterChild:
        """The series of these label values, made at the first call. Raises KeyError when a label is missing."""
        return self._children.setdefault(tuple(values[name] for name in self._labels), CounterChild())

    def describe(self) -> Iterator[Metric]:
        """The family without series."""
        yield CounterMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        """The family with its series."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for key, child in tuple(self._children.items()):
            named = dict(zip(self._labels, key, strict=True))
            family.samples.append(Sample(f"{family.name}_total", named, child.value, None, child.exemplar))
        yield family


class HistogramChild:
    """One series of a histogram; `counts` has a place more than `bounds`, for what is above all of them."""

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, exemplar: dict[str, str] | None = None) -> None:
        """Count a value; the exemplar replaces the one of the same bucket."""
        place = bisect_left(self.bounds, value)
        self.counts[place] += 1
        self.total += value
        if exemplar is not None:
            self.exemplars[place] = Exemplar(exemplar, value, time())

    def buckets(self) -> list[tuple[str, float, Exemplar | None]]:
        """Upper bound, values up to it and exemplar of each bucket."""
        rows: list[tuple[str, float, Exemplar | None]] = []
        seen = 0
        for place, (bound, count) in enumerate(zip((*self.bounds, float("inf")), tuple(self.counts), strict=True)):
            seen += count
            name: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
            rows.append((name, seen, self.exemplars.get(place)))
        return rows


class Histogram(Collector):
    """Histogram series by their label values; `bounds` are the upper bounds, ascending."""

    def __init__(
        self, name: str, text: str, labels: Labels, registry: CollectorRegistry, *, bounds: Sequence[float]
    ) -> None:
        self._name, self._text, self._labels, self._bounds = name, text, labels, bounds
        self._children: dict[Labels, HistogramChild] = {}
        registry.register(self)

    def labels(self, **values: str) -> HistogramChild:
        """The series of these label values, made at the first call. Raises KeyError when a label is missing."""
        return self._children.setdefault(tuple(values[name] for name in self._labels), HistogramChild(self._bounds))

    def describe(self) -> Iterator[Metric]:
        """The family without series."""
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        """The family with its series."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for key, child in tuple(self._children.items()):
            family.add_metric(key, child.buckets(), child.total)  # type: ignore[arg-type]
        yield family
