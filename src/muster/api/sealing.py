"""What holds of every answer of the API: nobody keeps it, and nobody guesses what it is.

Answers are of this moment, and may hold what only the asker may see: a cache in between, or a browser's own
disk, is no place for them. An answer that says something else about itself keeps its words.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SEAL = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Sealed:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                said = [name.lower() for name, _ in headers]
                message["headers"] = headers + [each for each in SEAL if each[0] not in said]
            await send(message)

        await self._app(scope, receive, sealed)
