"""Whether the process lives, whether it can serve, and the figures to alarm on."""

import asyncio

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from muster.api.access import Access
from muster.api.codes_page import html
from muster.api.context import Ctx
from muster.api.dashboard import HEADERS
from muster.api.problems import Problem
from muster.api.router import Raw, Route, Table
from muster.domain.codes import PAGE, ProblemCode
from muster.domain.errors import StoreUnavailable
from muster.domain.ids import NodeId

ANSWER_WITHIN = 2.0
DUTY_WITHIN = 30.0
"""The most frequent duty ticks every five seconds: six missed ticks are not chance."""

REFUSED_FOR = 10.0
"""Seconds for which a full store counts as full. The next check then writes again."""

_UNKNOWN = NodeId("readyz")
"""A key that no cache holds, so that the store itself answers."""


async def healthz() -> Response:
    """Say that the process lives."""
    return JSONResponse({"status": "ok"})


async def readyz(ctx: Ctx) -> Response:
    """Say whether the store answers and takes writes, and the periodic duties tick."""
    failing = []
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            await ctx.ports.store.admitted_key(_UNKNOWN)
    except StoreUnavailable as error:
        failing.append(f"the store can't be used ({error.why})")
    except TimeoutError:
        failing.append("the store does not answer")
    if ctx.metrics.unwritable:
        failing.append("the store cannot be written")
    elif ctx.metrics.refused_at is not None and ctx.now() - ctx.metrics.refused_at < REFUSED_FOR:
        failing.append("the store takes nothing new")
    if not ctx.settings.driving():
        failing.append("the control plane has stopped")
    elif ctx.now() - ctx.metrics.duty_at > DUTY_WITHIN:
        failing.append("the periodic duties do not tick")
    if ctx.shutdown.begun:
        failing.append("the server is stopping")
    if not failing:
        return JSONResponse({"status": "ready"})
    return Problem(
        status=503,
        code=ProblemCode.NOT_READY,
        title="Not ready",
        detail=f"cannot serve: {'; '.join(failing)}",
        headers={"Retry-After": "5"},
    ).response()


async def metrics(ctx: Ctx) -> Response:
    """Show the figures in Prometheus's text format."""
    limits = await ctx.plane.watch_tracker.limits()
    seen = await ctx.overview()
    text = await ctx.metrics.render(ctx.ports.store, seen, limits, beats=ctx.beats.total, now=ctx.now())
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def codes() -> Response:
    """Show every code with its cause and what to do. Messages link here."""
    return HTMLResponse(html(), headers=HEADERS)


TABLE = Table(
    "health",
    (
        Route("GET", "/healthz", Access.PUBLIC, healthz, gives=Raw("application/json", '{"status": "ok"}')),
        Route("GET", "/readyz", Access.PUBLIC, readyz, gives=Raw("application/json", '{"status": "ready"}')),
        Route("GET", PAGE, Access.PUBLIC, codes, gives=Raw("text/html", "<!doctype html>…")),
        Route("GET", "/metrics", Access.VIEWER, metrics, gives=Raw("text/plain", "muster_queue_length 0\n")),
    ),
    root="",
)
