"""Nodes and pools: what there is, and what an operator does to it by hand."""

from collections.abc import Mapping, Sequence
from math import ceil
from statistics import median

from muster.api.access import Access
from muster.api.context import CallerToken, Context, Ctx
from muster.api.histories import classify_bundle
from muster.api.router import Route, Table
from muster.domain import node as domain
from muster.domain.boot import by_type
from muster.domain.diagnosis import Section
from muster.domain.errors import NoDiagnosis
from muster.domain.failures import Failed
from muster.domain.ids import NodeId
from muster.domain.lifecycle import ENDING, PRESENT, NodeState
from muster.domain.overview import Handover
from muster.domain.pool_history import EVERY, KEPT, lines
from muster.domain.template import Template
from muster.operations.evidence import console_section
from muster.ports.bundle import Ports
from muster.ports.store import Cursor
from muster.wire.base import Page, at
from muster.wire.boots import Timeline
from muster.wire.diagnoses import Bundle
from muster.wire.nodes import Console, HoldRequest, Node, NodesQuery, Pools
from muster.wire.pool_history import PoolHistory, PoolHistoryQuery, PoolPoint, TemplateHistory

POINTS = 288
"""Points of a line: five minutes each over a day."""
SAMPLES_MOST = int(KEPT / EVERY) + 1
HANDOVERS_MOST = 2000
FAILURES_MOST = 2000


async def listed(ctx: Ctx, asked: NodesQuery) -> Page[Node]:
    """List nodes. Terminated ones only if they are asked for."""
    page = await ctx.ports.store.nodes(
        states=asked.state or PRESENT,
        template=asked.template,
        after=Cursor(asked.cursor) if asked.cursor is not None else None,
        limit=asked.limit,
    )
    vitals = await ctx.ports.store.vitals([node.id for node in page.items])
    items = tuple(Node.of(node, vitals.get(node.id)) for node in page.items)
    return Page(items=items, next=page.next)


async def show(ctx: Ctx, node_id: str) -> Node:
    """Show a node."""
    return await _shown(ctx, await ctx.ports.store.node(NodeId(node_id)))


async def diagnosis(ctx: Ctx, node_id: str) -> Bundle:
    """Say why a node failed, with the line that proves it and all that was collected."""
    node = await ctx.ports.store.node(NodeId(node_id))
    bundle = await ctx.ports.store.bundle(node.id)
    if bundle is None:
        raise NoDiagnosis(_why_none(node))
    return Bundle.of(bundle, await classify_bundle(bundle))


def _why_none(node: domain.Node) -> str:
    if node.state is NodeState.FAILED:
        return (
            f"node {node.id} has just failed ({node.reason}); its diagnosis is being collected: "
            "ask again in a few seconds"
        )
    if node.state in ENDING:
        why = f"{node.reason}: {node.detail}" if node.detail else str(node.reason or "no reason was given")
        return f"nothing was collected about node {node.id}: its boot did not fail; it ended with {why}"
    return f"node {node.id} has not failed: it is {node.state}; there is a diagnosis only of boots that fail"


async def boot(ctx: Ctx, node_id: str) -> Timeline:
    """Show where the time of a node's boot went."""
    store = ctx.ports.store
    node = await store.node(NodeId(node_id))
    kin = by_type(await store.boots(node.template, node.revision)).get(node.instance_type, ())
    return Timeline.of(node, await store.marks(node.id), kin, now=ctx.now())


async def console(ctx: Ctx, node_id: str) -> Console:
    """Show the end of what a node's machine wrote to its console, without its secrets."""
    node = await ctx.ports.store.node(NodeId(node_id))

    async def read() -> tuple[Section, float]:
        return await console_section(ctx.ports, node), ctx.now()

    found, read_at = await ctx.consoles.get(node.id, read)
    return Console(node_id=node.id, text=found.text, missing=found.missing, read_at=at(read_at))


async def terminate(ctx: Ctx, caller: CallerToken, node_id: str) -> Node:
    """End a node, whatever it does."""
    node = await ctx.plane.operator.terminate(NodeId(node_id), actor=caller.actor)
    return await _shown(ctx, node)


async def hold(ctx: Ctx, caller: CallerToken, node_id: str, body: HoldRequest) -> Node:
    """Keep a failed node for a look: `muster shell` opens a terminal on it. It ends when the time is over."""
    node = await ctx.plane.operator.hold(NodeId(node_id), body.seconds, actor=caller.actor)
    return await _shown(ctx, node)


async def drain(ctx: Ctx, caller: CallerToken, node_id: str) -> Node:
    """Keep a node from further runs; terminate it once it is free."""
    node = await ctx.plane.operator.drain(NodeId(node_id), actor=caller.actor)
    return await _shown(ctx, node)


async def pools(ctx: Ctx) -> Pools:
    """Show each template's nodes against what it may have and should keep warm."""
    return Pools.of(await ctx.overviewing.pools(await ctx.ports.access.pauses()))


async def pool_history(ctx: Ctx, asked: PoolHistoryQuery) -> PoolHistory:
    """Show how the pools were used over the last hours, from one sample a minute."""
    return await history(ctx.ports, hours=asked.hours, template=asked.template, now=ctx.now())


async def _shown(ctx: Context, node: domain.Node) -> Node:
    vitals = await ctx.ports.store.vitals([node.id])
    return Node.of(node, vitals.get(node.id))


TABLE = Table(
    "nodes",
    (
        Route("GET", "/nodes", Access.VIEWER, listed),
        Route("GET", "/nodes/{node_id}", Access.VIEWER, show),
        Route("GET", "/nodes/{node_id}/diagnosis", Access.VIEWER, diagnosis),
        Route("GET", "/nodes/{node_id}/boot", Access.VIEWER, boot),
        Route("GET", "/nodes/{node_id}/console", Access.VIEWER, console),
        Route("POST", "/nodes/{node_id}/terminate", Access.OPERATOR, terminate),
        Route("POST", "/nodes/{node_id}/hold", Access.OPERATOR, hold),
        Route("POST", "/nodes/{node_id}/drain", Access.OPERATOR, drain),
        Route("GET", "/pools", Access.VIEWER, pools),
        Route("GET", "/pools/history", Access.VIEWER, pool_history),
    ),
)


async def history(ports: Ports, *, hours: int, template: str | None, now: float) -> PoolHistory:
    """Return the history of one template, or of all."""
    since = now - hours * 3600.0
    samples = await ports.overview.pool_samples(since=since, limit=SAMPLES_MOST)
    began = samples[0].at if samples else now
    step = max(1, ceil((now - began) / POINTS / EVERY)) * EVERY
    drawn = lines(samples, since=began, step=step)
    known = {each.name: each for each in await ports.store.templates() if template in (None, each.name)}
    handed = _by_template(await ports.overview.handovers(since=since, limit=HANDOVERS_MOST))
    failures = await ports.overview.failures(since=since, limit=FAILURES_MOST)
    failed = [each.template for each in failures if each.what is Failed.NODE]
    names = sorted({*known, *(name for name in drawn if template in (None, name))})
    items = []
    for name in names:
        booted = await _boots(ports, known.get(name), since)
        items.append(
            TemplateHistory(
                template=name,
                points=tuple(PoolPoint.of(point) for point in drawn.get(name, ())),
                ready=TemplateHistory.ready_of(handed.get(name, ())),
                boots=len(booted),
                boot_p50=round(median(booted), 3) if booted else None,
                failed=failed.count(name),
            )
        )
    return PoolHistory(since=at(began), until=at(now), step_seconds=step, items=tuple(items))


def _by_template(handovers: Sequence[Handover]) -> Mapping[str, list[Handover]]:
    found: dict[str, list[Handover]] = {}
    for each in handovers:
        found.setdefault(each.template or "", []).append(each)
    return found


async def _boots(ports: Ports, template: Template | None, since: float) -> list[float]:
    """Return how long each boot of the present revision took that ended since a time."""
    if template is None:
        return []
    boots = await ports.store.boots(template.name, template.revision)
    return [boot.seconds for boot in boots if boot.booted_at >= since]
