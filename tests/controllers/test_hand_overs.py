"""Apps that say `starting` for ever, over plain HTTP: they are found to serve, and kept as long as they beat.

The requests are what any client sends; the server behind them runs in virtual time.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import httpx
import pytest

from muster.api import ApiSettings, create_app
from muster.api.access import mint
from muster.controllers.apps import HandOvers
from muster.controllers.deadlines import DeadlineSweep
from muster.domain.access import Role
from muster.domain.ids import NodeId
from muster.domain.template import EXTERNAL, Runtime, TemplateSpec
from muster.integrations.external.provider import ExternalProvider
from muster.operations.watch import WatchTracker
from muster.plane import ControlPlane
from muster_simulation.life import Life
from tests.harness import Harness, with_harness

HOUR = 3600.0
BEAT = 5.0
TICK = 10.0
ADDRESS = "http://10.0.0.5:8000/health"


class Probe:
    """Finds each app as the test says."""

    passing = False

    async def check(self, address: str) -> None: ...

    async def passes(self, address: str) -> bool:
        return self.passing


class ServedApp:
    """A server in virtual time, and one app that speaks to it by HTTP alone."""

    def __init__(self, harness: Harness, app: httpx.AsyncClient, viewer: httpx.AsyncClient) -> None:
        self.harness, self.app, self.viewer = harness, app, viewer
        self.probe = Probe()
        self.node_id = ""
        self.assignment = ""

    async def enrol(self, **said: Any) -> int:
        asked = {"key": "drawn-at-random-1", "boot_id": "boot-1", "name": "web-1", "beat_seconds": BEAT}
        answer = await self.app.post("/api/v1/agent/enrol", json=asked | said)
        if answer.status_code == 200:
            told = answer.json()
            self.node_id, self.assignment = told["node_id"], told["desired"]["assignment_id"]
            self.app = self._as(told["token"])
        return answer.status_code

    def _as(self, token: str) -> httpx.AsyncClient:
        transport = self.app._transport
        return httpx.AsyncClient(
            transport=transport, base_url="http://plane", headers={"Authorization": f"Bearer {token}"}
        )

    async def beats_for(self, seconds: float, **said: Any) -> None:
        for _ in range(round(seconds / BEAT)):
            answer = await self.app.post("/api/v1/agent/beat", json={"status": "starting"} | said)
            assert answer.status_code == 200, answer.text
            await self.harness.pass_time(BEAT)

    async def node(self) -> dict[str, Any]:
        answer = await self.viewer.get(f"/api/v1/nodes/{self.node_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def seen(self) -> tuple[str, str]:
        """Its state and its health."""
        found = await self.node()
        return found["state"], found["health"]


@asynccontextmanager
async def opened(harness: Harness, *, driven: bool = True, **fields: Any) -> AsyncIterator[ServedApp]:
    spec = TemplateSpec(name="web", provider=EXTERNAL, runtime=Runtime.SERVICE, **fields)
    await harness.store.apply_template(spec, now=harness.now)
    secrets = {
        role: (
            await mint(
                harness.store.access,
                ids=harness.ids,
                name=role,
                role=role,
                now=harness.now,
                template="web" if role is Role.ENROL else None,
            )
        )[1]
        for role in (Role.ENROL, Role.VIEWER)
    }
    installation = await harness.store.installation()
    apps = ExternalProvider(
        harness.store,
        harness.clock,
        installation_id=installation.id,
        lost_after=harness.settings.limits.lost_after,
    )
    probe = Probe()
    ports = replace(harness.ports, providers={**harness.ports.providers, apps.name: apps}, prober=probe)
    plane = ControlPlane(ports, owner="plane", settings=harness.settings)
    settings = ApiSettings(data=Path(gettempdir()), settings=harness.settings)
    transport = httpx.ASGITransport(app=create_app(plane, ports, settings))
    clients = [
        httpx.AsyncClient(
            transport=transport, base_url="http://plane", headers={"Authorization": f"Bearer {secret}"}
        )
        for secret in (secrets[Role.ENROL], secrets[Role.VIEWER])
    ]
    served = ServedApp(harness, *clients)
    served.probe = probe
    life = Life("plane")
    running = life.spawn(plane.run() if driven else plane.enrolment.heartbeats.run())
    yield served
    assert not running.done()
    life.kill()


@with_harness
async def test_an_app_that_says_starting_for_ever_is_ready_after_max_transition_and_runs_an_hour_later(
    harness: Harness,
) -> None:
    """The source's first two tests: rescued past the limit and not before, and never taken back."""
    async with opened(harness) as served:
        await served.enrol()
        limit = harness.settings.limits.max_transition
        await served.beats_for(limit - BEAT)
        assert await served.seen() == ("created", "starting")
        await served.beats_for(BEAT + 2 * TICK)
        promoted = await served.node()
        assert (promoted["state"], promoted["health"]) == ("running", "ready")
        assert (promoted["deadline_at"], promoted["assignment_id"]) == (None, served.assignment)
        assert promoted["run"] == "web-1" and promoted["operation_id"] is None
        await served.beats_for(5 * BEAT)
        assert await served.node() == promoted | {"last_seen_at": (await served.node())["last_seen_at"]}
        await served.beats_for(HOUR)
        assert await served.seen() == ("running", "ready")
        assert await harness.history(NodeId(served.node_id)) == ["adopt", "joined", "hand_over"]
        (handed,) = await harness.events(served.node_id, "hand_over")
        assert "heartbeats arrive, " in handed.detail


@with_harness
async def test_a_passed_probe_hands_a_starting_app_over_at_once(harness: Harness) -> None:
    """The source's third test."""
    async with opened(harness) as served:
        await served.enrol(address=ADDRESS)
        await served.beats_for(3 * TICK)
        assert await served.seen() == ("created", "starting")
        served.probe.passing = True
        await served.beats_for(3 * TICK)
        assert await served.seen() == ("running", "ready")
        assert harness.settings.limits.max_transition > 6 * TICK, "it was the probe"
        served.probe.passing = False
        await served.beats_for(2 * harness.settings.limits.stall_after)
        assert await served.seen() == ("running", "ready"), "a fresh heartbeat vetoes failed probes"


@pytest.mark.parametrize(
    ("said", "health"),
    [
        ({"status": "ready"}, "ready"),
        ({"status": "degraded"}, "degraded"),
        ({"status": "offline"}, "offline"),
    ],
)
def test_an_app_that_only_beats_is_kept_whatever_it_says(said: dict[str, str], health: str) -> None:
    @with_harness
    async def scenario(harness: Harness) -> None:
        async with opened(harness) as served:
            await served.enrol()
            await served.beats_for(harness.settings.limits.max_transition + 3 * TICK, **said)
            await served.beats_for(5 * BEAT)
            assert await served.seen() == ("running", health)

    scenario()


@with_harness
async def test_an_app_that_reports_half_of_its_start_is_kept_too(harness: Harness) -> None:
    async with opened(harness) as served:
        await served.enrol()
        assert (await served.app.post("/api/v1/agent/report", json={"booted": True})).status_code == 200
        await served.beats_for(2 * harness.settings.limits.stall_after)
        assert await served.seen() == ("running", "ready")


@with_harness
async def test_an_app_that_enrols_again_every_minute_in_the_same_boot_is_handed_over_all_the_same(
    harness: Harness,
) -> None:
    async with opened(harness) as served:
        new_enrolment = served.app
        for _ in range(3):
            served.app = new_enrolment
            assert await served.enrol() == 200
            await served.beats_for(60.0)
        assert await served.seen() == ("running", "ready")


@with_harness
async def test_an_app_that_says_starting_and_falls_silent_is_given_up_as_before(harness: Harness) -> None:
    async with opened(harness) as served:
        await served.enrol()
        limits = harness.settings.limits
        await harness.pass_time(limits.service_stale_after + 2 * TICK)
        assert await served.seen() == ("created", "offline"), "silence proves nothing"
        await harness.pass_time(limits.stall_after)
        found = await served.node()
        assert (found["state"], found["reason"]) == ("failed", "boot_stalled")


@with_harness
async def test_the_sweep_spares_an_app_that_serves_also_before_it_is_handed_over(harness: Harness) -> None:
    """The two duties know nothing of each other: the evidence alone keeps a timer from a living app."""
    async with opened(harness, driven=False) as served:
        await served.enrol()
        limits = harness.settings.limits
        watch_tracker = WatchTracker(harness.store, harness.clock, limits)
        sweep = DeadlineSweep(harness.ports, harness.settings, watch_tracker)
        for _ in range(int(limits.stall_after / BEAT) + 3):
            await watch_tracker.look()
            await served.beats_for(BEAT)
            await sweep.reconcile()
        assert (await served.node())["state"] == "created"
        await HandOvers(harness.ports, harness.settings).reconcile()
        assert (await served.node())["state"] == "running"
