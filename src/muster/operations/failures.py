"""Describe the node that failed an operation. Composed on each read; nothing is stored.

Before a node's bundle is stored, its boot marks and its agent's report give a first description. Does not
classify: that may take half a second, so callers decide where it runs.
"""

from muster.domain.boot import given_up_at, spans
from muster.domain.diagnosis import Bundle, Section, Source
from muster.domain.errors import NotFound
from muster.domain.lifecycle import NodeState, Verb
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.reasons import Reason
from muster.domain.redaction import redact
from muster.ports.store import Store

EVENTS = 20
"""Of a node that failed: its failure is among its last."""
_AFTER_FAILURE = (NodeState.FAILED, NodeState.TERMINATING, NodeState.TERMINATED)


async def evidence(store: Store, operation: Operation, *, now: float) -> Bundle | None:
    """Return the bundle of the node that failed it. None: no node's failure was the reason, or nothing is
    known of it any more."""
    if operation.verdict is None or operation.verdict.node_id is None:
        return None
    try:
        node = await store.node(operation.verdict.node_id)
    except NotFound:
        return None
    bundle = await store.bundle(node.id)
    if bundle is None and node.state in _AFTER_FAILURE:
        known = {Source.PHASES: await phases(store, node), Source.AGENT: await last_words(store, node)}
        return Bundle(
            node_id=node.id,
            collected_at=now,
            reason=node.reason,
            detail=node.detail,
            sections=tuple(Section(name=name, text=text) for name, text in known.items() if text),
        )
    return bundle


async def phases(store: Store, node: Node) -> str:
    """How far its boot came, and how long each part took. Steps are named by its script, and redacted."""
    marks = await store.marks(node.id)
    found = spans(node.created_at, marks, given_up_at(marks) or node.entered_at)
    return "\n".join(f"{redact(span.name)}  {span.seconds:.1f} s" for span in found)


async def last_words(store: Store, node: Node) -> str | None:
    """What a node's agent reported about its boot script's end. Redacted when it came in."""
    if node.joined_at is None or node.reason is not Reason.BOOT_SCRIPT_FAILED:
        return None
    page = await store.last_events(limit=EVENTS, entity_id=node.id)
    told = [event.detail for event in page.items if event.name == Verb.FAIL]
    return told[-1] if told else None
