"""One look at everything, over the real store: what others did counts, and lists say where they stop."""

from dataclasses import replace

import pytest

from muster.api.telemetry import Telemetry
from muster.controllers.duties import Duties
from muster.domain.errors import Implausible
from muster.domain.findings import About
from muster.domain.lifecycle import NodeState
from muster.domain.observations import HOUR, LATE_LEAST, LATE_TICKS
from muster.domain.overview import Acknowledgement, Overview
from muster.domain.progress import Tone
from muster.domain.settings import Settings
from muster.domain.verdicts import QUEUED
from muster.domain.wait_reasons import WaitsFor
from muster.integrations.aks.error_codes import Problem
from muster.operations import overview
from muster.operations.overview import OverviewReader
from muster.ports.duties import Duty
from muster_simulation.life import Life
from tests.harness import Behaviour, Harness, with_harness
from tests.harness.azure import batch, create

EVERY = 10.0


def onlooker(harness: Harness, name: str = "onlooker") -> OverviewReader:
    """A replica that performs no duty itself."""
    duties = [("sweep", EVERY)]
    return OverviewReader(
        harness.ports, Settings(), Telemetry(), owner=name, duties=duties, since=harness.now
    )


def codes(seen: Overview) -> list[str]:
    return [finding.code for finding in seen.findings]


class Idle:
    async def reconcile(self) -> None:
        return


@with_harness
async def test_a_duty_that_another_replica_performs_is_seen_by_all(harness: Harness) -> None:
    watcher = onlooker(harness)
    holder = Life("holder")
    harness.keep(
        holder.spawn(
            Duties(
                harness.ports,
                "holder",
                (Duty(name="sweep", every=EVERY, work=Idle()),),
                lease=harness.settings.lease,
            ).run()
        )
    )
    await harness.pass_time(100.0)
    (duty,) = (await watcher.look()).duties
    assert duty.ticked_at is not None and harness.now - duty.ticked_at <= EVERY
    assert not duty.late

    holder.kill()
    await harness.pass_time(LATE_TICKS * EVERY + LATE_LEAST - EVERY)
    assert "duty_late" not in codes(await watcher.look())
    await harness.pass_time(2 * EVERY)
    seen = await watcher.look()
    assert seen.verdict.code == "duty_late" and "sweep" in seen.verdict.text
    assert "duty_late" not in codes(await onlooker(harness).look()), "one that has just begun can't know"


@with_harness
async def test_a_template_that_this_server_cannot_make_is_found_if_it_should_be_warm(
    harness: Harness,
) -> None:
    spec = (await harness.template(min_idle=2)).spec
    assert codes(await onlooker(harness).look()) == []
    await harness.store.apply_template(replace(spec, provider="clud"), now=harness.now)
    (finding,) = (await onlooker(harness).look()).findings
    assert (finding.code, finding.about) == ("starved", About(kind="template", id="ci"))
    assert finding.text.startswith("ci should keep 2 warm and has 0: the provider clud is not configured")
    await harness.store.apply_template(replace(spec, provider="clud", min_idle=0), now=harness.now)
    assert codes(await onlooker(harness).look()) == []


class UnknownMachines:
    async def reconcile(self) -> None:
        raise Implausible("9 machines at ec2 have no record")


@with_harness
async def test_what_a_duty_left_alone_is_found_for_as_long_as_it_lasts(harness: Harness) -> None:
    duties = Duties(
        harness.ports,
        "holder",
        (Duty(name="sweep", every=EVERY, work=UnknownMachines()),),
        lease=harness.settings.lease,
    )
    holder = Life("holder")
    harness.keep(holder.spawn(duties.run()))
    await harness.pass_time(3 * EVERY)
    (finding,) = (await onlooker(harness).look()).findings
    assert finding.code == "duty_interrupted"
    assert "9 machines at ec2 have no record" in finding.text

    holder.kill()
    await harness.pass_time(100.0)
    calm = Duties(
        harness.ports, "other", (Duty(name="sweep", every=EVERY, work=Idle()),), lease=harness.settings.lease
    )
    harness.keep(Life("other").spawn(calm.run()))
    await harness.pass_time(3 * EVERY)
    assert codes(await onlooker(harness).look()) == []


@with_harness
async def test_a_failed_boot_counts_once_by_its_diagnosed_cause_and_its_innocent_peers_not(
    harness: Harness,
) -> None:
    template = await harness.template()
    harness.agents.script(
        Behaviour(boot=1.0), Behaviour(boot=30.0, fails="E: Unable to locate package nodejs-99")
    )
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(2))

    async def diagnosed() -> bool:
        return bool(await harness.events(name="collected"))

    await harness.until(diagnosed)
    seen = await onlooker(harness).look()
    (group,) = seen.failed_hour.groups
    assert (group.cause, group.diagnosed) == ("package_install", True)
    assert (group.template, group.revision) == ("ci", template.revision)
    assert (group.nodes, group.operations, group.operation_id) == (1, 1, operation.id)
    assert seen.verdict.code == "failures" and seen.failed_day == seen.failed_hour
    await harness.pass_time(HOUR)
    later = await onlooker(harness).look()
    assert (later.failed_hour.groups, later.failed_day.groups) == ((), (group,))


@with_harness
async def test_warm_nodes_are_told_from_new_ones(harness: Harness) -> None:
    await harness.template()
    await harness.warm(2)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(3))
    seen = await onlooker(harness).look()
    assert (seen.warm_hour.provisions, seen.warm_hour.nodes, seen.warm_hour.warm) == (1, 3, 2)
    assert seen.pools.items[0].counts[NodeState.RUNNING] == 3


@with_harness
async def test_what_waits_behind_a_cap_is_counted_with_its_oldest(harness: Harness) -> None:
    await harness.template(max_nodes=1)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1, run="first"))
    began = harness.now
    waiting = [await replica.provision(1, run=f"next-{n}", queue_timeout=900.0) for n in range(2)]
    await harness.pass_time(QUEUED + 10.0)
    seen = await onlooker(harness).look()
    (group,) = seen.waiting.groups
    assert (group.reason, group.count) == (WaitsFor.ROOM, 2)
    assert group.operation_ids == tuple(each.id for each in waiting)
    assert began <= group.oldest_since <= began + 10.0
    assert codes(seen) == ["no_room"]
    for each in waiting:
        await replica.cancel(each.id)


@with_harness
async def test_a_list_that_stops_early_says_so(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    await harness.template(max_nodes=1)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1, run="first"))
    waiting = [await replica.provision(1, run=f"next-{n}", queue_timeout=900.0) for n in range(3)]
    await harness.pass_time(5.0)
    for most, more in ((3, True), (4, False)):
        monkeypatch.setattr(overview, "OPERATIONS_MOST", most)
        found = (await onlooker(harness).look()).waiting
        assert (found.count, found.more) == (3, more)
    for each in waiting:
        await replica.cancel(each.id)


@with_harness
async def test_all_is_not_well_while_a_cluster_that_failed_is_taken_away(harness: Harness) -> None:
    await batch(harness)
    harness.arm.next_problem = Problem(code="QuotaExceeded", message="no cores are left")
    replica = await harness.replica()
    operation = await create(replica)

    async def failing() -> bool:
        return (await onlooker(harness).look()).verdict.id == "cluster_failing.c1"

    await harness.until(failing)
    assert not (await harness.store.operation(operation.id)).ended
    await harness.ended(operation)
    assert codes(await onlooker(harness).look()) == ["failures"]
    await harness.succeeded(await create(replica, "c2"))
    assert codes(await onlooker(harness).look()) == [], "one that came to be shows that it works again"


@with_harness
async def test_all_is_not_well_while_a_failed_cluster_is_left_and_seen_it_is_told_apart(
    harness: Harness,
) -> None:
    await batch(harness, keep_failed=True)
    harness.arm.next_problem = Problem(code="QuotaExceeded", message="no cores are left")
    replica = await harness.replica()
    await harness.ended(await create(replica))
    await harness.pass_time(2 * HOUR)
    seen = await onlooker(harness).look()
    assert seen.verdict.id == "cluster_failed.c1" and "no cores are left" in seen.verdict.text
    await harness.store.access.acknowledge(
        Acknowledgement(finding=seen.verdict.id, tone=seen.verdict.tone, at=harness.now, actor="ada")
    )
    calm = await onlooker(harness).look()
    assert calm.findings == () and calm.verdict.tone is Tone.SUCCESS
    assert [each.finding.id for each in calm.acknowledged] == ["cluster_failed.c1"]
