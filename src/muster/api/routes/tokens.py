"""API tokens: making, listing, revoking, and whose one is."""

import muster
from muster.api.access import Access, mint
from muster.api.context import CallerToken, Ctx
from muster.api.router import Route, Table
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.template import EXTERNAL
from muster.wire.base import Page, convert
from muster.wire.tokens import Identity, MintedToken, Token, TokenRequest


async def create(ctx: Ctx, caller: CallerToken, body: TokenRequest) -> MintedToken:
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
    return convert(MintedToken, token, secret=secret)


async def whoami(ctx: Ctx, token: CallerToken) -> Identity:
    """Say whose token this is, and what it may do."""
    installation = await ctx.ports.store.installation()
    return convert(
        Identity,
        token,
        token_id=token.id,
        installation_id=installation.id,
        version=muster.__version__,
    )


async def listed(ctx: Ctx) -> Page[Token]:
    """List tokens, without their secrets."""
    found = await ctx.ports.access.tokens()
    role = ctx.authenticator.role
    return Page(items=tuple(convert(Token, token, role=role(token) or token.role) for token in found))


async def revoke(ctx: Ctx, caller: CallerToken, token_id: str) -> Token:
    """Revoke a token, at once and for ever."""
    token = await ctx.ports.access.revoke_token(token_id, now=ctx.now(), actor=caller.actor)
    return convert(Token, token)


TABLE = Table(
    "tokens",
    (
        Route("POST", "/tokens", Access.ADMIN, create, status=201),
        Route("GET", "/tokens", Access.ADMIN, listed),
        Route("POST", "/tokens/{token_id}/revoke", Access.ADMIN, revoke),
        Route("GET", "/whoami", Access.VIEWER, whoami, workflows=True),
    ),
)
