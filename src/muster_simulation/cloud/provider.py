"""The NodeProvider that a replica uses to reach the simulated cloud, and its proofs of identity.

Holds nothing but the way there. A proof names the machine that made it and is checked against the ledger. So
no machine can claim to belong to another launch or installation.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from muster.domain.errors import Forbidden
from muster.domain.reasons import Reason
from muster.ports.clock import Clock
from muster.ports.identity import Identity
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine
from muster_simulation.cloud.cloud import SimulatedCloud

T = TypeVar("T")
Calls = Callable[[str, Sequence[str]], None]
"""Told about each call as it leaves: its verb, and the token or machines it is about."""
_SCHEME = "simulated:"


def _ignore(verb: str, subjects: Sequence[str]) -> None:
    """Ignore events: the listener of a provider without listeners."""


class SimulatedProvider:
    name = "simulated"

    def __init__(
        self,
        cloud: SimulatedCloud,
        *,
        clock: Clock,
        installation_id: str,
        page: int = 50,
        on_call: Calls = _ignore,
    ) -> None:
        self.visibility_window = cloud.visibility_window
        self.call_timeout = cloud.call_timeout
        self.makes_way = frozenset({Reason.CAPACITY})
        self._cloud = cloud
        self._clock = clock
        self._installation_id = installation_id
        self._page = page
        self._on_call = on_call

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        sent_at = self._clock.now()
        self._on_call("launch", (request.token,))
        return await self._call(lambda: self._cloud.launch(request, sent_at=sent_at))

    async def find(self, token: str) -> Sequence[Machine]:
        return await self._call(lambda: self._cloud.find(token))

    async def list(self) -> AsyncIterator[Machine]:
        after = ""
        while True:
            page = await self._call(lambda after=after: self._list(after))  # type: ignore[misc]  # no hint in a lambda
            for machine in page:
                yield machine
            if len(page) < self._page:
                return
            after = page[-1].id

    def _list(self, after: str) -> Sequence[Machine]:
        return self._cloud.list(self._installation_id, after=after, limit=self._page)

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        asked = tuple(machine_ids)
        return await self._call(lambda: self._cloud.describe(asked))

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        return await self._call(lambda: self._cloud.console(machine_id, lines=lines))

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        asked = tuple(machine_ids)
        self._on_call("terminate", asked)
        await self._call(lambda: self._cloud.terminate(asked))

    async def _call(self, act: Callable[[], T]) -> T:
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._cloud.send(act, reply)
        return await reply


def proof_of(machine_id: str) -> str:
    """What a machine shows to prove who it is."""
    return f"{_SCHEME}{machine_id}"


class SimulatedVerifier:
    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud

    async def verify(self, proof: str) -> Identity:
        entry = self._cloud.ledger.get(proof.removeprefix(_SCHEME))
        if entry is None or not proof.startswith(_SCHEME):
            raise Forbidden("cannot accept the proof: no machine of this cloud made it")
        return Identity(
            installation_id=entry.installation_id,
            provider="simulated",
            machine_id=entry.machine_id,
            token=entry.token,
        )
