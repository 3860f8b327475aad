"""One look at everything, over the real store: what others did counts, and lists say where they stop."""

from dataclasses import replace

import pytest

from muster.api.telemetry import Telemetry
from muster.controllers.duties import Duties, Duty
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
from muster_simulation.life import Life
from tests.stage import Manner, Stage, staged
from tests.stage.azure import batch, create

EVERY = 10.0


def onlooker(stage: Stage, name: str = "onlooker") -> OverviewReader:
    """A replica that performs no duty itself."""
    duties = [("sweep", EVERY)]
    return OverviewReader(stage.ports, Settings(), Telemetry(), owner=name, duties=duties, since=stage.now)


def codes(seen: Overview) -> list[str]:
    return [finding.code for finding in seen.findings]


class Idle:
    async def reconcile(self) -> None:
        return


@staged
async def test_a_duty_that_another_replica_performs_is_seen_by_everybody(stage: Stage) -> None:
    watcher = onlooker(stage)
    holder = Life("holder")
    stage.keep(
        holder.spawn(
            Duties(
                stage.ports,
                "holder",
                (Duty(name="sweep", every=EVERY, work=Idle()),),
                lease=stage.settings.lease,
            ).run()
        )
    )
    await stage.pass_time(100.0)
    (duty,) = (await watcher.look()).duties
    assert duty.ticked_at is not None and stage.now - duty.ticked_at <= EVERY
    assert not duty.late

    holder.kill()
    await stage.pass_time(LATE_TICKS * EVERY + LATE_LEAST - EVERY)
    assert "duty_late" not in codes(await watcher.look())
    await stage.pass_time(2 * EVERY)
    seen = await watcher.look()
    assert seen.verdict.code == "duty_late" and "sweep" in seen.verdict.text
    assert "duty_late" not in codes(await onlooker(stage).look()), "one that has just begun can't know"


@staged
async def test_a_template_that_this_server_cannot_make_is_found_if_it_should_be_warm(stage: Stage) -> None:
    spec = (await stage.template(min_idle=2)).spec
    assert codes(await onlooker(stage).look()) == []
    await stage.store.apply_template(replace(spec, provider="clud"), now=stage.now)
    (finding,) = (await onlooker(stage).look()).findings
    assert (finding.code, finding.about) == ("starved", About(kind="template", id="ci"))
    assert finding.text.startswith("ci should keep 2 warm and has 0: the provider clud is not configured")
    await stage.store.apply_template(replace(spec, provider="clud", min_idle=0), now=stage.now)
    assert codes(await onlooker(stage).look()) == []


class Strangers:
    async def reconcile(self) -> None:
        raise Implausible("9 machines at ec2 have no record")


@staged
async def test_what_a_duty_left_alone_is_found_for_as_long_as_it_lasts(stage: Stage) -> None:
    duties = Duties(
        stage.ports,
        "holder",
        (Duty(name="sweep", every=EVERY, work=Strangers()),),
        lease=stage.settings.lease,
    )
    holder = Life("holder")
    stage.keep(holder.spawn(duties.run()))
    await stage.pass_time(3 * EVERY)
    (finding,) = (await onlooker(stage).look()).findings
    assert finding.code == "duty_interrupted"
    assert "9 machines at ec2 have no record" in finding.text

    holder.kill()
    await stage.pass_time(100.0)
    calm = Duties(
        stage.ports, "other", (Duty(name="sweep", every=EVERY, work=Idle()),), lease=stage.settings.lease
    )
    stage.keep(Life("other").spawn(calm.run()))
    await stage.pass_time(3 * EVERY)
    assert codes(await onlooker(stage).look()) == []


@staged
async def test_a_failed_boot_counts_once_by_its_diagnosed_cause_and_its_innocent_peers_not(
    stage: Stage,
) -> None:
    template = await stage.template()
    stage.agents.script(Manner(boot=1.0), Manner(boot=30.0, fails="E: Unable to locate package nodejs-99"))
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(2))

    async def diagnosed() -> bool:
        return bool(await stage.events(name="collected"))

    await stage.until(diagnosed)
    seen = await onlooker(stage).look()
    (group,) = seen.failed_hour.groups
    assert (group.cause, group.diagnosed) == ("package_install", True)
    assert (group.template, group.revision) == ("ci", template.revision)
    assert (group.nodes, group.operations, group.operation_id) == (1, 1, operation.id)
    assert seen.verdict.code == "failures" and seen.failed_day == seen.failed_hour
    await stage.pass_time(HOUR)
    later = await onlooker(stage).look()
    assert (later.failed_hour.groups, later.failed_day.groups) == ((), (group,))


@staged
async def test_warm_nodes_are_told_from_new_ones(stage: Stage) -> None:
    await stage.template()
    await stage.warm(2)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(3))
    seen = await onlooker(stage).look()
    assert (seen.warm_hour.provisions, seen.warm_hour.nodes, seen.warm_hour.warm) == (1, 3, 2)
    assert seen.pools.items[0].counts[NodeState.RUNNING] == 3


@staged
async def test_what_waits_behind_a_cap_is_counted_with_its_oldest(stage: Stage) -> None:
    await stage.template(max_nodes=1)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1, run="first"))
    began = stage.now
    waiting = [await replica.provision(1, run=f"next-{n}", queue_timeout=900.0) for n in range(2)]
    await stage.pass_time(QUEUED + 10.0)
    seen = await onlooker(stage).look()
    (group,) = seen.waiting.groups
    assert (group.reason, group.count) == (WaitsFor.ROOM, 2)
    assert group.operation_ids == tuple(each.id for each in waiting)
    assert began <= group.oldest_since <= began + 10.0
    assert codes(seen) == ["no_room"]
    for each in waiting:
        await replica.cancel(each.id)


@staged
async def test_a_list_that_stops_early_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.template(max_nodes=1)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1, run="first"))
    waiting = [await replica.provision(1, run=f"next-{n}", queue_timeout=900.0) for n in range(3)]
    await stage.pass_time(5.0)
    for most, more in ((3, True), (4, False)):
        monkeypatch.setattr(overview, "OPERATIONS_MOST", most)
        found = (await onlooker(stage).look()).waiting
        assert (found.count, found.more) == (3, more)
    for each in waiting:
        await replica.cancel(each.id)


@staged
async def test_all_is_not_well_while_a_cluster_that_failed_is_taken_away(stage: Stage) -> None:
    await batch(stage)
    stage.arm.next_problem = Problem(code="QuotaExceeded", message="no cores are left")
    replica = await stage.replica()
    operation = await create(replica)

    async def failing() -> bool:
        return (await onlooker(stage).look()).verdict.id == "cluster_failing.c1"

    await stage.until(failing)
    assert not (await stage.store.operation(operation.id)).ended
    await stage.ended(operation)
    assert codes(await onlooker(stage).look()) == ["failures"]
    await stage.succeeded(await create(replica, "c2"))
    assert codes(await onlooker(stage).look()) == [], "one that came to be shows that it works again"


@staged
async def test_all_is_not_well_while_a_failed_cluster_is_left_and_seen_it_is_told_apart(stage: Stage) -> None:
    await batch(stage, keep_failed=True)
    stage.arm.next_problem = Problem(code="QuotaExceeded", message="no cores are left")
    replica = await stage.replica()
    await stage.ended(await create(replica))
    await stage.pass_time(2 * HOUR)
    seen = await onlooker(stage).look()
    assert seen.verdict.id == "cluster_failed.c1" and "no cores are left" in seen.verdict.text
    await stage.store.access.acknowledge(
        Acknowledgement(finding=seen.verdict.id, tone=seen.verdict.tone, at=stage.now, actor="ada")
    )
    calm = await onlooker(stage).look()
    assert calm.findings == () and calm.verdict.tone is Tone.SUCCESS
    assert [each.finding.id for each in calm.acknowledged] == ["cluster_failed.c1"]
