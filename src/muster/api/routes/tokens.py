"""API tokens: making, listing, revoking, and whose one is."""

import muster
from muster.api.access import Access, mint
from muster.api.context import Caller, Here
from muster.api.models.base import maybe_at
from muster.api.models.tokens import MintedOut, TokenIn, TokenOut, TokensOut, WhoOut, token_fields
from muster.api.routing import Route, Table
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.template import EXTERNAL


async def create(ctx: Here, caller: Caller, body: TokenIn) -> MintedOut:
    """Make a token. Its secret is in this answer and nowhere else."""
    now = ctx.now()
    given = body.expires_in
    seconds = None if given is None else checks.seconds("expires_in", given, most=checks.TOKEN_MAX)
    if body.template is not None:
        template = await ctx.ports.store.template(body.template)
        if not template.spec.enrols:
            rule = (
                f"must have the provider {EXTERNAL}: nodes of {template.spec.provider} are made, not enrolled"
            )
            raise InvalidRequest("template", body.template, rule)
    token, secret = await mint(
        ctx.ports.access,
        ids=ctx.ports.ids,
        name=body.name,
        role=body.role,
        now=now,
        expires_at=None if seconds is None else now + seconds,
        template=body.template,
        actor=caller.actor,
    )
    return MintedOut(**token_fields(token), secret=secret)


async def whoami(ctx: Here, token: Caller) -> WhoOut:
    """Say whose token this is, and what it may do."""
    installation = await ctx.ports.store.installation()
    return WhoOut(
        token_id=token.id,
        name=token.name,
        role=token.role,
        expires_at=maybe_at(token.expires_at),
        installation_id=installation.id,
        version=muster.__version__,
    )


async def listed(ctx: Here) -> TokensOut:
    """List tokens, without their secrets."""
    return TokensOut(items=[TokenOut.of(token) for token in await ctx.ports.access.tokens()])


async def revoke(ctx: Here, caller: Caller, token_id: str) -> TokenOut:
    """Revoke a token, at once and for ever."""
    token = await ctx.ports.access.revoke_token(token_id, now=ctx.now(), actor=caller.actor)
    return TokenOut.of(token)


TABLE = Table(
    "tokens",
    (
        Route("POST", "/tokens", Access.ADMIN, create, status=201),
        Route("GET", "/tokens", Access.ADMIN, listed),
        Route("POST", "/tokens/{token_id}/revoke", Access.ADMIN, revoke),
        Route("GET", "/whoami", Access.VIEWER, whoami, workflows=True),
    ),
)
