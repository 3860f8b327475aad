"""What every handler can reach."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Header, Request

from muster.api.access import Gate, Permit
from muster.api.beats import Beats
from muster.api.closing import Closing
from muster.api.files import Shelf
from muster.api.metrics import Metrics
from muster.domain.access import ApiToken
from muster.domain.command import ARCHIVE_BYTES_MAX
from muster.domain.diagnosis import Section
from muster.domain.ids import NodeId
from muster.domain.overview import Overview
from muster.domain.settings import Settings
from muster.domain.trust import Confinement, Trust
from muster.operations.overviewing import Overviewing
from muster.operations.sharing import Shared
from muster.plane import ControlPlane, Ports


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    data: Path
    """Where archives and results are kept."""
    settings: Settings = field(default_factory=Settings)
    beat_seconds: float = 5.0
    """What nodes are told at their join."""
    remember_beats: float = 30.0
    """Seconds for which the store isn't asked again who beats: for so long another replica may take a node
    away unseen."""
    body_most: int = 1 << 20
    blob_most: int = ARCHIVE_BYTES_MAX
    blobs_total: int = 4 << 30
    blob_hours: float = 24.0
    """An archive is needed until its commands have started; a day survives any queue."""
    keep_alive: float = 15.0
    """Seconds between signs of life on a silent stream: below the usual idle limit of proxies."""
    look_every: float = inf
    """Seconds after which a stream looks by itself: what other replicas write may wake nobody here."""
    trust: Sequence[Trust] = ()
    """Which workflows may sign in by themselves."""
    driving: Callable[[], bool] = _always
    """Whether the control plane behind this API still runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    plane: ControlPlane
    ports: Ports
    settings: ApiSettings
    gate: Gate
    beats: Beats
    closing: Closing
    metrics: Metrics
    archives: Shelf
    results: Shelf
    consoles: Shared[tuple[Section, float]]
    """Of nodes, by id: each with when it was read."""
    overviewing: Overviewing
    looks: Shared[Overview]

    async def overview(self) -> Overview:
        return await self.looks.get("", self.overviewing.look)

    def now(self) -> float:
        return self.ports.clock.now()


def context(request: Request) -> Context:
    found = request.app.state.context
    assert isinstance(found, Context)  # noqa: S101 — create_app put it there
    return found


async def _here(request: Request) -> Context:
    """Awaited, not called: the framework would run a plain function in a thread of its own."""
    return context(request)


async def _node(request: Request) -> NodeId:
    return NodeId(request.state.node_id)


async def _caller(request: Request) -> ApiToken:
    found = request.state.token
    assert isinstance(found, ApiToken)  # noqa: S101 — the route's guard put it there
    return found


async def _confinement(request: Request) -> Confinement | None:
    found = request.state.confinement
    assert found is None or isinstance(found, Confinement)  # noqa: S101 — likewise
    return found


async def _permit(request: Request) -> Permit:
    here = context(request)
    return Permit(here.gate, request.headers.get("authorization"), here.ports.clock)


Here = Annotated[Context, Depends(_here)]
Node = Annotated[NodeId, Depends(_node)]
"""The node that speaks, as its token proved."""
Held = Annotated[Confinement | None, Depends(_confinement)]
"""What the caller is held to; None: only to its role."""
Caller = Annotated[ApiToken, Depends(_caller)]
"""The token that was shown."""
Permitted = Annotated[Permit, Depends(_permit)]
"""For as long as the token that was shown is good."""
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Names the request: a repeat with the same key and body is the same request.",
    ),
]
