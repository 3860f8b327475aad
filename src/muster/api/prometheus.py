"""Counters, gauges and histograms in Prometheus's text format. Small, because that is all that is needed."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

Labels = Mapping[str, str]
SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
MILLISECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Counter:
    def __init__(self, name: str, description: str) -> None:
        self._name = name
        self._description = description
        self._values: dict[tuple[tuple[str, str], ...], float] = {}

    def add(self, amount: float = 1.0, **labels: str) -> None:
        key = tuple(labels.items())
        self._values[key] = self._values.get(key, 0.0) + amount

    def lines(self) -> Iterator[str]:
        yield from _head(self._name, self._description, "counter")
        for key, value in self._values.items():
            yield _line(self._name, dict(key), value)


class Histogram:
    def __init__(self, name: str, description: str, buckets: Sequence[float]) -> None:
        self._name = name
        self._description = description
        self._buckets = tuple(buckets)
        self._seen: dict[tuple[tuple[str, str], ...], tuple[list[int], list[float]]] = {}

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(labels.items())
        if key not in self._seen:
            self._seen[key] = ([0] * (len(self._buckets) + 1), [0.0])
        counts, total = self._seen[key]
        counts[bisect_left(self._buckets, value)] += 1
        total[0] += value

    def lines(self) -> Iterator[str]:
        yield from _head(self._name, self._description, "histogram")
        for key, (counts, total) in self._seen.items():
            labels, below = dict(key), 0
            for edge, count in zip((*self._buckets, None), counts, strict=True):
                below += count
                shown = "+Inf" if edge is None else f"{edge:g}"
                yield _line(self._name + "_bucket", {**labels, "le": shown}, below)
            yield _line(self._name + "_sum", labels, total[0])
            yield _line(self._name + "_count", labels, below)


def gauge(name: str, description: str, values: Sequence[tuple[Labels, float]]) -> Iterator[str]:
    yield from _head(name, description, "gauge")
    for labels, value in values:
        yield _line(name, labels, value)


def _head(name: str, description: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {description}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {value:.16g}" if shown else f"{name} {value:.16g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
