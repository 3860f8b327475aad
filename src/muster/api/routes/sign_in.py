"""Signing in and out: the page by the identity provider, terminals by a code that a person confirms."""

import base64
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

from starlette.responses import RedirectResponse, Response

from muster.api.access import Access
from muster.api.context import CallerToken, Context, Ctx, RawRequest
from muster.api.device_logins import INTERVAL, LASTS, DeviceLogins
from muster.api.problems import NoSignIn
from muster.api.router import JSON, ROOT, Raw, Route, Table
from muster.api.sign_in import BEGUN_FOR, Begun, SignInDesk, page_path
from muster.domain.access import TokenKind
from muster.domain.errors import Forbidden, MusterError, NotYet, Unproven
from muster.wire.base import convert, encode
from muster.wire.sign_in import (
    DeviceLogin,
    DeviceLoginRequest,
    DeviceToken,
    DeviceTokenRequest,
    SignedOut,
    SignInOffer,
    SignInQuery,
    WaitingDevice,
)

START = "/sign-in/start"
_NOTICE_FOR = 60.0
_NOTICE_MOST = 1000


async def offer(ctx: Ctx, request: RawRequest) -> Response:
    """Say how people can sign in, and why the last attempt of this browser failed."""
    if ctx.sign_in is None or ctx.cookies is None:
        return Response(encode(SignInOffer()), media_type=JSON)
    told = request.cookies.get(ctx.cookies.notice, "")
    offered = SignInOffer(
        name=ctx.sign_in.provider.name,
        signed_in=await ctx.authenticator.session_holds(request.cookies.get(ctx.cookies.session)),
        notice=_read(told),
    )
    response = Response(encode(offered), media_type=JSON)
    if told:
        ctx.cookies.drop(response, ctx.cookies.notice)
    return response


async def start(ctx: Ctx, request: RawRequest, asked: SignInQuery) -> Response:
    """Send the browser to the identity provider. It comes back to the path `to` of the page."""
    desk = _desk(ctx)
    assert ctx.cookies is not None  # noqa: S101 — with the desk
    if not asked.here and request.headers.get("host") != urlsplit(desk.provider.home).netloc:
        query = urlencode({"to": page_path(asked.to), "here": "true"})
        return _sent(f"{desk.provider.home}{ROOT}{START}?{query}")
    try:
        address, begun = await desk.begin(asked.to)
    except NotYet as error:
        return _failed(ctx, error, page_path(asked.to))
    response = _sent(address)
    ctx.cookies.write(response, ctx.cookies.pending, begun.cookie, seconds=BEGUN_FOR)
    return response


async def callback(ctx: Ctx, request: RawRequest) -> Response:
    """Take the answer of the identity provider, begin a session, and go on to the page."""
    desk = _desk(ctx)
    assert ctx.cookies is not None  # noqa: S101 — with the desk
    to = "/"
    try:
        begun = Begun.of_cookie(request.cookies.get(ctx.cookies.pending))
        to = begun.to
        earlier = request.cookies.get(ctx.cookies.session)
        _, secret = await desk.finish(dict(request.query_params), begun, earlier=earlier)
    except (Unproven, Forbidden, NotYet) as error:
        response = _failed(ctx, error, to)
    else:
        response = _sent(to)
        ctx.cookies.write(response, ctx.cookies.session, secret, seconds=desk.provider.lifetimes.session)
    ctx.cookies.drop(response, ctx.cookies.pending)
    return response


async def sign_out(ctx: Ctx, caller: CallerToken) -> Response:
    """End the caller's session or login, at once. A token that an admin made stays as it is."""
    ended = caller.kind is not TokenKind.TOKEN
    if ended:
        await ctx.ports.access.revoke_token(caller.id, now=ctx.now(), actor=caller.actor)
    response = Response(encode(SignedOut(ended=ended)), media_type=JSON)
    if ctx.cookies is not None:
        ctx.cookies.drop(response, ctx.cookies.session)
    return response


async def begin_device(ctx: Ctx, request: RawRequest, body: DeviceLoginRequest) -> DeviceLogin:
    """Ask for a code with which a person signs this terminal in (RFC 8628; the body is JSON)."""
    begun, secret = await _logins(ctx).begin(body.machine, request.client.host if request.client else "")
    page = f"{_desk(ctx).provider.home}/device"
    return DeviceLogin(
        device_code=secret,
        user_code=begun.user_code,
        verification_uri=page,
        verification_uri_complete=f"{page}?code={begun.user_code}",
        expires_in=LASTS,
        interval=INTERVAL,
    )


async def device_token(ctx: Ctx, body: DeviceTokenRequest) -> DeviceToken:
    """Ask whether the person has confirmed. Refused with `authorization_pending` until then."""
    token = await _logins(ctx).token(body.device_code)
    return convert(DeviceToken, token, access_token=body.device_code, token_type="Bearer")  # noqa: S106 — a word


async def waiting(ctx: Ctx, caller: CallerToken, user_code: str) -> WaitingDevice:
    """Show the terminal that waits with a code, to a person who is signed in on the page."""
    return convert(WaitingDevice, await _logins(ctx).find(user_code, caller))


async def confirm(ctx: Ctx, caller: CallerToken, user_code: str) -> WaitingDevice:
    """Sign the terminal in as this person, with the role that this person has."""
    return convert(WaitingDevice, await _logins(ctx).confirm(user_code, caller))


async def deny(ctx: Ctx, caller: CallerToken, user_code: str) -> WaitingDevice:
    """Refuse the terminal."""
    return convert(WaitingDevice, await _logins(ctx).deny(user_code, caller))


def _desk(ctx: Context) -> SignInDesk:
    if ctx.sign_in is None:
        words = "this server has no identity provider ([oidc])"
        raise NoSignIn(f"cannot sign in by an identity provider: {words}; use a token")
    return ctx.sign_in


def _logins(ctx: Context) -> DeviceLogins:
    lifetimes = _desk(ctx).provider.lifetimes
    return DeviceLogins(ctx.ports.access, ctx.ports.clock, ctx.ports.ids, lifetimes)


def _sent(address: str) -> Response:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Referrer-Policy": "no-referrer"})


def _failed(ctx: Context, error: MusterError, to: str) -> Response:
    """Send the browser back to the page, which tells once what went wrong."""
    response = _sent(to)
    assert ctx.cookies is not None  # noqa: S101 — with the desk
    words = base64.urlsafe_b64encode(str(error)[:_NOTICE_MOST].encode()).decode()
    ctx.cookies.write(response, ctx.cookies.notice, words, seconds=_NOTICE_FOR)
    return response


def _read(notice: str) -> str:
    try:
        return base64.urlsafe_b64decode(notice).decode()
    except ValueError:
        return ""


_REDIRECT = Raw("text/plain", "(a redirect)")

TABLE = Table(
    "sign-in",
    (
        Route("GET", "/sign-in", Access.PUBLIC, offer, gives=Raw(JSON, encode(SignInOffer.EXAMPLE).decode())),
        Route("GET", START, Access.PUBLIC, start, status=303, gives=_REDIRECT),
        Route("GET", "/sign-in/callback", Access.PUBLIC, callback, status=303, gives=_REDIRECT),
        Route(
            "POST",
            "/sign-out",
            Access.VIEWER,
            sign_out,
            gives=Raw(JSON, encode(SignedOut.EXAMPLE).decode()),
        ),
        Route("POST", "/device", Access.PUBLIC, begin_device, status=201),
        Route("POST", "/device/token", Access.PUBLIC, device_token),
        Route("GET", "/device/{user_code}", Access.VIEWER, waiting),
        Route("POST", "/device/{user_code}/confirm", Access.VIEWER, confirm),
        Route("POST", "/device/{user_code}/deny", Access.VIEWER, deny),
    ),
)
