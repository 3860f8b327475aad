import asyncio
from dataclasses import replace

import pytest

from muster.domain import node as lifecycle
from muster.domain.boot import KEPT_BOOTS, Mark, Span
from muster.domain.deadlines import CLOCK_ERROR, Limits, Watch
from muster.domain.diagnosis import Bundle, Cause, Section, Source
from muster.domain.errors import Conflict
from muster.domain.health import Health, HealthChange, HealthSource, Vitals, judge
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.pace import Pace
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.ports.store import Beat, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import Records

LIMITS = Limits()


async def joined(records: Records, *, at: float = 10.0, boot_id: str = "boot-1") -> Node:
    (node,) = await records.created(await records.leased(), 1)
    return await records.store.apply(lifecycle.joined(node, boot_id=boot_id, now=at))


async def vitals_of(store: Store, node: Node) -> Vitals:
    return (await store.vitals([node.id]))[node.id]


async def said(store: Store, node: Node, word: Health, *, at: float, reason: str = "") -> Vitals:
    await store.record_beats([Beat(node_id=node.id, seen_at=at, said=word, reason=reason)])
    return await vitals_of(store, node)


async def suspected(store: Store, *, now: float, limit: int = 10) -> list[NodeId]:
    found = await store.suspects(
        stale_before=now - LIMITS.stale_after,
        settled_before=now - LIMITS.max_transition,
        after=None,
        limit=limit,
    )
    return [each.node_id for each in found]


def change(vitals: Vitals, health: Health, *, at: float) -> HealthChange:
    after = replace(vitals, health=health, health_since=at, health_version=vitals.health_version + 1)
    return HealthChange(before=vitals, after=after, at=at)


class VitalsContract:
    async def test_a_join_begins_a_boot_and_joining_again_in_it_changes_nothing(self, store: Store) -> None:
        node = await joined(Records(store), at=10.0)
        first = await vitals_of(store, node)
        assert (first.boot_id, first.joined_at, first.advanced_at) == ("boot-1", 10.0, 10.0)
        assert (first.health, first.said, first.seen_at) == (Health.STARTING, None, None)
        again = await store.apply(lifecycle.joined(node, boot_id="boot-1", now=50.0))
        assert await vitals_of(store, again) == first

    async def test_a_new_boot_voids_what_the_node_said_in_the_last_one(self, store: Store) -> None:
        node = await joined(Records(store))
        await said(store, node, Health.DEGRADED, at=11.0, reason="disk")
        await store.record_beats([Beat(node_id=node.id, seen_at=12.0, activity=900)])
        await store.apply(lifecycle.joined(node, boot_id="boot-2", now=60.0))
        fresh = await vitals_of(store, node)
        assert (fresh.boot_id, fresh.joined_at, fresh.advanced_at) == ("boot-2", 60.0, 60.0)
        assert (fresh.said, fresh.said_reason, fresh.activity, fresh.seen_at) == (None, "", 0, 12.0)

    async def test_activity_that_grows_is_an_advance_and_no_other_beat_is(self, store: Store) -> None:
        node = await joined(Records(store), at=10.0)
        for at, activity, advanced in (
            (15.0, 0, 10.0),
            (20.0, 7, 20.0),
            (25.0, 7, 20.0),
            (30.0, 3, 20.0),
            (35.0, None, 20.0),
            (40.0, 8, 40.0),
            (38.0, 99, 40.0),  # an older beat that comes late
        ):
            await store.record_beats([Beat(node_id=node.id, seen_at=at, activity=activity)])
            assert (await vitals_of(store, node)).advanced_at == advanced
        assert (await vitals_of(store, node)).seen_at == 40.0

    @pytest.mark.parametrize("word", [None, Health.READY])
    async def test_a_beat_moves_a_time_back_that_only_a_wrong_clock_can_have_written(
        self, store: Store, word: Health | None
    ) -> None:
        node = await joined(Records(store), at=10.0)
        for at, seen_at in (
            (9000.0, 9000.0),
            (9000.0 - CLOCK_ERROR, 9000.0),
            (8999.0 - CLOCK_ERROR, 8999.0 - CLOCK_ERROR),
            (8999.0, 8999.0),
        ):
            await store.record_beats([Beat(node_id=node.id, seen_at=at, said=word)])
            assert (await vitals_of(store, node)).seen_at == seen_at
            assert await store.last_seen([node.id]) == {node.id: seen_at}

    async def test_a_phase_or_step_is_an_advance_and_a_mark(self, store: Store) -> None:
        node = await joined(Records(store), at=10.0)
        for at, step in ((20.0, ""), (30.0, "pull")):
            advanced = lifecycle.advanced(node, phase="boot_script", step=step, now=at)
            assert advanced is not None
            node = await store.apply(advanced)
            assert (await vitals_of(store, node)).advanced_at == at
        await store.apply(lifecycle.booted(node, now=45.0, deadline_at=99.0))
        assert list(await store.marks(node.id)) == [
            Mark(at=10.0, phase="joined"),
            Mark(at=20.0, phase="boot_script"),
            Mark(at=30.0, phase="boot_script", step="pull"),
            Mark(at=45.0, phase="booted"),
        ]
        (boot,) = await store.boots("web", 1)
        assert (boot.node_id, boot.instance_type, boot.seconds) == (node.id, "m5.large", 43.0)
        assert boot.phases == (
            Span(name="launch", seconds=8.0),
            Span(name="joined", seconds=10.0),
            Span(name="boot_script", seconds=10.0),
            Span(name="boot_script: pull", seconds=15.0),
        )

    async def test_only_boots_that_came_to_their_end_are_learned_from(self, store: Store) -> None:
        node = await joined(Records(store))
        failed = lifecycle.fail(node, now=20.0, reason=Reason.BOOT_TIMEOUT, deadline_at=99.0)
        await store.apply(failed)
        assert list(await store.boots("web", 1)) == []

    async def test_when_a_boot_was_given_up_is_known_for_ever(self, store: Store) -> None:
        """Whatever becomes of the node after that, and whether it is failed or condemned."""
        records = Records(store)
        failed, condemned = await joined(records, at=10.0), await joined(records, at=10.0)
        failed = await store.apply(
            lifecycle.fail(failed, now=20.0, reason=Reason.BOOT_TIMEOUT, deadline_at=99.0)
        )
        for node, at in ((failed, 50.0), (condemned, 20.0)):
            gone = await store.apply(lifecycle.condemn(node, now=at, reason=Reason.BOOT_TIMEOUT))
            await store.apply(lifecycle.confirm_gone(gone, now=90.0))
            begun, given_up = Mark(at=10.0, phase="joined"), Mark(at=20.0, phase="given_up")
            assert list(await store.marks(node.id)) == [begun, given_up]

    @pytest.mark.parametrize("rescued", [False, True], ids=["in time", "rescued"])
    async def test_a_boot_that_teaches_nothing_leaves_its_marks_only(
        self, store: Store, rescued: bool
    ) -> None:
        node = await joined(Records(store))
        if rescued:
            failed = lifecycle.fail(node, now=20.0, reason=Reason.BOOT_TIMEOUT, deadline_at=99.0)
            node = await store.apply(failed)
            change = lifecycle.rescue(
                node, now=45.0, assignment_id=AssignmentId("as-9"), deadline_at=99.0, detail="", teaches=False
            )
        else:
            change = lifecycle.booted(node, now=45.0, deadline_at=99.0, teaches=False)
        await store.apply(change)
        given_up = ["given_up"] if change.told_as else []
        assert [mark.phase for mark in await store.marks(node.id)] == ["joined", *given_up, "booted"]
        assert list(await store.boots("web", 1)) == []

    async def test_the_boots_of_a_kind_are_bounded_and_the_oldest_make_way(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        nodes = await records.created(operation, KEPT_BOOTS + 2)
        for number, node in enumerate(nodes):
            await store.apply(lifecycle.booted(node, now=10.0 + number, deadline_at=999.0))
        kept = await store.boots("web", 1)
        assert [boot.node_id for boot in kept] == [node.id for node in nodes[2:]]
        assert list(await store.boots("web", 2)) == []

    # --- health -----------------------------------------------------------------------------------

    async def test_a_health_write_is_one_event_and_leaves_the_record_alone(self, store: Store) -> None:
        node = await joined(Records(store))
        before = await vitals_of(store, node)
        await store.write_health(change(before, Health.READY, at=30.0))
        now = await vitals_of(store, node)
        assert (now.health, now.health_since, now.health_version) == (Health.READY, 30.0, 1)
        assert await store.node(node.id) == node
        last = (await whole_feed(store, entity_id=node.id))[-1]
        assert (last.entity, last.name, last.version, last.at) == ("health", "ready", 1, 30.0)

    async def test_of_racing_judges_one_wins(self, store: Store) -> None:
        node = await joined(Records(store))
        before = await vitals_of(store, node)
        words = [Health.READY, Health.OFFLINE] * 8
        ends = await asyncio.gather(
            *(store.write_health(change(before, word, at=30.0)) for word in words), return_exceptions=True
        )
        assert sum(isinstance(end, Conflict) for end in ends) == len(words) - 1
        events = [each for each in await whole_feed(store, entity_id=node.id) if each.entity == "health"]
        assert len(events) == 1

    async def test_a_verdict_about_an_earlier_boot_is_refused(self, store: Store) -> None:
        node = await joined(Records(store))
        before = await vitals_of(store, node)
        await store.apply(lifecycle.joined(node, boot_id="boot-2", now=60.0))
        with pytest.raises(Conflict):
            await store.write_health(change(before, Health.OFFLINE, at=61.0))

    async def test_a_beat_between_look_and_verdict_does_not_hide_its_word(self, store: Store) -> None:
        node = await joined(Records(store))
        looked = await said(store, node, Health.READY, at=11.0)
        await said(store, node, Health.DEGRADED, at=12.0)
        await store.mark_news_judged([looked])
        assert await suspected(store, now=13.0) == [node.id]
        await store.mark_news_judged([await vitals_of(store, node)])
        assert await suspected(store, now=13.0) == []

    async def test_starting_never_covers_a_word_that_was_said_in_this_boot(self, store: Store) -> None:
        node = await joined(Records(store))
        assert (await said(store, node, Health.STARTING, at=11.0)).said is Health.STARTING
        assert (await said(store, node, Health.DEGRADED, at=12.0, reason="disk")).said is Health.DEGRADED
        kept = await said(store, node, Health.STARTING, at=13.0, reason="again")
        assert (kept.said, kept.said_reason, kept.seen_at) == (Health.DEGRADED, "disk", 13.0)

    async def test_a_probe_between_look_and_verdict_is_still_news(self, store: Store) -> None:
        node = await joined(Records(store))
        await store.record_beats([Beat(node_id=node.id, seen_at=19.0)])
        await store.record_probe(node.id, passed=False, now=20.0)
        looked = await vitals_of(store, node)
        await store.record_probe(node.id, passed=True, now=21.0)
        await store.mark_news_judged([looked])
        assert (await vitals_of(store, node)).news
        await store.mark_news_judged([await vitals_of(store, node)])
        assert not (await vitals_of(store, node)).news

    async def test_only_those_whose_health_may_be_wrong_are_suspects(self, store: Store) -> None:
        records = Records(store)
        now = 1000.0
        quiet, stale, stuck, back = [await joined(records, at=900.0) for _ in range(4)]
        for node in (quiet, stale, back):
            vitals = await said(store, node, Health.READY, at=900.0)
            await store.write_health(change(vitals, Health.READY, at=900.0))
            await store.mark_news_judged([vitals])
        await store.record_beats([Beat(node_id=quiet.id, seen_at=now - LIMITS.stale_after)])
        await store.record_beats([Beat(node_id=stale.id, seen_at=now - LIMITS.stale_after - 0.5)])
        await store.write_health(change(await vitals_of(store, back), Health.OFFLINE, at=950.0))
        await store.record_beats([Beat(node_id=back.id, seen_at=now - 1)])
        await store.record_beats([Beat(node_id=stuck.id, seen_at=now - 1)])
        assert await suspected(store, now=now) == [stale.id, back.id]
        late = 900.0 + LIMITS.max_transition + 0.5
        await store.record_beats(
            [Beat(node_id=each.id, seen_at=late) for each in (quiet, stale, stuck, back)]
        )
        assert stuck.id in await suspected(store, now=late)

    async def test_suspects_come_in_pages(self, store: Store) -> None:
        records = Records(store)
        nodes = [await joined(records) for _ in range(5)]
        for node in nodes:
            await said(store, node, Health.READY, at=11.0)
        met: list[NodeId] = []
        after: NodeId | None = None
        while some := await store.suspects(stale_before=0.0, settled_before=0.0, after=after, limit=2):
            met += [each.node_id for each in some]
            after = met[-1]
        assert met == [node.id for node in nodes]

    async def test_booted_is_a_nodes_word_that_it_is_ready(self, store: Store) -> None:
        node = await joined(Records(store))
        await store.record_beats([Beat(node_id=node.id, seen_at=11.0)])
        await store.apply(lifecycle.booted(node, now=12.0, deadline_at=99.0))
        vitals = await vitals_of(store, node)
        assert vitals.said is Health.READY
        verdict = judge(vitals, now=13.0, observing_since=0.0, limits=LIMITS)
        assert verdict is not None and verdict.after.health is Health.READY
        assert await suspected(store, now=13.0) == [node.id]

    async def test_a_probe_is_remembered_and_never_looks_like_life(self, store: Store) -> None:
        node = await joined(Records(store))
        await store.record_beats([Beat(node_id=node.id, seen_at=11.0)])
        for at, passed, failures, since in (
            (20.0, False, 1, None),
            (30.0, False, 2, None),
            (40.0, True, 0, 40.0),
            (50.0, True, 0, 40.0),
            (45.0, False, 0, 40.0),  # an older probe that comes late
            (60.0, False, 1, None),
        ):
            await store.record_probe(node.id, passed=passed, now=at)
            vitals = await vitals_of(store, node)
            assert (vitals.probe_failures, vitals.probe_passing_since) == (failures, since)
            assert (vitals.seen_at, vitals.news) == (11.0, True)

    async def test_failed_probes_are_counted_anew_after_time_in_which_no_replica_watched(
        self, store: Store
    ) -> None:
        node = await joined(Records(store))
        await store.record_beats([Beat(node_id=node.id, seen_at=11.0)])
        await store.watch(now=12.0, gap=20.0)

        async def failed(at: float) -> int:
            await store.record_probe(node.id, passed=False, now=at)
            return (await vitals_of(store, node)).probe_failures

        assert [await failed(at) for at in (20.0, 30.0)] == [1, 2]
        await store.watch(now=31.0, gap=20.0)
        assert await failed(40.0) == 3
        # No replica looked until 100. The first probe came before one found that out.
        assert await failed(99.0) == 4
        await store.watch(now=100.0, gap=20.0)
        assert [await failed(at) for at in (101.0, 110.0)] == [1, 2]
        await store.watch(now=111.0, gap=20.0)
        assert await failed(120.0) == 3

    async def test_the_offline_are_found_by_how_long_they_have_been(self, store: Store) -> None:
        records = Records(store)
        nodes = await records.idle(3)
        for node, at in zip(nodes, (50.0, 60.0, 70.0), strict=True):
            await store.write_health(change(await vitals_of(store, node), Health.OFFLINE, at=at))
        offline = await store.offline(states=[NodeState.IDLE], since_before=70.0, limit=10)
        assert list(offline) == nodes[:2]
        assert list(await store.offline(states=[NodeState.IDLE], since_before=70.0, limit=1)) == nodes[:1]
        assert list(await store.offline(states=[NodeState.RUNNING], since_before=70.0, limit=10)) == []
        assert list(await store.offline(states=[], since_before=70.0, limit=10)) == []

    async def test_vitals_end_with_the_node(self, store: Store) -> None:
        node = await joined(Records(store))
        doomed = await store.apply(lifecycle.condemn(node, now=20.0, reason=Reason.OPERATOR))
        await store.apply(lifecycle.confirm_gone(doomed, now=21.0))
        assert await store.vitals([node.id]) == {}
        await store.record_beats([Beat(node_id=node.id, seen_at=22.0, said=Health.READY)])
        assert await store.vitals([node.id]) == {}

    # --- standing still ---------------------------------------------------------------------------

    async def test_a_boot_that_stands_still_is_found_by_its_templates_patience(self, store: Store) -> None:
        records = Records(store)
        await store.apply_template(TemplateSpec(name="web", provider="simulated", stall_after=60.0), now=1.0)
        own = await joined(records, at=100.0)
        assert list(await store.stalled(now=160.0, stall_after=5.0, limit=10)) == []
        assert list(await store.stalled(now=160.5, stall_after=5.0, limit=10)) == [own]

    async def test_a_boot_without_a_patience_of_its_own_has_the_given_one(self, store: Store) -> None:
        records = Records(store)
        first, second = await joined(records, at=100.0), await joined(records, at=101.0)
        assert list(await store.stalled(now=400.0, stall_after=300.0, limit=10)) == []
        assert list(await store.stalled(now=400.5, stall_after=300.0, limit=10)) == [first]
        assert list(await store.stalled(now=402.0, stall_after=300.0, limit=10)) == [first, second]
        assert list(await store.stalled(now=402.0, stall_after=300.0, limit=1)) == [first]
        await store.apply(lifecycle.booted(first, now=402.0, deadline_at=999.0))
        doomed = lifecycle.fail(second, now=402.0, reason=Reason.BOOT_STALLED, deadline_at=999.0)
        await store.apply(doomed)
        assert list(await store.stalled(now=900.0, stall_after=300.0, limit=10)) == []

    async def test_an_advance_after_the_look_spares_a_boot_that_stood_still(self, store: Store) -> None:
        node = await joined(Records(store), at=10.0)
        verdict = lifecycle.fail(
            node, now=400.0, reason=Reason.BOOT_STALLED, deadline_at=500.0, still_since=10.0
        )
        await store.record_beats([Beat(node_id=node.id, seen_at=399.0, activity=5)])
        with pytest.raises(Conflict):
            await store.apply(verdict)
        assert await store.node(node.id) == node
        await store.apply(replace(verdict, still_since=399.0))

    async def test_a_beat_after_the_look_spares_a_node_that_was_given_up_for_its_silence(
        self, store: Store
    ) -> None:
        node = await joined(Records(store), at=10.0)
        doomed = lifecycle.condemn(node, now=400.0, reason=Reason.HEARTBEAT_LOST, silent_since=100.0)
        await store.record_beats([Beat(node_id=node.id, seen_at=100.5)])
        with pytest.raises(Conflict):
            await store.apply(doomed)
        assert await store.node(node.id) == node
        await store.apply(replace(doomed, silent_since=100.5))

    async def test_a_beat_after_the_look_spares_a_node_that_was_called_offline(self, store: Store) -> None:
        node = await joined(Records(store), at=10.0)
        for at, source in (
            (20.0, HealthSource.RECONCILE),
            (25.0, HealthSource.PROBE),
            (30.0, HealthSource.HEARTBEAT),
        ):
            seen = await vitals_of(store, node)
            verdict = change(seen, Health.OFFLINE, at=at)
            verdict = replace(verdict, after=replace(verdict.after, health_source=source))
            await store.record_beats([Beat(node_id=node.id, seen_at=at)])
            if source is not HealthSource.HEARTBEAT:
                with pytest.raises(Conflict):
                    await store.write_health(verdict)
                assert (await vitals_of(store, node)).health is Health.STARTING
            else:
                await store.write_health(verdict)

    # --- the watch --------------------------------------------------------------------------------

    async def test_the_watch_goes_on_while_a_replica_ticks(self, store: Store) -> None:
        assert await store.watch(now=100.0, gap=20.0) == Watch(since=100.0)
        assert await store.watch(now=120.0, gap=20.0) == Watch(since=100.0)
        assert await store.watch(now=140.0, gap=20.0) == Watch(since=100.0)

    async def test_after_a_gap_the_watch_begins_anew(self, store: Store) -> None:
        await store.watch(now=100.0, gap=20.0)
        assert await store.watch(now=120.5, gap=20.0) == Watch(since=120.5, away_from=100.0)
        assert await store.watch(now=130.0, gap=20.0) == Watch(since=120.5, away_from=100.0)
        assert await store.watch(now=900.0, gap=20.0) == Watch(since=900.0, away_from=130.0)

    async def test_a_watch_that_breaks_off_again_before_the_grace_is_over_still_owes_it(
        self, store: Store
    ) -> None:
        await store.watch(now=100.0, gap=20.0, grace=60.0)
        assert await store.watch(now=200.0, gap=20.0, grace=60.0) == Watch(since=200.0, away_from=100.0)
        await store.watch(now=220.0, gap=20.0, grace=60.0)
        assert await store.watch(now=250.0, gap=20.0, grace=60.0) == Watch(since=250.0, away_from=100.0)
        for now in (270.0, 290.0, 310.0):
            await store.watch(now=now, gap=20.0, grace=60.0)
        assert await store.watch(now=400.0, gap=20.0, grace=60.0) == Watch(since=400.0, away_from=310.0)

    async def test_a_watch_begins_anew_after_a_clock_was_set_back(self, store: Store) -> None:
        first = await store.watch(now=90_000.0, gap=20.0, beat=60.0)
        assert await store.watch(now=90_000.0 - CLOCK_ERROR, gap=20.0) == first
        await store.watch(now=90_000.0, gap=20.0, beat=5.0)
        back = await store.watch(now=100.0, gap=20.0)
        assert (back.since, back.away_from) == (100.0, 100.0)
        assert back.pace is not None and back.pace.in_use(100.0) == 60.0
        assert await store.watch(now=120.0, gap=20.0) == back
        late = await store.watch(now=300.0, gap=20.0)
        assert (late.since, late.away_from) == (300.0, 120.0), "its gaps are noticed again"
        assert late.pace is not None and late.pace.in_use(300.0) == 5.0

    async def test_a_clock_that_lags_behind_does_not_break_the_watch(self, store: Store) -> None:
        await store.watch(now=100.0, gap=20.0)
        assert await store.watch(now=95.0, gap=20.0) == Watch(since=100.0)
        assert await store.watch(now=119.0, gap=20.0) == Watch(since=100.0)

    async def test_the_pace_of_beats_is_kept_until_another_is_set(self, store: Store) -> None:
        assert (await store.watch(now=100.0, gap=20.0)).pace is None
        slow = Pace.of(5.0).changed(20.0, now=110.0)
        assert (await store.watch(now=105.0, gap=20.0, beat=5.0)).pace == Pace.of(5.0)
        assert (await store.watch(now=110.0, gap=20.0, beat=20.0)).pace == slow
        assert (await store.watch(now=112.0, gap=20.0)).pace == slow
        quick = slow.changed(5.0, now=115.0)
        assert (await store.watch(now=115.0, gap=20.0, beat=5.0)).pace == quick
        assert await store.watch(now=900.0, gap=20.0) == Watch(since=900.0, away_from=115.0, pace=quick)

    async def test_the_first_tick_may_set_the_pace(self, store: Store) -> None:
        assert await store.watch(now=100.0, gap=20.0, beat=10.0) == Watch(since=100.0, pace=Pace.of(10.0))
        assert (await store.watch(now=101.0, gap=20.0)).pace == Pace.of(10.0)

    # --- bundles ----------------------------------------------------------------------------------

    async def test_a_failure_is_diagnosed_once(self, store: Store) -> None:
        node = await joined(Records(store))
        assert list(await store.undiagnosed(limit=10)) == []
        failed = await store.apply(
            lifecycle.fail(
                node, now=20.0, reason=Reason.BOOT_SCRIPT_FAILED, deadline_at=99.0, detail="exit 1"
            )
        )
        assert list(await store.undiagnosed(limit=10)) == [failed]
        section = Section(name=Source.CONSOLE, text="line 1\nline 2")
        bundle = Bundle(
            node_id=node.id, collected_at=21.0, reason=failed.reason, detail="exit 1", sections=(section,)
        )
        assert await store.bundle(node.id) is None
        assert await store.file_bundle(bundle, cause=Cause.SCRIPT_FAILED)
        assert not await store.file_bundle(replace(bundle, sections=()), cause=Cause.UNKNOWN)
        assert await store.bundle(node.id) == bundle
        assert list(await store.undiagnosed(limit=10)) == []
        events = [each for each in await whole_feed(store, entity_id=node.id) if each.entity == "diagnosis"]
        assert [(each.name, each.at) for each in events] == [("collected", 21.0)]
