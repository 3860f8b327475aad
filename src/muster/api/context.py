"""What every handler can reach: the context of the server, and the parts of a request."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Any

from starlette.requests import Request

from muster.api.access import Authenticator, Credentials, Permit
from muster.api.beats import Beats
from muster.api.cookies import Cookies
from muster.api.feed_pages import FeedPages
from muster.api.files import FileStore
from muster.api.histories import Histories
from muster.api.metrics import Metrics
from muster.api.sign_in import SignInDesk
from muster.api.terminals import Terminals
from muster.domain.access import ApiToken
from muster.domain.command import ARCHIVE_BYTES_MAX
from muster.domain.diagnosis import Section
from muster.domain.ids import NodeId
from muster.domain.overview import Overview
from muster.domain.settings import Settings
from muster.enrolment.streams import Streams
from muster.operations.overview import OverviewReader
from muster.plane import ControlPlane, Ports
from muster.ports.identity import Confinement
from muster.ports.store import NodeView
from muster.ports.wakeups import Wakeups
from muster.single_flight import SingleFlight


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    data: Path
    """Where archives and results are kept."""
    settings: Settings = field(default_factory=Settings)
    remember_beats: float = 30.0
    """Seconds for which the store isn't asked again who beats. In that time another replica may take a node
    away."""
    body_most: int = 1 << 20
    blob_most: int = ARCHIVE_BYTES_MAX
    blobs_total: int = 4 << 30
    blob_hours: float = 24.0
    """An archive is needed until its commands have started; a day survives any queue."""
    keep_alive: float = 15.0
    """Seconds between signs of life on a silent stream: below the usual idle limit of proxies."""
    look_every: float = inf
    """Seconds after which a stream reads by itself: writes of other replicas may cause no wake-up here."""
    readable_within: float = 0.0
    """Seconds for which an event may not be readable yet after its wake-up came."""
    driving: Callable[[], bool] = _always
    """Whether the control plane behind this API still runs."""


SHUTDOWN = "shutdown"
"""The wake-up topic of a stop. Long answers listen to it and end by themselves."""


class Shutdown:
    """Records that the server stops, and wakes every long answer."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self.begun = False

    def begin(self) -> None:
        self.begun = True
        self._wakeups.notify(SHUTDOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    plane: ControlPlane
    ports: Ports
    settings: ApiSettings
    authenticator: Authenticator
    beats: Beats
    streams: Streams
    shutdown: Shutdown
    metrics: Metrics
    archives: FileStore
    results: FileStore
    consoles: SingleFlight[str, tuple[Section, float]]
    """Of nodes, by id: each with when it was read."""
    overviewing: OverviewReader
    looks: SingleFlight[str, Overview]
    pages: FeedPages
    terminals: Terminals
    histories: Histories
    sign_in: SignInDesk | None = None
    """None: people sign in with tokens alone."""
    cookies: Cookies | None = None
    """None likewise: no cookie counts."""

    async def overview(self) -> Overview:
        return await self.looks.get("", self.overviewing.look)

    async def overview_anew(self) -> Overview:
        """Return an overview that is newer than what the caller just did."""
        self.looks.forget("")
        return await self.overview()

    def now(self) -> float:
        return self.ports.clock.now()


class ApiRequest(Request):
    """A request, with who sent it: a node, or the holder of a token."""

    node_view: NodeView
    token: ApiToken
    confinement: Confinement | None

    @property
    def authorization(self) -> str | None:
        shown = (value for name, value in self.scope["headers"] if name == b"authorization")
        return next((value.decode("latin-1") for value in shown), None)

    def credentials(self, cookies: Cookies | None) -> Credentials:
        """Return what the request shows. Raises Forbidden for a session that another site makes use of."""
        shown = self.authorization
        if shown is None and cookies is not None:
            session = self.cookies.get(cookies.session)
            if session is not None:
                cookies.check(self.method, self.headers)
            return Credentials(session=session)
        return Credentials(authorization=shown)

    async def whole(self) -> bytes:
        """Read the body, which `BodyLimit` keeps short and hands on in one message."""
        message = await self.receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body", False):
            message = await self.receive()
            body += message.get("body", b"")
        return body


@dataclass(frozen=True, slots=True)
class FromRequest:
    """Marks a handler's parameter that any request has."""

    read: Callable[[Context, ApiRequest], Any]


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a handler's parameter that is a header."""

    name: str
    description: str = ""


def _permit(context: Context, request: ApiRequest) -> Permit:
    shown = request.credentials(context.cookies)
    return Permit(context.authenticator, shown, context.ports.clock)


Ctx = Annotated[Context, FromRequest(lambda context, _: context)]
RawRequest = Annotated[ApiRequest, FromRequest(lambda _, request: request)]
"""For handlers that read the body as a stream, or headers of their own."""
NodeCaller = Annotated[NodeView, FromRequest(lambda _, request: request.node_view)]
"""The node that speaks, as its token proved, with its operation."""
Node = Annotated[NodeId, FromRequest(lambda _, request: request.node_view.node.id)]
CallerConfinement = Annotated[Confinement | None, FromRequest(lambda _, request: request.confinement)]
"""What the caller is held to; None: only to its role."""
CallerToken = Annotated[ApiToken, FromRequest(lambda _, request: request.token)]
"""The token that was shown."""
CallerPermit = Annotated[Permit, FromRequest(_permit)]
"""For as long as the token that was shown is good."""
Key = Annotated[
    str | None,
    Header("Idempotency-Key", "Names the request: a repeat with the same key and body is the same request."),
]
LastEventId = Annotated[str | None, Header("Last-Event-ID", "Where to take the stream up.")]
