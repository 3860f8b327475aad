"""Make spans from committed records, and write them as the JSON of OTLP. Pure: the caller brings the records.

A span is made from a record, when what it tells of has ended. So nothing is kept open meanwhile, and a
replica that takes over has nothing to continue. Arguments and environments of commands stay out: they may be
secret.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from typing import Any

import msgspec

from muster.domain import traces
from muster.domain.boot import Mark, spans
from muster.domain.command import Command, CommandState
from muster.domain.events import Entity
from muster.domain.launch import Launch
from muster.domain.lifecycle import Fact, NodeState, Verb
from muster.domain.node import Node
from muster.domain.operation import Operation, Status
from muster.domain.requests import ProvisionRequest, RunRequest
from muster.domain.traces import SpanContext
from muster.ports.commits import Written

Attribute = str | int | float | bool
_BOOT_ENDS = (Fact.BOOTED.value, Verb.FAIL.value)
_NODE_NEWS = (Fact.ATTACHED.value, *_BOOT_ENDS)
_ERROR = 2
_MESSAGE_MOST = 1000


class SpanKind(IntEnum):
    """As OTLP numbers them."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    name: str
    context: SpanContext
    parent: str = ""
    """The id of the span that it is a part of; empty: it begins the trace."""
    start: float
    end: float
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str = ""
    """Why what it tells of failed; empty: it did not fail."""


def ends_a_span(written: Written) -> bool:
    """Return whether a span may end with this write. Called on the hot path."""
    draft = written.draft
    match draft.entity:
        case Entity.NODE:
            return draft.name in _NODE_NEWS
        case Entity.LAUNCH:
            return draft.changes.get("closed_at") is not None
        case Entity.COMMAND | Entity.OPERATION:
            return draft.changes.get("ended_at") is not None
        case _:
            return False


def ends_a_boot(written: Written) -> bool:
    return written.draft.entity is Entity.NODE and written.draft.name in _BOOT_ENDS


def of_operation(operation: Operation) -> Span:
    caller = traces.parse(operation.trace)
    verdict = operation.verdict
    failed = operation.status is Status.FAILED
    return Span(
        name=operation.kind.value,
        context=traces.of_operation(operation.id, operation.trace),
        parent="" if caller is None else caller.span_id,
        start=operation.created_at,
        end=operation.ended_at or operation.updated_at,
        kind=SpanKind.SERVER,
        attributes=_said(
            operation_id=operation.id,
            template=operation.template,
            run=operation.run,
            status=operation.status.value,
            nodes=len(operation.members) or None,
            warm=operation.warm or None,
            reason=verdict.reason.value if verdict else None,
            **_asked(operation),
        ),
        error=verdict.message if failed and verdict else operation.status.value if failed else "",
    )


def _asked(operation: Operation) -> dict[str, Attribute]:
    match operation.request:
        case ProvisionRequest() as asked:
            return {"count": asked.count, "owner": asked.owner}
        case RunRequest(provision=asked):
            return {"count": asked.count, "owner": asked.owner}
        case _:
            return {}


def of_node(node: Node, operation: Operation, marks: Sequence[Mark] | None) -> Iterator[Span]:
    """Yield the spans that end with a write of the node. `marks`: of the boot that ended with it."""
    part = partial(_part, operation, what=node.id, attributes=_of(node))
    if marks is not None:
        yield from _boot(node, part, marks)
    elif node.attached_at is not None:
        warm = node.state is NodeState.CLAIMED
        since = node.entered_at if warm else node.booted_at or node.entered_at
        if warm:
            yield part("claim", start=operation.created_at, end=since)
        yield part("attach", start=since, end=node.attached_at)


def _boot(node: Node, part: Callable[..., Span], marks: Sequence[Mark]) -> Iterator[Span]:
    end = node.booted_at or node.entered_at
    error = "" if node.booted_at else node.detail or (node.reason.value if node.reason else "failed")
    whole = part("boot", start=node.created_at, end=end, error=error)
    yield whole
    at = node.created_at
    for number, phase in enumerate(spans(node.created_at, marks, end)):
        own = traces.span_id(whole.context.span_id, str(number))
        yield Span(
            name=phase.name,
            context=replace(whole.context, span_id=own),
            parent=whole.context.span_id,
            start=at,
            end=at + phase.seconds,
            attributes=_said(node_id=node.id),
        )
        at += phase.seconds


def of_launch(launch: Launch, operation: Operation) -> Span:
    said = _said(
        launch_id=launch.id,
        provider=launch.provider,
        template=launch.template,
        count=launch.count,
        adopted=launch.adopted,
        calls=launch.calls,
        reason=launch.reason.value if launch.reason else None,
    )
    made = _part(
        operation,
        "launch",
        what=launch.id,
        start=launch.created_at,
        end=launch.closed_at or launch.created_at,
        attributes=said,
        error=(launch.message or launch.reason.value) if launch.reason else "",
    )
    return replace(made, kind=SpanKind.CLIENT)


def of_command(command: Command, operation: Operation) -> Span:
    said = _said(
        command_id=command.id,
        node_id=command.node_id,
        index=command.ordinal,
        exit_code=command.exit_code,
        signal=command.signal,
        reason=command.reason.value if command.reason else None,
    )
    return _part(
        operation,
        "command",
        what=command.id,
        start=command.started_at or command.created_at,
        end=command.ended_at or command.created_at,
        attributes=said,
        error=_failure(command),
    )


def _failure(command: Command) -> str:
    if command.state is CommandState.LOST:
        return command.detail or "lost"
    if command.signal is not None:
        return f"ended by signal {command.signal}"
    return f"exit code {command.exit_code}" if command.exit_code else ""


def _of(node: Node) -> dict[str, Attribute]:
    return _said(
        node_id=node.id,
        template=node.template,
        provider=node.provider,
        instance_type=node.instance_type,
        reason=node.reason.value if node.reason else None,
    )


def _part(
    operation: Operation,
    name: str,
    *,
    what: str,
    start: float,
    end: float,
    attributes: Mapping[str, Attribute],
    error: str = "",
) -> Span:
    """Return a span inside the operation's own. A clock that was set back ends no span before it began."""
    whole = traces.of_operation(operation.id, operation.trace)
    return Span(
        name=name,
        context=replace(whole, span_id=traces.span_id(operation.id, name, what)),
        parent=whole.span_id,
        start=start,
        end=max(start, end),
        attributes=attributes,
        error=error,
    )


def _said(**given: Attribute | None) -> dict[str, Attribute]:
    return {f"muster.{name}": value for name, value in given.items() if value is not None}


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
