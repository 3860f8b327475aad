"""The simulation must find bugs: each planted defect breaks a promise within a few seeds of some storm."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from muster.simulation.plan import Level
from muster.simulation.simulate import simulate
from tests.simulation import BUSY, defects

HOURS = 0.25
REPLICAS = 3
pytestmark = pytest.mark.timeout(BUSY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    defect: Callable[[pytest.MonkeyPatch], None]
    faults: Level
    within: int = 10
    """Seeds."""
    first: int = 1
    """The one that finds it at present. A change of the simulation may move it; then the next are tried."""


PLANTED = (
    Planted(defect=defects.fencing_is_dropped, faults=Level.PAUSES, within=20, first=4),
    Planted(defect=defects.a_takeover_keeps_the_epoch, faults=Level.PAUSES, first=3),
    Planted(defect=defects.the_reservation_is_skipped, faults=Level.CROWD),
    Planted(defect=defects.a_claim_ignores_the_state, faults=Level.CROWD),
    Planted(defect=defects.a_claim_ignores_the_owner, faults=Level.CROWD, within=20),
    Planted(defect=defects.the_minimum_is_kept_for_whoever_came_first, faults=Level.LIGHT),
    Planted(defect=defects.claims_are_held_in_the_queue, faults=Level.CROWD),
    Planted(defect=defects.room_is_not_given_back, faults=Level.CROWD),
    Planted(defect=defects.the_record_ends_with_the_call, faults=Level.LIGHT),
    Planted(defect=defects.not_found_is_gone_at_once, faults=Level.ANSWERS, within=20, first=2),
    Planted(defect=defects.a_short_find_is_the_whole_truth, faults=Level.ANSWERS, within=20, first=29),
    Planted(defect=defects.room_is_freed_while_the_call_is_open, faults=Level.ANSWERS, first=3),
    Planted(defect=defects.every_repeat_has_a_new_token, faults=Level.ANSWERS),
    Planted(defect=defects.a_signal_counts_without_its_assignment, faults=Level.ECHOES),
    Planted(defect=defects.any_detach_counts_for_the_present_assignment, faults=Level.ECHOES),
    Planted(defect=defects.the_commit_does_not_wait_for_attached, faults=Level.LIGHT),
    Planted(defect=defects.resuming_forgets_what_is_held, faults=Level.HEAVY, first=4),
    Planted(defect=defects.foreign_machines_are_orphans_too, faults=Level.HEAVY),
    Planted(defect=defects.a_loss_does_not_move_the_operation, faults=Level.MEDDLERS, within=20),
    Planted(defect=defects.a_cancel_beats_the_commit, faults=Level.MEDDLERS, within=20),
    Planted(defect=defects.a_lost_answer_is_acknowledged, faults=Level.HEAVY, first=8),
    Planted(defect=defects.the_head_of_the_queue_is_never_resumed, faults=Level.CROWD, first=2),
    Planted(defect=defects.orphans_are_left_alone, faults=Level.STRAYS),
    Planted(defect=defects.the_commit_ignores_heartbeats, faults=Level.DEATHS, within=20, first=2),
    Planted(defect=defects.attaching_counts_as_a_heartbeat, faults=Level.DEATHS, within=20, first=4),
    Planted(defect=defects.the_sweep_ignores_advance_at_the_deadline, faults=Level.SLOW),
    Planted(defect=defects.an_extension_has_no_ceiling, faults=Level.SLOW),
    Planted(defect=defects.a_stall_counts_from_the_join, faults=Level.SLOW),
    Planted(defect=defects.a_boot_that_stands_still_is_not_looked_for, faults=Level.SLOW, first=2),
    Planted(defect=defects.an_advance_after_the_look_does_not_spare, faults=Level.SLOW, first=3),
    Planted(defect=defects.the_rescued_go_back_to_their_operation, faults=Level.SLOW),
    Planted(defect=defects.starting_takes_a_ready_node_back, faults=Level.SLOW, first=2),
    Planted(defect=defects.silence_counts_while_nobody_watched, faults=Level.ABSENCE),
    Planted(defect=defects.the_lost_are_counted_without_the_watch, faults=Level.ABSENCE, within=20, first=3),
    Planted(defect=defects.a_deadline_passes_while_nobody_watched, faults=Level.ABSENCE, within=20),
    Planted(defect=defects.the_grace_never_ends, faults=Level.ABSENCE, within=20),
    Planted(defect=defects.the_living_stay_offline, faults=Level.ABSENCE, first=14),
    Planted(defect=defects.a_beat_after_the_look_does_not_spare, faults=Level.ABSENCE, first=37),
    Planted(defect=defects.the_dead_can_be_claimed, faults=Level.DEATHS, within=20, first=8),
)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.defect.__name__)
def test_the_simulation_finds(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.defect(monkeypatch)
    assert any(
        not simulate(seed=seed, faults=planted.faults, hours=HOURS, replicas=REPLICAS).ok
        for seed in range(planted.first, planted.first + planted.within)
    )


@pytest.mark.parametrize("faults", sorted({planted.faults for planted in PLANTED}))
def test_without_a_defect_the_first_seed_breaks_nothing(faults: Level) -> None:
    """So that what is found above is the defect, not the storm."""
    result = simulate(seed=1, faults=faults, hours=HOURS, replicas=REPLICAS)
    assert result.ok, f"{result.broken}: {result.explanation}"
