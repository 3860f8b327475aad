"""Archives that commands start from: uploaded once, named by their content, forgotten after a day."""

from muster.api.access import Access
from muster.api.context import Ctx, RawRequest
from muster.api.router import Raw, Route, Table
from muster.wire.base import at
from muster.wire.commands import Blob


async def upload(ctx: Ctx, request: RawRequest) -> Blob:
    """Upload an archive (gzipped tar) for a command to start from.

    The id is its SHA-256, so the same archive is kept once.
    """
    stored = await ctx.archives.put(request.stream(), now=ctx.now())
    return Blob(id=stored.name, size=stored.size, expires_at=at(stored.expires_at))


TABLE = Table(
    "blobs",
    (
        Route(
            "PUT",
            "/blobs",
            Access.OPERATOR,
            upload,
            status=201,
            takes=Raw("application/octet-stream", "(a gzipped tar archive)"),
        ),
    ),
)
