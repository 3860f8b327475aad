"""All hosts of the inventory: a session to each, opened when it is needed, and which of them are away.

A host that can't be reached is left in peace for a few seconds: its callers hear at once that it is away.
"""

import asyncio
import logging
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from muster.domain.errors import InvalidRequest, Uncertain
from muster.integrations.ssh import bundle
from muster.integrations.ssh.command import Ssh
from muster.integrations.ssh.inventory import Host, Inventory
from muster.integrations.ssh.session import Lost, NotOpened, Refused, Session, explained, run

logger = logging.getLogger(__name__)
T = TypeVar("T")
RETRY = 5.0
"""Seconds for which a host that couldn't be reached isn't tried again."""
LOOK_WITHIN = 10.0
STARTING = 4.0
"""Seconds beyond the connection that Python on a host may take to start."""


SSH_FAILED = 255
ENDING = 2.0
WITHIN = 10.0


class Away(Uncertain):
    """A host can't be reached, and wasn't asked."""

    def __init__(self, host: str, why: str) -> None:
        self.host = host
        self.why = why
        super().__init__(f"cannot reach host {host}: {why}")


class RemoteHost:
    """One host and its session."""

    def __init__(self, host: Host, ssh: Ssh, *, installation_id: str, connect_within: float) -> None:
        self.host = host
        self._ssh = ssh
        self._installation_id = installation_id
        self._within = connect_within
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._away: Away | None = None
        self._retry_at = 0.0
        self.tunnel: Tunnel | None = None

    @property
    def name(self) -> str:
        return self.host.name

    async def ask(self, verb: str, *, within: float = LOOK_WITHIN, again: bool = True, **fields: Any) -> Any:
        """`again`: whether the request may be repeated in a new session if this one is lost.

        Raises Away (it wasn't asked), Uncertain (it may have been done), or session.Refused.
        """
        session = await self._opened()
        try:
            return await session.ask(verb, within=within, **fields)
        except Lost as error:
            if not again:
                raise Uncertain(f"host {self.name} gave no answer to {verb}: {error}") from error
        session = await self._opened()
        try:
            return await session.ask(verb, within=within, **fields)
        except Lost as error:
            raise Uncertain(f"host {self.name} gave no answer to {verb}: {error}") from error

    async def _opened(self) -> Session:
        async with self._opening:
            if self._session is not None and self._session.usable:
                return self._session
            if self._away is not None and time.monotonic() < self._retry_at:
                raise self._away
            await self._leave()
            try:
                self._session = await self._open()
            except NotOpened as error:
                why = await self._hop() or str(error)
                self._note(why)
                self._away = Away(self.name, why)
                self._retry_at = time.monotonic() + RETRY
                raise self._away from error
            if self._away is not None:
                logger.info("the host is back", extra={"provider": "ssh", "host": self.name})
                self._away = None
            return self._session

    async def _open(self) -> Session:
        mine = self.host.settings
        command = f"exec {mine.python} -I -S -c {shlex.quote(bundle.COMMAND)}"
        within = self._within * (1 + bool(mine.jump)) + STARTING
        session = await Session.open(
            self.name,
            self._ssh.argv(self.host, command),
            within=within,
            directory=mine.directory,
            installation_id=self._installation_id,
        )
        if self.tunnel is not None:
            try:
                await self.tunnel.hold(session)
            except NotOpened:
                await session.close()
                raise
        return session

    async def _hop(self) -> str:
        """What is wrong with the way, hop by hop: ssh hides it behind the host's own failure."""
        for hop in self._ssh.way(self.host):
            code, _, words = await run(self._ssh.argv(hop, "true"), within=self._within)
            if code in (None, SSH_FAILED):
                return f"its way leads through {hop.name}: {explained(hop.name, words, code)}"
        return ""

    def _note(self, why: str) -> None:
        if self._away is None or self._away.why != why:
            logger.warning("cannot reach a host: %s", why, extra={"provider": "ssh", "host": self.name})

    async def _leave(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            if session.stuck:
                # Its master may hold the same dead line for a while; a new one gets a new line.
                await self._end_master(self.host)

    async def close(self) -> None:
        """End the session and ssh's master. What runs on the host stays."""
        if self._session is not None:
            await self._leave()
            for host in (self.host, *self._ssh.way(self.host)):
                await self._end_master(host)

    async def _end_master(self, host: Host) -> None:
        await run(self._ssh.control(host, "exit"), within=ENDING)


class Hosts:
    def __init__(self, inventory: Inventory, data: Path, *, installation_id: str) -> None:
        self.inventory = inventory
        self.ssh = Ssh(inventory, data)
        within = inventory.settings.connect_timeout
        self.remotes = {
            host.name: RemoteHost(host, self.ssh, installation_id=installation_id, connect_within=within)
            for host in inventory.hosts.values()
        }

    @property
    def serving(self) -> list[RemoteHost]:
        """Those that have slots, in the order of the settings."""
        return [remote for remote in self.remotes.values() if remote.host.slots]

    async def ask_each(
        self, remotes: Iterable[RemoteHost], ask: Callable[[RemoteHost], Awaitable[T]]
    ) -> tuple[dict[str, T], dict[str, Uncertain]]:
        """Ask hosts in parallel: their answers, and those that gave none."""
        asked = list(remotes)
        found = await asyncio.gather(*(ask(remote) for remote in asked), return_exceptions=True)
        answers: dict[str, T] = {}
        missing: dict[str, Uncertain] = {}
        for remote, each in zip(asked, found, strict=True):
            if isinstance(each, Uncertain):
                missing[remote.name] = each
            elif isinstance(each, BaseException):
                raise each
            else:
                answers[remote.name] = each
        return answers, missing

    async def close(self) -> None:
        await asyncio.gather(*(remote.close() for remote in self.remotes.values()))
        self.ssh.leave()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """The way back for a host that can't reach the server: a port of its loopback that leads to the server.

    The port is fixed, because an agent learns where the server is once, at its start. The tunnel hangs on
    this server's connection: while that is cut, the host's nodes are silent.
    """

    host: Host
    ssh: Ssh
    server: str
    """Where this machine reaches the server."""

    def __post_init__(self) -> None:
        if urlsplit(self.server).scheme != "http":
            rule = (
                f"can't lead to {self.server}: behind a tunnel TLS doesn't find its name; give the host a way"
                " to the server, or let the server listen on loopback without TLS"
            )
            raise InvalidRequest(f"[hosts.{self.host.name}] tunnel", self.host.settings.tunnel, rule)

    @property
    def url(self) -> str:
        """Where the host reaches the server."""
        return f"http://127.0.0.1:{self.host.settings.tunnel}"

    async def hold(self, session: Session) -> None:
        """Have ssh's master forward the port. Raises NotOpened if the host can't reach the server then."""
        parts = urlsplit(self.server)
        target = f"{parts.hostname}:{parts.port or 80}"
        forward = f"127.0.0.1:{self.host.settings.tunnel}:{target}"
        argv = self.ssh.control(self.host, "forward", "-R", forward)
        code, _, words = await run(argv, within=WITHIN)
        # Another replica's tunnel may have the port, and is as good.
        try:
            told = await session.ask("facts", within=WITHIN, urls=[self.url])
        except (Lost, Refused) as error:
            raise NotOpened(str(error)) from error
        why = told["reached"][self.url]
        if why:
            cause = words.strip().rpartition("\n")[2] or f"ssh ended with {code}"
            raise NotOpened(
                f"its port {self.host.settings.tunnel} doesn't lead to the server: {why} ({cause})"
            )
