"""The agents' short cut: what every node asks again and again, without the framework in between.

The same tokens, handlers, models and answers. Only what is plainly as agents say it is taken here; anything
else goes on to the framework untouched, which knows how to refuse it.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.api.context import Context
from muster.api.models.agent import DesiredAsked, DesiredOut, ReportIn
from muster.api.problems import translate
from muster.api.routes import agent
from muster.api.routing import ROOT
from muster.ports.store import Standing

BODY_MOST = 65536
_JSON = b"application/json"
_Answer = Callable[[Context, Standing], Awaitable[DesiredOut]]


def _desired(scope: Scope, _body: bytes) -> _Answer:
    given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    asked = DesiredAsked.model_validate(dict(given))
    return lambda ctx, standing: agent.awaited(ctx, standing, asked)


def _report(_scope: Scope, body: bytes) -> _Answer:
    said = ReportIn.model_validate_json(body)
    return lambda ctx, standing: agent.reported(ctx, standing, said)


_ROUTES: dict[tuple[str, str], Callable[[Scope, bytes], _Answer]] = {
    ("GET", f"{ROOT}/agent/desired"): _desired,
    ("POST", f"{ROOT}/agent/report"): _report,
}


class Shortcut:
    def __init__(self, context: Context, *, otherwise: ASGIApp) -> None:
        self._context = context
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = _ROUTES.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if read is None or not _plain(scope):
            await self._otherwise(scope, receive, send)
            return
        body, again = await _read(receive) if scope["method"] == "POST" else (b"", receive)
        try:
            answer = read(scope, body)
        except ValidationError:
            await self._otherwise(scope, again, send)
            return
        try:
            standing = await self._context.gate.speaker(_header(scope, b"authorization"))
            said = (await answer(self._context, standing)).model_dump_json().encode()
        except Exception as error:
            problem = translate(error, method=scope["method"], path=scope["path"])
            await problem.response()(scope, again, send)
            return
        headers = [(b"content-type", _JSON), (b"content-length", b"%d" % len(said))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})


def _plain(scope: Scope) -> bool:
    """Each query parameter once; a body of known length and kind, or none."""
    length = _header(scope, b"content-length")
    if scope["method"] == "GET":
        names = [part.partition(b"=")[0] for part in scope["query_string"].split(b"&")]
        return length is None and len(names) == len(set(names))
    short = length is not None and length.isdigit() and int(length) <= BODY_MOST
    return short and _header(scope, b"content-type") == _JSON.decode()


def _header(scope: Scope, wanted: bytes) -> str | None:
    for name, value in scope["headers"]:
        if name == wanted:
            return str(value, "latin-1")
    return None


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """The body, and a way to receive it once more."""
    messages: list[Message] = []
    while True:
        messages.append(await receive())
        if messages[-1]["type"] != "http.request" or not messages[-1].get("more_body", False):
            break
    kept = iter(messages)

    async def again() -> Message:
        for message in kept:
            return message
        return await receive()

    return b"".join(message.get("body", b"") for message in messages), again
