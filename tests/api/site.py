"""A server on a free loopback port, with a simulated cloud whose machines run agents that speak HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx

from muster.api import Api, ApiSettings, create_app
from muster.api.access import mint
from muster.api.connections import ConnectionLimits, bounded_protocol
from muster.api.metrics import Metrics, timed
from muster.api.server import HttpServer, bind, url_of
from muster.client import calls
from muster.discovery import installed
from muster.domain.access import Role
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec
from muster.integrations.external.provider import ExternalProvider
from muster.plane import ControlPlane, Ports
from muster.ports.commits import Written
from muster.ports.duties import Hook
from muster.ports.sign_in import SignInProvider
from muster.ports.wakeups import EVENTS
from muster.stores.announcements import announcer
from muster.stores.sql import SqlStore
from muster.stores.wakeups import LocalWakeups
from muster.system import SystemClock, SystemIds
from muster.wire.operations import Operation, Progress
from muster_simulation.arm import Arm, Paces, SimulatedClusters
from muster_simulation.cloud import Entry, SimulatedCloud, SimulatedProvider, SimulatedVerifier
from muster_simulation.cloud.provider import proof_of
from tests.harness.async_client import AsyncClient
from tests.stores.files import open_store
from tools.plain_http import NO_AUTHORITIES

AGENT = "/api/v1/agent"
PROMPT = Paces(create=0.3, pool=0.1, abort=0.1, delete=0.1, group_delete=0.1)
"""A simulated Azure that keeps no test waiting."""


class HttpAgent:
    """Does what it is told, at once. Its commands say hello and end with 0, unless they are held."""

    def __init__(self, url: str, machine_id: str, hold: asyncio.Event) -> None:
        self._http = httpx.AsyncClient(
            base_url=url + AGENT, timeout=40, trust_env=False, verify=NO_AUTHORITIES
        )
        self._machine_id = machine_id
        self._hold = hold
        self.node_id = ""
        self.token = ""
        self.environments: list[dict[str, str]] = []
        self._done: set[str] = set()

    async def live(self) -> None:
        async with self._http:
            desired = await self._join()
            desired = await self._say({"booted": True})
            while desired["directive"] != "stop":
                await self._follow(desired)
                query = {"known": desired["version"], "timeout": 20}
                answer = await self._http.get("/desired", params=query, headers=self._headers)
                if answer.status_code != 200:
                    return
                desired = answer.json()

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def _join(self) -> Any:
        said = {"proof": proof_of(self._machine_id), "key": f"key-of-{self._machine_id}", "boot_id": "boot-1"}
        answer = await self._http.post("/join", json=said)
        assert answer.status_code == 200, answer.text
        admitted = answer.json()
        self.node_id, self.token = admitted["node_id"], admitted["token"]
        beaten = await self._http.post("/beat", json={"activity": 1}, headers=self._headers)
        assert beaten.status_code == 200, beaten.text
        return admitted["desired"]

    async def _say(self, fact: dict[str, Any]) -> Any:
        answer = await self._http.post("/report", json=fact, headers=self._headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def _follow(self, desired: Any) -> None:
        assignment = desired["assignment_id"]
        if desired["directive"] == "attach":
            await self._say({"attached": assignment})
            for order in desired["commands"]:
                await self._execute(order)
        elif desired["directive"] == "detach":
            await self._say({"detached": assignment})

    async def _execute(self, order: Any) -> None:
        name = order["id"]
        if name in self._done:
            return
        if order["cancel"]:
            await self._state(name, {"state": "exited", "signal": 15})
            return
        self.environments.append(order["env"])
        await self._state(name, {"state": "running"})
        hello = f"hello from {order['env']['MUSTER_INDEX']}\n".encode()
        said = await self._http.post(
            f"/commands/{name}/output", params={"offset": 0}, content=hello, headers=self._headers
        )
        assert said.json() == {"offset": len(hello), "full": False}
        if self._hold.is_set():
            return
        if order["collect"]:
            path = f"/commands/{name}/artifact"
            await self._http.put(path, content=b"an archive", headers=self._headers)
        await self._state(name, {"state": "exited", "exit_code": 0})

    async def _state(self, name: str, state: dict[str, Any]) -> None:
        answer = await self._http.post(f"/commands/{name}/state", json=state, headers=self._headers)
        assert answer.status_code == 200, answer.text
        if state["state"] == "exited":
            self._done.add(name)


class Site:
    """Everything a test of the API reaches."""

    limits: ConnectionLimits
    """The server's connections."""

    def __init__(self, url: str, api: Api, store: SqlStore, cloud: SimulatedCloud, ports: Ports) -> None:
        self.url = url
        self.api = api
        self.store = store
        self.cloud = cloud
        self.ports = ports
        self.hold = asyncio.Event()
        """Set: commands start and do not end by themselves."""
        self.lazy = False
        """True: new machines have no agent."""
        self.agents: list[HttpAgent] = []
        self.secrets: dict[Role, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: list[AsyncClient | httpx.AsyncClient] = []

    # --- the cloud's machines ---------------------------------------------------------------------

    def made(self, entry: Entry) -> None:
        if self.lazy:
            return
        agent = HttpAgent(self.url, entry.machine_id, self.hold)
        self.agents.append(agent)
        self._tasks.append(asyncio.create_task(self._start(agent, entry.machine_id)))

    async def _start(self, agent: HttpAgent, machine_id: str) -> None:
        async def recorded() -> bool:
            return await self.store.node_by_machine("simulated", machine_id) is not None

        await self.until(recorded)
        await agent.live()

    def gone(self, entry: Entry) -> None: ...

    def acted(self, verb: str, subject: str, outcome: str) -> None: ...

    # --- the ways in ------------------------------------------------------------------------------

    def client(self, role: Role = Role.ADMIN) -> AsyncClient:
        made = AsyncClient(self.url, self.secrets[role])
        self._clients.append(made)
        return made

    def http(self, secret: str | None = None) -> httpx.AsyncClient:
        """Without the client's help. An empty secret: without a token."""
        shown = self.secrets[Role.ADMIN] if secret is None else secret
        headers = {"Authorization": f"Bearer {shown}"} if shown else {}
        made = httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=40, trust_env=False, verify=NO_AUTHORITIES
        )
        self._clients.append(made)
        return made

    async def template(self, name: str = "ci", **fields: Any) -> None:
        spec = TemplateSpec(name=name, provider="simulated", **fields)
        await self.store.apply_template(spec, now=self.ports.clock.now())

    async def provisioned(self, client: AsyncClient, count: int = 1, run: str = "run-1") -> Operation:
        asked = ProvisionRequest(template="ci", count=count, run=run)
        return await self.ended(client, await client.send(calls.provision(asked)))

    async def ended(self, client: AsyncClient, operation: Progress) -> Operation:
        async for _ in client.stream(calls.watch(operation.operation_id)):
            pass
        return await client.send(calls.operation(operation.operation_id))

    async def until(self, holds: Any) -> None:
        """Until a look at the server gives something true."""
        listener = self.ports.wakeups.listen((EVENTS,))
        async with asyncio.timeout(20):
            while not await holds():
                await listener.wait(0.2)
        listener.close()

    async def close(self) -> None:
        self.lazy = True  # the plane runs on for a moment, and may still make machines
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await (client.close() if isinstance(client, AsyncClient) else client.aclose())


@asynccontextmanager
async def opened(
    data: Path,
    *,
    hooks: Mapping[str, Hook] | None = None,
    sign_in: Callable[[str], SignInProvider] | None = None,
    **settings: Any,
) -> AsyncIterator[Site]:
    """`sign_in` makes the identity provider of a server that browsers reach at an address."""
    clock, ids, wakeups = SystemClock(), SystemIds(), LocalWakeups()
    metrics = Metrics(started_at=clock.now())
    announce = announcer(wakeups)
    apis: list[Api] = []

    def committed(written: Sequence[Written]) -> None:
        announce(written)
        for api in apis:
            api.saw(written)

    listener = bind("127.0.0.1", 0)
    store = open_store(data / "muster.db", ids=ids, after_commit=committed)
    cloud = SimulatedCloud(clock=clock, random=Random(1))
    installation = await store.installation()
    provider = SimulatedProvider(cloud, clock=clock, installation_id=installation.id)
    apps = ExternalProvider(store, clock, installation_id=installation.id, lost_after=300.0)

    azure = SimulatedClusters(Arm(clock.now, PROMPT), poll_every=0.05)

    def took(verb: str, seconds: float, error: Exception | None) -> None:
        metrics.took(verb, seconds, error, now=clock.now())

    ports = Ports(
        store=timed(store, took),
        commands=store.commands,
        access=store.access,
        overview=store.overview,
        clusters=store.clusters,
        jobs=store.jobs,
        messages=store.messages,
        outgoing=frozenset({"ops", "chat"}),
        clock=clock,
        ids=ids,
        wakeups=wakeups,
        providers={each.name: metrics.telemetry.watched(each, clock) for each in (provider, apps)},
        cluster_providers={azure.name: azure},
        template_parts=tuple(installed().template_tables.values()),
        request_parts=tuple(installed().request_tables.values()),
        verifier=SimulatedVerifier(cloud),
        hooks=(lambda _given: hooks or {},),
        sign_in=None if sign_in is None else sign_in(url_of(listener)),
    )
    plane = ControlPlane(ports, owner=ids.new("replica"), settings=settings.get("settings"))
    api = create_app(plane, ports, ApiSettings(data=data, **settings), metrics=metrics)
    apis.append(api)
    http = bounded_protocol()
    server = HttpServer(api, http, backlog=http.limits.backlog)
    site = Site(url_of(listener), api, store, cloud, ports)
    site.limits = http.limits
    cloud.watch(site)
    for role in Role:
        template = "web" if role is Role.ENROL else None
        minted = await mint(store.access, ids=ids, name=role, role=role, now=clock.now(), template=template)
        site.secrets[role] = minted[1]
    driving = asyncio.create_task(plane.run())
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.wait_until_open()
    try:
        yield site
    finally:
        await site.close()
        server.stop()
        await serving
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        await store.close()
        listener.close()
