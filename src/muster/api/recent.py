"""How calls went lately: counts and durations over a window that moves with time, in a few numbers.

Time is cut into slices; each holds counts and a histogram. What is older than the window is dropped with its
slice, so memory and the cost of a look are fixed, however many calls there are.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from muster.domain.observations import Calls

WINDOW = 300.0
SLICE = 15.0


class _Slice:
    __slots__ = ("counts", "errors", "number", "throttled")

    def __init__(self, number: int, edges: int) -> None:
        self.number = number
        self.counts = [0] * (edges + 1)
        self.errors = 0
        self.throttled = 0


class Recent:
    """`edges` are the upper bounds of the durations that are told apart, in seconds."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = tuple(edges)
        self._slices: deque[_Slice] = deque(maxlen=int(WINDOW / SLICE))
        self._last_error = (float("-inf"), "")

    def add(
        self, seconds: float, *, now: float, failed: bool = False, throttled: bool = False, error: str = ""
    ) -> None:
        number = int(now / SLICE)
        if not self._slices or self._slices[-1].number < number:
            self._slices.append(_Slice(number, len(self._edges)))
        part = self._slices[-1]
        part.counts[bisect_left(self._edges, seconds)] += 1
        part.errors += failed
        part.throttled += throttled
        if error:
            self._last_error = (now, error)

    def calls(self, *, now: float) -> Calls:
        since = int(now / SLICE) - int(WINDOW / SLICE)
        parts = [part for part in self._slices if part.number > since]
        counts = [sum(column) for column in zip(*(part.counts for part in parts), strict=True)]
        at, error = self._last_error
        return Calls(
            window=WINDOW,
            calls=sum(counts),
            errors=sum(part.errors for part in parts),
            throttled=sum(part.throttled for part in parts),
            p50=self._bound(counts, 0.50),
            p95=self._bound(counts, 0.95),
            p99=self._bound(counts, 0.99),
            last_error=error if now - at <= WINDOW else "",
        )

    def _bound(self, counts: Sequence[int], share: float) -> float | None:
        """The edge below which this share of the calls stays; beyond the last edge, twice that."""
        wanted, seen = share * sum(counts), 0
        for edge, count in zip((*self._edges, 2 * self._edges[-1]), counts, strict=False):
            seen += count
            if count and seen >= wanted:
                return edge
        return None
