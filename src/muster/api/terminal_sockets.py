"""Admit both sides of a terminal by WebSocket, and end a terminal by the rules of the installation.

A person shows a token as everywhere, or, from a page, as a subprotocol: browsers let no script add a header.
A page of another origin is refused, whatever it shows. Every refusal is the same problem+json as elsewhere.
"""

import asyncio
import re
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from muster.api.access import Credentials, Permit
from muster.api.beats import authorization_of
from muster.api.connections import admitted
from muster.api.context import SHUTDOWN, Context
from muster.api.cookies import Cookies
from muster.api.middleware import HEADERS
from muster.api.problems import NoPath, Unauthenticated, translate
from muster.api.terminals import Relay, Socket
from muster.domain.access import Role
from muster.domain.command import Command, exit_status
from muster.domain.errors import Conflict, Forbidden, Gone, NotFound
from muster.domain.ids import CommandId
from muster.ports.wakeups import command_topic

LOOK_EVERY = 5.0
"""Seconds between two looks at the command, the token and the clock. Each is a sign of life, too."""
PROTOCOL, BEARER = "muster.terminal", "bearer."
"""The subprotocol, and how a page names its token beside it."""
_PATH = re.compile(r"/api/v1/(agent/)?commands/([^/]{1,200})/terminal", re.ASCII)


class TerminalSockets:
    """Answers every request for a WebSocket."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            agent, command_id = _asked(scope["path"])
            if agent:
                relay = await self._admit_agent(scope, command_id)
                await relay.serve_agent(await _accepted(scope, receive, send))
            else:
                command, permit = await self._admit_person(scope, command_id)
                await self._serve(command, permit, await _accepted(scope, receive, send))
        except Exception as error:
            if scope.get("accepted"):
                raise
            await _refuse(error, scope, send)

    async def _admit_agent(self, scope: Scope, command_id: CommandId) -> Relay:
        node_id = await self._context.authenticator.node(authorization_of(scope["headers"]).decode("latin-1"))
        admitted(scope)
        command = await self._context.ports.commands.command(command_id)
        if command.node_id != node_id or command.execution.terminal is None:
            raise NotFound("a terminal of this node", command_id)
        if command.ended or command.cancel_requested_at is not None:
            raise Gone(f"command {command_id} has ended")
        relay = self._context.terminals.find(command_id)
        if relay is None:
            raise Conflict(
                f"cannot connect {command_id}: its person is not connected here; ask another server"
            )
        return relay

    async def _admit_person(self, scope: Scope, command_id: CommandId) -> tuple[Command, Permit]:
        ctx = self._context
        _check_origin(scope)
        shown = _credentials(scope, ctx.cookies)
        caller = await ctx.authenticator.caller(shown, Role.OPERATOR)
        if caller.confinement is not None:
            raise Forbidden("cannot open a terminal as a workflow: it is for people")
        admitted(scope)
        ctx.settings.settings.shells.check(caller.token.role)
        command = await ctx.ports.commands.command(command_id)
        if command.execution.terminal is None:
            raise NotFound("a command with a terminal", command_id)
        if command.actor != caller.token.actor:
            raise Forbidden(f"cannot join {command_id}: it is the shell of {command.actor}; open your own")
        if command.ended:
            raise Gone(f"the shell {command_id} has ended: open a new one")
        if ctx.terminals.find(command_id) is None:
            ctx.terminals.check_room()
        return command, Permit(ctx.authenticator, shown, ctx.ports.clock)

    async def _serve(self, command: Command, permit: Permit, person: Socket) -> None:
        """Relay until the person leaves, the command ends, or the rules of the installation end it."""
        relay = Relay(person, self._context.ports.clock)
        async with self._context.terminals.opened(command.id, relay):
            tasks = [
                asyncio.create_task(relay.serve_person()),
                asyncio.create_task(self._watch(permit, command.id, relay)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, permit: Permit, command_id: CommandId, relay: Relay) -> None:
        ctx, idle = self._context, self._context.settings.settings.shells.idle_timeout
        listener = ctx.ports.wakeups.listen((command_topic(command_id), SHUTDOWN))
        try:
            while not ctx.shutdown.begun:
                over = await self._over(permit, command_id, relay)
                if over is not None:
                    return await relay.end(ended=over)
                await relay.person.say(alive=True)
                await listener.wait(min(LOOK_EVERY, max(0.0, relay.typed_at + idle - ctx.now())))
        finally:
            listener.close()

    async def _over(self, permit: Permit, command_id: CommandId, relay: Relay) -> dict[str, object] | None:
        """Return why the terminal ends, if it does."""
        ctx, idle = self._context, self._context.settings.settings.shells.idle_timeout
        command = await ctx.ports.commands.command(command_id)
        if command.ended:
            return {"why": str(command.state), "status": exit_status(command), "detail": command.detail}
        if ctx.now() - relay.typed_at >= idle:
            why = f"nothing was typed for {idle:g} s ([shells] idle_timeout); open it again"
            return {"why": "idle", "detail": why}
        if not await permit.holds():
            return {"why": "token", "detail": "the token expired or was revoked; sign in again"}
        return None


def _asked(path: str) -> tuple[bool, CommandId]:
    """Return whether an agent asks, and for which command. Raises NoPath."""
    found = _PATH.fullmatch(path)
    if found is None:
        raise NoPath
    return found[1] is not None, CommandId(found[2])


def _check_origin(scope: Scope) -> None:
    """Raise Forbidden for a page of another origin. Programs send none."""
    found = dict(scope["headers"])
    origin = found.get(b"origin", b"").decode("latin-1")
    if origin and urlsplit(origin).netloc != found.get(b"host", b"").decode("latin-1"):
        raise Forbidden(f"cannot open a terminal from a page of {origin[:200]}: use the page of this server")


def _credentials(scope: Scope, cookies: Cookies | None) -> Credentials:
    """Return what the person shows: a token, or the session of the page itself."""
    shown = authorization_of(scope["headers"]).decode("latin-1")
    if shown:
        return Credentials(authorization=shown)
    for each in scope["subprotocols"]:
        if each.startswith(BEARER) and each != BEARER:
            return Credentials(authorization=f"Bearer {each.removeprefix(BEARER)}")
    request = HTTPConnection(scope)
    session = None if cookies is None else request.cookies.get(cookies.session)
    if cookies is None or session is None:
        raise Unauthenticated("the request has no valid token: send one as 'Authorization: Bearer …'")
    cookies.check("POST", request.headers)
    return Credentials(session=session)


async def _accepted(scope: Scope, receive: Receive, send: Send) -> Socket:
    scope["accepted"] = True
    protocol = PROTOCOL if PROTOCOL in scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": protocol, "headers": []})
    return Socket(receive, send)


async def _refuse(error: Exception, scope: Scope, send: Send) -> None:
    response = translate(error, method="GET", path=scope["path"]).response()
    start: Message = {
        "type": "websocket.http.response.start",
        "status": response.status_code,
        "headers": [*response.raw_headers, *HEADERS],
    }
    await send(start)
    await send({"type": "websocket.http.response.body", "body": response.body})
