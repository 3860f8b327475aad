"""Probes among the duties: they decide how a silent service feels, and nothing waits for the dead."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from muster.controllers.apps import AT_ONCE, ServiceProbes
from muster.domain.app import App
from muster.domain.health import PROBE_FAILURES, Health
from muster.domain.ids import NodeId
from muster.enrolment.reports import Report
from muster.sdk.membership import RETRY_MOST
from tests.controllers.test_apps import BEAT, Apps
from tests.harness import Harness, with_harness


class Scripted:
    """Services by their address: those that answer, and those that only take their time."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.down: dict[str, bool] = {}
        self.stuck: set[str] = set()
        """They answer nothing, and their probes outstay their time."""
        self.asked: list[tuple[str, float]] = []
        self.most = 0
        self._now = 0

    async def check(self, url: str) -> None:
        return None

    async def passes(self, url: str) -> bool:
        self.asked.append((url, asyncio.get_running_loop().time()))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            if url in self.stuck:
                await asyncio.sleep(7 * self._timeout)
            if self.down.get(url):
                await asyncio.sleep(self._timeout)
                return False
            return True
        finally:
            self._now -= 1


async def probed(harness: Harness) -> tuple[Apps, Scripted]:
    prober = Scripted(harness.settings.limits.probe_timeout)
    apps = await Apps.on(harness, max_nodes=2000)
    await harness.cap(5000)
    apps.ports = replace(apps.ports, prober=prober)
    return apps, prober


async def service(apps: Apps, number: int = 1) -> tuple[NodeId, str]:
    address = f"http://10.0.0.{number}/health"
    app = App(
        key=f"drawn-at-random-{number}",
        boot_id="boot",
        name=f"web-{number}",
        beat_seconds=BEAT,
        address=address,
    )
    node_id = (await apps.enrolment.apps.enrol(app, template="web")).node.id
    node = await apps.harness.node(node_id)
    await apps.enrolment.report(node_id, Report(booted=True, attached=node.assignment_id))
    return node_id, address


async def health(harness: Harness, node_id: NodeId) -> Health:
    return (await harness.store.vitals([node_id]))[node_id].health


@with_harness
async def test_a_service_that_answers_is_kept_although_its_heartbeats_are_lost(harness: Harness) -> None:
    apps, prober = await probed(harness)
    apps.drive()
    node_id, address = await service(apps)
    await harness.pass_time(600.0)
    assert await health(harness, node_id) is Health.READY
    prober.down[address] = True
    await harness.pass_time(120.0)
    assert await health(harness, node_id) is Health.OFFLINE
    prober.down[address] = False
    await harness.pass_time(60.0)
    assert await health(harness, node_id) is Health.READY
    apps.stop()


@with_harness
async def test_failed_probes_do_not_count_against_a_fresh_heartbeat(harness: Harness) -> None:
    apps, prober = await probed(harness)
    apps.drive()
    node_id, address = await service(apps)
    prober.down[address] = True
    await apps.beats_for(300.0, node_id)
    assert await health(harness, node_id) is Health.READY
    assert (await harness.store.vitals([node_id]))[node_id].probe_failures >= PROBE_FAILURES
    apps.stop()


AWAY = 300.0


async def returned(harness: Harness) -> tuple[Apps, list[NodeId]]:
    """Services that can't be reached, and that beat until the control plane went away. It is just back."""
    apps, prober = await probed(harness)
    apps.drive()
    found = [await service(apps, number) for number in range(1, 6)]
    prober.down.update({address: True for _, address in found})
    node_ids = [node_id for node_id, _ in found]
    await apps.beats_for(200.0, *node_ids)
    apps.stop()
    await harness.pass_time(AWAY)
    apps.drive()
    return apps, node_ids


async def offline(harness: Harness, node_id: NodeId) -> list[str]:
    return [event.detail for event in await harness.events(node_id) if event.name == "offline"]


@with_harness
async def test_probes_that_failed_before_the_control_plane_was_away_make_no_app_offline(
    harness: Harness,
) -> None:
    apps, node_ids = await returned(harness)
    await harness.pass_time(RETRY_MOST)
    await apps.beats_for(60.0, *node_ids)
    for node_id in node_ids:
        assert await health(harness, node_id) is Health.READY
        assert await offline(harness, node_id) == []
    apps.stop()


@with_harness
async def test_probes_that_fail_after_the_control_plane_was_away_count_as_ever(harness: Harness) -> None:
    apps, node_ids = await returned(harness)
    await harness.pass_time((PROBE_FAILURES + 2) * harness.settings.limits.probe_every)
    for node_id in node_ids:
        assert await offline(harness, node_id) == [f"{PROBE_FAILURES} probes in a row failed"]
    apps.stop()


@pytest.mark.parametrize("services", [1, 3, 4, 5])
@with_harness
async def test_each_service_is_asked_once_in_every_round_however_many_there_are(
    harness: Harness, services: int
) -> None:
    apps, prober = await probed(harness)
    apps.drive()
    found = [await service(apps, number) for number in range(1, services + 1)]
    prober.down[found[-1][1]] = True
    every = harness.settings.limits.probe_every
    await harness.pass_time(3 * every)
    prober.asked.clear()
    await harness.pass_time(20 * every)
    times = Counter(url for url, _ in prober.asked)
    assert set(times) == {address for _, address in found}
    assert all(abs(count - 20) <= 1 for count in times.values()), times
    apps.stop()


@with_harness
async def test_a_probe_that_outstays_its_time_makes_no_other_service_offline(harness: Harness) -> None:
    """One whose heartbeats are lost lives by its probes: they must not wait for the slowest of the others."""
    apps, prober = await probed(harness)
    apps.drive()
    good, _ = await service(apps, 1)
    _, stuck = await service(apps, 2)
    await harness.pass_time(30.0)
    prober.stuck.add(stuck)
    await harness.pass_time(300.0)
    assert await health(harness, good) is Health.READY
    assert await offline(harness, good) == []
    apps.stop()


@with_harness
async def test_services_that_never_answer_delay_no_other_one_and_are_bounded_in_number(
    harness: Harness,
) -> None:
    apps, prober = await probed(harness)
    found = [await service(apps, number) for number in range(1, 601)]
    dead = found[::2]
    for _, address in dead:
        prober.down[address] = True
    probing = ServiceProbes(apps.ports, prober, harness.settings)
    began = harness.loop_time
    await probing.reconcile()
    asked = {url: at - began for url, at in prober.asked}
    assert set(asked) == {address for _, address in found}
    assert all(at <= probing.spread + harness.settings.limits.probe_timeout for at in asked.values())
    assert prober.most <= AT_ONCE
    vitals = await harness.store.vitals([node_id for node_id, _ in found])
    failed = {node_id for node_id, each in vitals.items() if each.probe_failures}
    assert failed == {node_id for node_id, _ in dead}


@with_harness
async def test_a_round_is_spread_over_half_of_its_time(harness: Harness) -> None:
    apps, prober = await probed(harness)
    for number in range(1, 201):
        await service(apps, number)
    probing = ServiceProbes(apps.ports, prober, harness.settings)
    began = harness.loop_time
    await probing.reconcile()
    times = [at - began for _, at in prober.asked]
    halves = sum(1 for at in times if at < probing.spread / 2)
    assert 90 <= halves <= 110
    assert max(times) <= probing.spread


@with_harness
async def test_who_gave_no_address_is_not_asked(harness: Harness) -> None:
    apps, prober = await probed(harness)
    await apps.serving()
    await ServiceProbes(apps.ports, prober, harness.settings).reconcile()
    assert prober.asked == []
