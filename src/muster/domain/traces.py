"""Name traces and spans (W3C Trace Context).

One operation is one span. Its ids derive from the operation's id, and from the parent that its caller named.
So every replica gives a span the same ids, without asking another one.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from muster.domain.ids import OperationId

HEADER_MOST = 512
_HEADER = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_SAMPLED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanContext:
    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def parse(header: str) -> SpanContext | None:
    """Read a `traceparent`. Return None for one that breaks the standard, which says to ignore it."""
    found = _HEADER.fullmatch(header.strip()) if len(header) <= HEADER_MOST else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "00" and more:
        return None
    return SpanContext(trace_id=trace_id, span_id=span_id, sampled=bool(int(flags, 16) & _SAMPLED))


@lru_cache(maxsize=1024)
def of_operation(operation_id: OperationId, parent: str) -> SpanContext:
    """Return the span of an operation. `parent`: its caller's `traceparent`; empty: it begins a trace."""
    caller = parse(parent)
    trace_id = caller.trace_id if caller is not None else _digits(32, "trace", operation_id)
    sampled = caller is None or caller.sampled
    return SpanContext(trace_id=trace_id, span_id=span_id(operation_id), sampled=sampled)


def span_id(*names: str) -> str:
    return _digits(16, "span", *names)


def _digits(count: int, *names: str) -> str:
    return sha256("\0".join(names).encode()).hexdigest()[:count]
