"""The simulation must find bugs: each planted defect breaks a promise within a few seeds of some storm.

A storm aims at one kind of mistake. `Level` in `muster_simulation.plan` says what happens in each:

    light, heavy  rules that any trouble tests: commits without attached nodes, records that end too early
    pauses        fences and epochs: a replica goes on writing after another took over
    answers       launches whose answer is lost: tokens, room that is freed too early, "not found" as "gone"
    echoes        signals of an earlier assignment that come again
    crowd         caps, claims, reuse and the queue
    meddlers      the commit against a cancel, and against a node that ends just then
    deaths        heartbeats at the commit; what an operation held when its replica died
    strays        machines without a record
    slow          judging boots: stalls, extensions, ceilings, rescues; a pause between the sweep's look
                  (`vitals`) and its write
    absence       judging after the control plane was away: graces, silence, claims of the dead; a pause
                  between the look for offline nodes (`offline`) and the write that gives them up
    bugs          operations that meet an unforeseen error each time
    streams       what nodes hear: a line that is lost, a stream that breaks and says nothing of it
    jobs          jobs of GitHub: demand, capacity, who listens, and what webhooks may start
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from muster_simulation.plan import Level
from muster_simulation.simulate import simulate
from tests.simulation import BUSY, defects, job_defects

HOURS = 0.25
REPLICAS = 3
pytestmark = pytest.mark.timeout(BUSY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    defect: Callable[[pytest.MonkeyPatch], None]
    faults: Level
    within: int = 40
    """Seeds, from the first on. Several times what is needed: each change of the code draws other worlds."""
    replicas: int = REPLICAS
    """One keeps records in memory; several, only what seldom changes."""


PLANTED = (
    Planted(defect=defects.fencing_is_dropped, faults=Level.PAUSES),
    Planted(defect=defects.a_takeover_keeps_the_epoch, faults=Level.PAUSES),
    Planted(defect=defects.the_reservation_is_skipped, faults=Level.CROWD),
    Planted(defect=defects.a_claim_ignores_the_state, faults=Level.CROWD),
    Planted(defect=defects.a_claim_ignores_the_owner, faults=Level.CROWD),
    Planted(defect=defects.the_minimum_is_kept_for_the_first_operation, faults=Level.LIGHT),
    Planted(defect=defects.claims_are_held_in_the_queue, faults=Level.CROWD),
    Planted(defect=defects.room_is_not_given_back, faults=Level.CROWD),
    Planted(defect=defects.the_record_ends_with_the_call, faults=Level.LIGHT),
    Planted(defect=defects.not_found_is_gone_at_once, faults=Level.ANSWERS),
    Planted(defect=defects.room_is_freed_while_the_call_is_open, faults=Level.ANSWERS),
    Planted(defect=defects.every_repeat_has_a_new_token, faults=Level.ANSWERS),
    Planted(defect=defects.a_signal_counts_without_its_assignment, faults=Level.ECHOES),
    Planted(defect=defects.any_detach_counts_for_the_present_assignment, faults=Level.ECHOES),
    Planted(defect=defects.the_commit_does_not_wait_for_attached, faults=Level.LIGHT),
    Planted(defect=defects.resuming_forgets_what_is_held, faults=Level.DEATHS),
    Planted(defect=defects.foreign_machines_are_orphans_too, faults=Level.HEAVY),
    Planted(defect=defects.a_loss_does_not_move_the_operation, faults=Level.MEDDLERS),
    Planted(defect=defects.a_cancel_beats_the_commit, faults=Level.MEDDLERS),
    Planted(defect=defects.a_lost_answer_is_acknowledged, faults=Level.HEAVY),
    Planted(defect=defects.the_head_of_the_queue_is_never_resumed, faults=Level.CROWD),
    Planted(defect=defects.orphans_are_left_alone, faults=Level.STRAYS),
    Planted(defect=defects.the_commit_ignores_heartbeats, faults=Level.DEATHS),
    Planted(defect=defects.the_sweep_ignores_advance_at_the_deadline, faults=Level.SLOW),
    Planted(defect=defects.a_held_node_is_never_ended, faults=Level.SLOW),
    Planted(defect=defects.an_extension_has_no_ceiling, faults=Level.SLOW),
    Planted(defect=defects.a_stall_counts_from_the_join, faults=Level.SLOW),
    Planted(defect=defects.a_boot_that_stands_still_is_not_looked_for, faults=Level.SLOW),
    Planted(defect=defects.the_rescued_go_back_to_their_operation, faults=Level.SLOW),
    Planted(defect=defects.starting_takes_a_ready_node_back, faults=Level.SLOW),
    Planted(defect=defects.silence_counts_while_no_replica_watched, faults=Level.ABSENCE),
    Planted(defect=defects.the_lost_are_counted_without_the_watch, faults=Level.ABSENCE),
    Planted(defect=defects.a_deadline_passes_while_no_replica_watched, faults=Level.ABSENCE),
    Planted(defect=defects.the_grace_never_ends, faults=Level.ABSENCE),
    Planted(defect=defects.the_living_stay_offline, faults=Level.ABSENCE),
    Planted(defect=defects.an_unforeseen_error_is_tried_for_ever, faults=Level.BUGS),
    Planted(defect=defects.what_a_bug_stops_keeps_its_nodes, faults=Level.BUGS),
    Planted(defect=defects.the_dead_can_be_claimed, faults=Level.ABSENCE),
    Planted(defect=defects.a_memory_misses_commits, faults=Level.LIGHT, replicas=1),
    Planted(defect=defects.a_memory_misses_a_revocation, faults=Level.ECHOES, replicas=1),
    Planted(defect=defects.a_revocation_is_noticed_late, faults=Level.ECHOES),
    Planted(defect=defects.a_lost_push_is_never_made_up_for, faults=Level.STREAMS),
    Planted(defect=defects.a_reordered_report_is_believed, faults=Level.ECHOES),
    Planted(defect=job_defects.jobs_are_counted_by_their_messages, faults=Level.JOBS),
    Planted(defect=job_defects.a_taken_session_is_never_asked_for_again, faults=Level.JOBS),
    Planted(defect=job_defects.idle_runners_come_on_top_of_the_maximum, faults=Level.JOBS),
    Planted(defect=job_defects.the_capacity_told_is_the_one_of_the_template, faults=Level.JOBS),
    Planted(defect=job_defects.every_replica_holds_the_lease, faults=Level.JOBS),
    Planted(defect=job_defects.a_lost_lease_stops_no_listener, faults=Level.JOBS),
    Planted(defect=job_defects.a_forged_webhook_is_believed, faults=Level.JOBS),
    Planted(defect=job_defects.strangers_are_allowed, faults=Level.JOBS),
)
RARE = (
    Planted(defect=defects.an_advance_after_the_look_does_not_spare, faults=Level.SLOW, within=200),
    Planted(defect=defects.a_beat_after_the_look_does_not_spare, faults=Level.ABSENCE, within=200),
    Planted(defect=defects.a_short_find_is_the_whole_truth, faults=Level.ANSWERS, within=100),
    Planted(defect=defects.attaching_counts_as_a_heartbeat, faults=Level.DEATHS, within=80),
    Planted(defect=job_defects.a_lost_webhook_is_never_made_up_for, faults=Level.JOBS, within=160),
)
"""One seed in fifteen or more meets what these break: `make soak` plants them."""
ALL = [*PLANTED, *(pytest.param(planted, marks=pytest.mark.soak) for planted in RARE)]


@pytest.mark.parametrize("planted", ALL, ids=lambda planted: planted.defect.__name__)
def test_the_simulation_finds(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.defect(monkeypatch)
    assert any(
        not simulate(seed=seed, faults=planted.faults, hours=HOURS, replicas=planted.replicas).ok
        for seed in range(1, 1 + planted.within)
    )


@pytest.mark.parametrize(
    ("faults", "replicas"), sorted({(planted.faults, planted.replicas) for planted in PLANTED})
)
def test_without_a_defect_the_first_seed_breaks_nothing(faults: Level, replicas: int) -> None:
    """So that what is found above is the defect, not the storm."""
    result = simulate(seed=1, faults=faults, hours=HOURS, replicas=replicas)
    assert result.ok, f"{result.broken}: {result.explanation}"
