"""Compose the API: the hot paths in front, the page, the limits, then the tables of routes."""

from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from muster.api import agent_stream, beats
from muster.api.access import Authenticator
from muster.api.beats import Beats
from muster.api.context import ApiSettings, Context, Shutdown
from muster.api.cookies import Cookies
from muster.api.dashboard import Dashboard
from muster.api.feed_pages import FeedPages
from muster.api.files import FileStore
from muster.api.histories import Histories
from muster.api.metrics import Metrics
from muster.api.middleware import BodyLimit, DefaultHeaders, QueryLimit
from muster.api.router import ROOT, Application
from muster.api.routes import TABLES
from muster.api.sign_in import SignInDesk
from muster.api.terminal_sockets import TerminalSockets
from muster.api.terminals import Terminals
from muster.operations.overview import OverviewReader
from muster.plane import ControlPlane, Ports
from muster.ports.commits import Written
from muster.single_flight import SingleFlight

__all__ = ["Api", "ApiSettings", "create_app"]

HOUR = 3600.0
REMEMBER_OVERVIEW = 1.0
REMEMBER_CONSOLE = 5.0
"""A page that stays open asks often; the provider is asked seldom."""
_STREAMED = (("PUT", f"{ROOT}/blobs", ""), ("PUT", f"{ROOT}/agent/commands/", "/artifact"))
_AGENT = f"{ROOT}/agent/"
_ASKED = ("join", "enrol", "report", "kit", "desired", "stream", "blobs", "commands")
_RAW = (("POST", f"{ROOT}/agent/commands/", "/output"),)


class Api:
    """The ASGI application. `saw` takes each write of this process; `close` ends what would go on."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.application = Application(context, TABLES)
        self._streams = agent_stream.AgentStreams(context)
        bounded = BodyLimit(self.application, most=context.settings.body_most, streamed=_STREAMED, raw=_RAW)
        self._others = DefaultHeaders(QueryLimit(Dashboard(bounded)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = (scope["method"], scope["path"]) if scope["type"] == "http" else None
        if asked == ("POST", beats.PATH):
            await self.context.beats(scope, receive, send)
        elif scope["type"] == "websocket":
            self._count(scope)
            await TerminalSockets(self.context)(scope, receive, send)
        elif asked == ("GET", agent_stream.PATH):
            await self._streams(scope, receive, send)
        else:
            self._count(scope)
            await self._others(scope, receive, send)

    def _count(self, scope: Scope) -> None:
        asked = str(scope.get("path", ""))
        if asked.startswith(_AGENT):
            what = asked.removeprefix(_AGENT).partition("/")[0]
            self.context.metrics.agents.add(what=what if what in _ASKED else "other")

    def saw(self, written: Sequence[Written]) -> None:
        drafts = tuple(each.draft for each in written)
        self.context.beats.saw(drafts)
        self.context.histories.saw(written)
        self.context.metrics.saw(drafts)

    def close(self) -> None:
        self.context.shutdown.begin()

    async def closed(self, within: float) -> None:
        """Wait until the agents' streams have ended, of which the HTTP server knows nothing any more."""
        await self._streams.ended(within)


def create_app(
    plane: ControlPlane, ports: Ports, settings: ApiSettings, *, metrics: Metrics | None = None
) -> Api:
    """Compose the API of one replica.

    A caller that gives `metrics` passes every write to `saw`. Only then are beats answered from memory.
    """
    told = metrics is not None
    gathered = metrics or Metrics(started_at=ports.clock.now())
    overviewing = OverviewReader(
        ports,
        settings.settings,
        gathered.telemetry,
        owner=plane.owner,
        duties=[(duty.name, duty.every) for duty in plane.duties],
        since=gathered.started_at,
    )
    context = Context(
        plane=plane,
        ports=ports,
        settings=settings,
        authenticator=Authenticator(
            ports.access,
            plane.enrolment,
            ports.clock,
            federation=ports.federation,
            sign_in=ports.sign_in,
        ),
        beats=Beats(
            plane.enrolment,
            ports.clock,
            remember=settings.remember_beats if told else 0.0,
            unwritable=lambda: gathered.unwritable,
        ),
        streams=plane.enrolment.streams,
        shutdown=Shutdown(ports.wakeups),
        metrics=gathered,
        archives=_shelf(settings, "blobs", "archive", settings.blob_hours * HOUR),
        results=_shelf(settings, "artifacts", "result", settings.settings.retention),
        overviewing=overviewing,
        looks=SingleFlight(ports.clock, keep=REMEMBER_OVERVIEW),
        consoles=SingleFlight(ports.clock, keep=REMEMBER_CONSOLE),
        pages=FeedPages(ports.store),
        terminals=Terminals(most=settings.settings.shells.per_server),
        histories=Histories(ports.store, ports.clock),
        sign_in=_sign_in(ports),
        cookies=None if ports.sign_in is None else Cookies(ports.sign_in.home),
    )
    return Api(context)


def _sign_in(ports: Ports) -> SignInDesk | None:
    if ports.sign_in is None:
        return None
    return SignInDesk(ports.sign_in, ports.access, ports.store, ports.clock, ports.ids)


def _shelf(settings: ApiSettings, directory: str, what: str, keep: float) -> FileStore:
    return FileStore(
        settings.data / directory,
        what=what,
        most=settings.blob_most,
        total=settings.blobs_total,
        keep=keep,
    )
