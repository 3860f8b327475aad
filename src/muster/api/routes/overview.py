"""The whole at one look, for the page, the terminal and an incident's first message."""

from starlette.responses import PlainTextResponse, Response

from muster.api.access import Access
from muster.api.context import Here
from muster.api.models.overview import OverviewOut
from muster.api.routing import Raw, Route, Table
from muster.domain.incident import report as written


async def overview(ctx: Here) -> OverviewOut:
    """Say what is wrong first, and whose fault it is.

    Then what waits and why, what failed by cause and revision, machines that linger, who changed what, how
    warm the pools are, and how much there is of everything. Found out at most once a second, for all who ask.
    """
    return OverviewOut.of(await ctx.overview())


async def report(ctx: Here) -> Response:
    """Say the same as Markdown, ready to be pasted into an incident."""
    return PlainTextResponse(written(await ctx.overview()), media_type="text/markdown; charset=utf-8")


TABLE = Table(
    "overview",
    (
        Route("GET", "/overview", Access.VIEWER, overview),
        Route(
            "GET",
            "/overview/report",
            Access.VIEWER,
            report,
            gives=Raw("text/markdown", "# Muster at 2026-05-04 09:30:00 UTC\n"),
        ),
    ),
)
