"""Write spans as the JSON of OTLP: ids in hexadecimal, times in nanoseconds."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from muster.integrations.otlp.spans import Attribute, Span

_ERROR = 2
_MESSAGE_MOST = 1000


def encode(spans: Sequence[Span], *, resource: Mapping[str, Attribute], version: str) -> bytes:
    """Return the body of one export request."""
    scope = {"scope": {"name": "muster", "version": version}, "spans": [_span(each) for each in spans]}
    whole = {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}
    return msgspec.json.encode({"resourceSpans": [whole]})


def _span(span: Span) -> dict[str, Any]:
    said: dict[str, Any] = {
        "traceId": span.context.trace_id,
        "spanId": span.context.span_id,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": _nanoseconds(span.start),
        "endTimeUnixNano": _nanoseconds(span.end),
        "attributes": _attributes(span.attributes),
    }
    if span.parent:
        said["parentSpanId"] = span.parent
    if span.error:
        said["status"] = {"code": _ERROR, "message": span.error[:_MESSAGE_MOST]}
    return said


def _nanoseconds(seconds: float) -> str:
    return str(int(seconds * 1_000_000) * 1000)


def _attributes(given: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in given.items()]


def _value(value: Attribute) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": value}
