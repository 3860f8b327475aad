"""The whole at one look, for the page, the terminal and an incident's first message."""

from starlette.responses import PlainTextResponse, Response

from muster.api.access import Access
from muster.api.context import CallerToken, Ctx
from muster.api.router import Raw, Route, Table
from muster.domain.errors import NotFound
from muster.domain.incident_report import report as written
from muster.wire.overview import Overview


async def overview(ctx: Ctx) -> Overview:
    """Say what is wrong first, and whose fault it is.

    Then come waiting work with its reason, failures by cause and revision, machines that linger, recent
    changes, warm pools and counts. The overview is computed at most once a second for all callers.
    """
    return Overview.of(await ctx.overview())


async def report(ctx: Ctx) -> Response:
    """Say the same as Markdown, ready to be pasted into an incident."""
    return PlainTextResponse(written(await ctx.overview()), media_type="text/markdown; charset=utf-8")


async def acknowledge(ctx: Ctx, caller: CallerToken, finding: str) -> Overview:
    """Take a finding out of the verdict until it happens anew. Gives the overview as it is then."""
    seen = await ctx.overview_anew()
    known = {each.id: each for each in (*seen.findings, *(given.finding for given in seen.acknowledged))}
    if finding not in known:
        raise NotFound("finding", finding)
    await ctx.plane.operator.acknowledge(known[finding], actor=caller.actor)
    return Overview.of(await ctx.overview_anew())


async def unacknowledge(ctx: Ctx, caller: CallerToken, finding: str) -> Overview:
    """Let the verdict tell of a finding again. Gives the overview as it is then."""
    await ctx.plane.operator.unacknowledge(finding, actor=caller.actor)
    return Overview.of(await ctx.overview_anew())


TABLE = Table(
    "overview",
    (
        Route("GET", "/overview", Access.VIEWER, overview),
        Route("POST", "/findings/{finding}/acknowledge", Access.OPERATOR, acknowledge),
        Route("POST", "/findings/{finding}/unacknowledge", Access.OPERATOR, unacknowledge),
        Route(
            "GET",
            "/overview/report",
            Access.VIEWER,
            report,
            gives=Raw("text/markdown", "# Muster at 2026-05-04 09:30:00 UTC\n"),
        ),
    ),
)
