"""Puts the API together: the hot paths in front, the page, bounds, then the framework with its tables."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

import muster
from muster.api import beats, problems
from muster.api.access import Gate
from muster.api.beats import Beats
from muster.api.bounds import Bounds
from muster.api.closing import Closing
from muster.api.context import ApiSettings, Context
from muster.api.dashboard import Dashboard
from muster.api.files import Shelf
from muster.api.metrics import Metrics
from muster.api.routes import TABLES
from muster.api.routing import ROOT, mount
from muster.api.sealing import Sealed
from muster.api.shortcut import Shortcut
from muster.domain.events import Draft
from muster.operations.overviewing import Overviewing
from muster.operations.sharing import Shared
from muster.plane import ControlPlane, Ports

__all__ = ["Api", "ApiSettings", "create_app"]

HOUR = 3600.0
REMEMBER_OVERVIEW = 1.0
REMEMBER_CONSOLE = 5.0
"""A page that stays open asks often; the provider is asked seldom."""
_STREAMED = (("PUT", f"{ROOT}/blobs", ""), ("PUT", f"{ROOT}/agent/commands/", "/artifact"))
_RAW = (("POST", f"{ROOT}/agent/commands/", "/output"),)
PROBLEM_SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "What to branch on."},
        "detail": {"type": "string", "description": "What could not be done, why, and what to do."},
        "field": {"type": "string"},
        "value": {"description": "What was sent there, if it can be shown."},
        "rule": {"type": "string"},
    },
}


class Api:
    """The ASGI application. `saw` takes each write of this process; `close` ends what would go on."""

    def __init__(self, framework: FastAPI, context: Context) -> None:
        self.framework = framework
        self.context = context
        self._beats = context.beats
        bounded = Bounds(framework, most=context.settings.body_most, streamed=_STREAMED, raw=_RAW)
        self._others = Shortcut(context, otherwise=Dashboard(Sealed(bounded)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == beats.PATH and scope["method"] == "POST":
            await self._beats(scope, receive, send)
        else:
            await self._others(scope, receive, send)

    def saw(self, drafts: Iterable[Draft]) -> None:
        taken = tuple(drafts)
        self._beats.saw(taken)
        self.context.metrics.saw(taken)

    def close(self) -> None:
        self.context.closing.begin()


def create_app(
    plane: ControlPlane, ports: Ports, settings: ApiSettings, *, metrics: Metrics | None = None
) -> Api:
    """`metrics` is given by a caller that also passes every write to `saw`; only then may beats be answered
    from memory."""
    told = metrics is not None
    gathered = metrics or Metrics(started_at=ports.clock.now())
    overviewing = Overviewing(
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
        gate=Gate(
            ports.access,
            plane.enrolment,
            ports.clock,
            federation=ports.federation,
            trust=settings.trust,
        ),
        beats=Beats(
            plane.enrolment,
            ports.clock,
            remember=settings.remember_beats if told else 0.0,
            unwritable=lambda: gathered.unwritable,
        ),
        closing=Closing(ports.wakeups),
        metrics=gathered,
        archives=_shelf(settings, "blobs", "archive", settings.blob_hours * HOUR),
        results=_shelf(settings, "artifacts", "result", settings.settings.retention),
        overviewing=overviewing,
        looks=Shared(ports.clock, keep=REMEMBER_OVERVIEW),
        consoles=Shared(ports.clock, keep=REMEMBER_CONSOLE),
    )
    return Api(_framework(context), context)


def _shelf(settings: ApiSettings, directory: str, what: str, keep: float) -> Shelf:
    return Shelf(
        settings.data / directory,
        what=what,
        most=settings.blob_most,
        total=settings.blobs_total,
        keep=keep,
    )


def _framework(context: Context) -> FastAPI:
    app = FastAPI(
        title="Muster",
        summary="A control plane that hands out ready compute",
        version=muster.__version__,
        docs_url=None,  # the page would be fetched from elsewhere
        redoc_url=None,
        # Nothing leaves this process unless we send it.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.context = context
    problems.install(app)
    mount(app, TABLES)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    made = app.openapi

    def described() -> dict[str, Any]:
        schema = made()
        parts = schema.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = dict(PROBLEM_SCHEMA)
        parts["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "An API token."},
            "node": {"type": "http", "scheme": "bearer", "description": "A node's own token."},
        }
        for path in schema.get("paths", {}).values():
            for operation in path.values():
                # Every refusal is a problem, which `default` describes.
                operation.get("responses", {}).pop("422", None)
        return schema

    app.openapi = described  # type: ignore[method-assign]  # how FastAPI asks to be extended
