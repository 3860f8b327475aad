"""The simulated Azure over HTTP, on loopback, for the real SDKs. Paths match as Azure's do: case aside."""

import asyncio
import queue
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from muster_simulation.arm import wire
from muster_simulation.arm.faults import ArmError, Verb, error
from muster_simulation.arm.resources import Arm, ArmOperation

_SUBSCRIPTION = r"/subscriptions/(?P<subscription>[^/]+)"
_GROUP = _SUBSCRIPTION + r"/resourcegroups/(?P<group>[^/]+)"
_AKS = r"/providers/Microsoft\.ContainerService"
_CLUSTER = _GROUP + _AKS + r"/managedClusters/(?P<name>[^/]+)"
_ASSIGNMENT = r"(?P<scope>/.+?)/providers/Microsoft\.Authorization/roleAssignments/(?P<name>[^/]+)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request, taken apart."""

    path: str
    base: str
    parts: dict[str, str]
    body: dict[str, Any]
    only_if_missing: bool


_Met = tuple[re.Match[str], Verb, Callable[[_Asked], web.Response]]


class ArmServer:
    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        answers: tuple[tuple[str, str, Verb, Callable[[_Asked], web.Response]], ...] = (
            ("GET", _GROUP, Verb.GET_GROUP, self._get_group),
            ("PUT", _GROUP, Verb.PUT_GROUP, self._put_group),
            ("DELETE", _GROUP, Verb.DELETE_GROUP, self._delete_group),
            ("GET", _GROUP + "/resources", Verb.LIST_GROUP, self._list_group),
            ("GET", _CLUSTER, Verb.GET_CLUSTER, self._get_cluster),
            ("GET", _SUBSCRIPTION + _AKS + "/managedClusters", Verb.LIST_CLUSTERS, self._list_clusters),
            ("PUT", _CLUSTER, Verb.PUT_CLUSTER, self._put_cluster),
            ("DELETE", _CLUSTER, Verb.DELETE_CLUSTER, self._delete_cluster),
            ("POST", _CLUSTER + "/abort", Verb.ABORT, self._abort),
            (
                "GET",
                _SUBSCRIPTION + _AKS + r"/locations/[^/]+/operations/(?P<id>[^/]+)",
                Verb.POLL,
                self._poll,
            ),
            ("PUT", _ASSIGNMENT, Verb.PUT_ASSIGNMENT, self._put_assignment),
            ("DELETE", _ASSIGNMENT, Verb.DELETE_ASSIGNMENT, self._delete_assignment),
        )
        self._answers = [
            (method, re.compile(path, re.IGNORECASE), verb, answer) for method, path, verb, answer in answers
        ]

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[str]:
        """Gives the endpoint."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            host, bound = runner.addresses[0][:2]
            yield f"http://{host}:{bound}"
        finally:
            await runner.cleanup()

    @contextmanager
    def in_a_thread(self) -> Iterator[str]:
        """Listens for as long as the block lasts, whatever the caller does in the meantime."""
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()
        endpoints: queue.SimpleQueue[str] = queue.SimpleQueue()

        async def serve() -> None:
            async with self.listening() as endpoint:
                endpoints.put(endpoint)
                await stop.wait()

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
        thread.start()
        try:
            yield endpoints.get(timeout=10.0)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        met = self._met(request)
        if met is None:
            return _refused(error(404, "InvalidResourceType", f"There is nothing at {request.path}."))
        found, verb, answer = met
        asked = _Asked(
            path=request.path,
            base=str(request.url.origin()),
            parts=found.groupdict(),
            body=await request.json() if request.can_read_body else {},
            only_if_missing=request.headers.get("If-None-Match") == "*",
        )
        return await self._act(request, verb, lambda: answer(asked))

    def _met(self, request: web.Request) -> _Met | None:
        for method, path, verb, answer in self._answers:
            found = path.fullmatch(request.path) if request.method == method else None
            if found is not None:
                return found, verb, answer
        return None

    async def _act(
        self, request: web.Request, verb: Verb, act: Callable[[], web.Response]
    ) -> web.StreamResponse:
        self._arm.calls.append(verb)
        fault = self._arm.faults.meet(verb)
        try:
            if fault is None:
                return act()
            if fault.loses:
                act()
            if fault.hangs:
                await asyncio.sleep(fault.hangs)
            if fault.problem is not None:
                return _refused(ArmError(fault.problem))
            if fault.loses and request.transport is not None:
                request.transport.close()
                return web.Response()
            return act()
        except ArmError as refusal:
            return _refused(refusal)

    # --- resource groups --------------------------------------------------------------------------

    def _get_group(self, asked: _Asked) -> web.Response:
        return web.json_response(wire.group(self._arm.get_group(asked.parts["group"]), asked.path))

    def _put_group(self, asked: _Asked) -> web.Response:
        name = asked.parts["group"]
        new = self._arm.put_group(name, str(asked.body["location"]), asked.body.get("tags") or {})
        found = self._arm.groups[name.lower()]
        return web.json_response(wire.group(found, asked.path), status=201 if new else 200)

    def _list_group(self, asked: _Asked) -> web.Response:
        ids = self._arm.list_group(asked.parts["group"])
        return web.json_response({"value": [{"id": each, "name": each.rpartition("/")[2]} for each in ids]})

    def _delete_group(self, asked: _Asked) -> web.Response:
        if not self._arm.delete_group(asked.parts["group"]):
            raise error(404, "ResourceGroupNotFound", f"There is no group {asked.parts['group']}.")
        return web.Response(status=202, headers={"Location": f"{asked.base}{asked.path}"})

    # --- clusters ---------------------------------------------------------------------------------

    def _get_cluster(self, asked: _Asked) -> web.Response:
        found = self._arm.get_cluster(asked.parts["group"], asked.parts["name"])
        return web.json_response(wire.cluster(found, asked.path, self._arm.now()))

    def _list_clusters(self, asked: _Asked) -> web.Response:
        now, root = self._arm.now(), f"/subscriptions/{asked.parts['subscription']}/resourceGroups"
        found = [
            wire.cluster(each, f"{root}/{each.group}/providers/{wire.TYPE}/{each.name}", now)
            for each in self._arm.list_clusters()
        ]
        return web.json_response({"value": found})

    def _put_cluster(self, asked: _Asked) -> web.Response:
        made = self._arm.put_cluster(
            asked.parts["group"],
            asked.parts["name"],
            wire.asked(asked.body),
            only_if_missing=asked.only_if_missing,
        )
        now = self._arm.now()
        at_once = made.operation.ends_at <= now
        headers = {} if self._arm.headerless or at_once else self._followed(asked, made.operation)
        body = wire.cluster(made, asked.path, now)
        return web.json_response(body, status=200 if at_once else 201, headers=headers)

    def _delete_cluster(self, asked: _Asked) -> web.Response:
        work = self._arm.delete_cluster(asked.parts["group"], asked.parts["name"])
        if work is None:
            return web.Response(status=204)
        return web.Response(status=202, headers=self._followed(asked, work))

    def _abort(self, asked: _Asked) -> web.Response:
        work = self._arm.abort(asked.parts["group"], asked.parts["name"])
        return web.Response(status=202, headers=self._followed(asked, work))

    def _poll(self, asked: _Asked) -> web.Response:
        return web.json_response(wire.operation(self._arm.poll(asked.parts["id"]), self._arm.now()))

    def _followed(self, asked: _Asked, work: ArmOperation) -> dict[str, str]:
        where = f"/subscriptions/{asked.parts['subscription']}/providers/Microsoft.ContainerService"
        url = f"{asked.base}{where}/locations/here/operations/{work.id}"
        return {"Azure-AsyncOperation": url}

    # --- roles ------------------------------------------------------------------------------------

    def _put_assignment(self, asked: _Asked) -> web.Response:
        found = self._arm.put_assignment(wire.wanted(asked.body, asked.parts["name"], asked.parts["scope"]))
        return web.json_response(wire.assignment(found), status=201)

    def _delete_assignment(self, asked: _Asked) -> web.Response:
        found = self._arm.assignments.get(asked.parts["name"])
        if not self._arm.delete_assignment(asked.parts["name"]) or found is None:
            return web.Response(status=204)
        return web.json_response(wire.assignment(found))


def _refused(refusal: ArmError) -> web.Response:
    problem = refusal.problem
    headers = {} if problem.retry_after is None else {"Retry-After": f"{problem.retry_after:g}"}
    return web.json_response(wire.error(problem), status=problem.status, headers=headers)
