"""The API as tables: a route is a method, a path, who may use it, and a handler."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from muster.api.access import Access
from muster.api.context import context
from muster.api.problems import MEDIA_TYPE
from muster.domain.errors import Forbidden

ROOT = "/api/v1"
Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Raw:
    """A body that is not JSON: what it is, and an example for the documentation."""

    media_type: str
    example: str


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    access: Access
    handler: Handler
    status: int = 200
    takes: Raw | None = None
    gives: Raw | None = None
    """Instead of the model that the handler returns."""
    workflows: bool = False
    """Whether a workflow that signed in by itself may use it, for what is its own."""


@dataclass(frozen=True, slots=True)
class Table:
    tag: str
    routes: tuple[Route, ...]
    root: str = ROOT


def mount(app: FastAPI, tables: Sequence[Table]) -> None:
    for table in tables:
        for route in table.routes:
            _mount(app, table, route)


def _mount(app: FastAPI, table: Table, route: Route) -> None:
    model = inspect.signature(route.handler).return_annotation
    modelled = isinstance(model, type) and issubclass(model, BaseModel)
    words = (inspect.getdoc(route.handler) or "").split("\n")
    app.router.add_api_route(
        table.root + route.path,
        route.handler,
        methods=[route.method],
        tags=[table.tag],
        status_code=route.status,
        summary=words[0].rstrip("."),
        description="\n".join([*words, "", f"Access: {route.access}."]).strip(),
        operation_id=f"{table.tag}_{route.handler.__name__}",
        response_model=model if modelled else None,
        response_class=JSONResponse if modelled else Response,
        route_class_override=_guarded(route),
        responses=_responses(route),
        openapi_extra=_extra(route),
    )


def _guarded(route: Route) -> type[APIRoute]:
    """Who is asking is settled before anything of what is asked is looked at."""

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def allowed(request: Request) -> Response:
                await _admit(request, route)
                return await handle(request)

            return allowed

    return Guarded


async def _admit(request: Request, route: Route) -> None:
    gate = context(request).gate
    shown = request.headers.get("authorization")
    access = route.access
    if access.role is not None:
        caller = await gate.caller(shown, access.role)
        if caller.confinement is not None and not route.workflows:
            raise Forbidden("cannot do this as a workflow: it may provision, release and follow its own runs")
        request.state.token, request.state.confinement = caller.token, caller.confinement
    elif access is Access.NODE:
        request.state.node_id = await gate.node(shown)


def _responses(route: Route) -> dict[int | str, dict[str, Any]]:
    problem = {
        "type": "urn:muster:problem:not_found",
        "title": "There is no such thing",
        "status": 404,
        "code": "not_found",
        "detail": "cannot find operation 'op-1'",
    }
    found: dict[int | str, dict[str, Any]] = {
        "default": {
            "description": "A problem (RFC 9457): what could not be done, why, and what to do.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": problem}},
        }
    }
    if route.gives is not None:
        found[route.status] = {
            "description": "Success",
            "content": {route.gives.media_type: {"example": route.gives.example}},
        }
    return found


def _extra(route: Route) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if route.access is not Access.PUBLIC:
        extra["security"] = [{"node" if route.access is Access.NODE else "token": []}]
    if route.takes is not None:
        content = {route.takes.media_type: {"example": route.takes.example}}
        extra["requestBody"] = {"required": True, "content": content}
    return extra
