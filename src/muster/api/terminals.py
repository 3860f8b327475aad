"""Relay between a person's terminal and the agent that serves it: two WebSockets, joined by a command's id.

The relay reads nothing of what passes, and keeps no byte. It reads a message from one side when the other
side took the one before. So a side that doesn't read stops its peer. Both ends number their bytes and make up
a broken connection between themselves. The relay tells them when they are paired.

The person's connection decides which replica relays. The agent tries its servers until it finds that one.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.types import Message, Receive, Send

from muster.domain.errors import TooManyShells
from muster.domain.ids import CommandId
from muster.ports.clock import Clock

NORMAL, RESTART, REPLACED, ALONE = 1000, 1012, 4001, 4002
"""Close codes: all is said; the server stops; a newer connection took the place; the other side is gone."""


class Socket:
    """One side of a terminal, once its handshake is done."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._closed = False

    async def messages(self) -> AsyncIterator[Message]:
        while (message := await self._receive())["type"] == "websocket.receive":
            yield message

    async def pass_on(self, message: Message) -> None:
        """Send what the other side sent. A side that is gone gets it once more when it is back."""
        kind = "bytes" if message.get("bytes") is not None else "text"
        await self._put({"type": "websocket.send", kind: message[kind]})

    async def say(self, **words: object) -> None:
        await self._put({"type": "websocket.send", "text": json.dumps(words)})

    async def close(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            with suppress(OSError):
                await self._send({"type": "websocket.close", "code": code})

    async def _put(self, message: Message) -> None:
        if self._closed:
            return
        try:
            await self._send(message)
        except OSError:
            self._closed = True


class Relay:
    """One terminal: a person, and an agent while there is one."""

    def __init__(self, person: Socket, clock: Clock) -> None:
        self.person = person
        self._clock = clock
        self.typed_at = clock.now()
        self._agent: Socket | None = None
        self._paired = asyncio.Event()

    async def serve_person(self) -> None:
        """Pass on what the person sends, until they go. While there is no agent, nothing more is read."""
        async for message in self.person.messages():
            if message.get("bytes") is not None:
                self.typed_at = self._clock.now()
            await self._paired.wait()
            if self._agent is not None:
                await self._agent.pass_on(message)

    async def serve_agent(self, agent: Socket) -> None:
        """Pass on what an agent sends, until it goes. A newer connection of it takes the place."""
        before, self._agent = self._agent, agent
        if before is not None:
            await before.close(REPLACED)
        await agent.say(paired=True)
        await self.person.say(paired=True)
        self._paired.set()
        try:
            async for message in agent.messages():
                await self.person.pass_on(message)
        finally:
            if self._agent is agent:
                self._agent = None
                self._paired.clear()
                await self.person.say(unpaired=True)

    async def end(self, *, ended: dict[str, object]) -> None:
        """Tell the person why it is over, and the agent to end the program."""
        await self.person.say(ended=ended)
        if self._agent is not None:
            await self._agent.say(leave=True)
        await self.close(NORMAL)

    async def close(self, code: int) -> None:
        await self.person.close(code)
        if self._agent is not None:
            await self._agent.close(ALONE)


class Terminals:
    """The terminals that this replica relays."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._open: dict[CommandId, Relay] = {}

    def __len__(self) -> int:
        return len(self._open)

    def check_room(self) -> None:
        """Raise TooManyShells if this server relays as many as it may."""
        if len(self._open) >= self._most:
            raise TooManyShells("this server", self._most)

    def find(self, command_id: CommandId) -> Relay | None:
        return self._open.get(command_id)

    @asynccontextmanager
    async def opened(self, command_id: CommandId, relay: Relay) -> AsyncIterator[None]:
        """Hold a place. A newer connection of the same person takes it over."""
        before = self._open.pop(command_id, None)
        self._open[command_id] = relay
        if before is not None:
            await before.close(REPLACED)
        try:
            yield
        finally:
            if self._open.get(command_id) is relay:
                del self._open[command_id]
            await relay.close(RESTART)
