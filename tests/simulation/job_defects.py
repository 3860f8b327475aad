"""Planted defects in what serves jobs, for the rules of `muster_simulation.invariants.job_rules`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.controllers.standing_duties import StandingDutyKeeper
from muster.integrations.github import set_listener, set_scaling, set_step, webhooks
from muster.integrations.github.job_intake import JobIntake
from muster.integrations.github.job_lookup import JobLookup
from muster.integrations.github.scale_set_shapes import ASSIGNED, COMPLETED, Message
from muster.integrations.github.scale_sets import SetSession
from muster.integrations.github.set_heard import Heard, entries_of
from muster.integrations.github.set_scaling import Bounds, Demand, Plan, SetRunnerState
from muster.integrations.github.set_step import SetLease, SetStep

Patch = pytest.MonkeyPatch


def jobs_are_counted_by_their_messages(patch: Patch) -> None:
    """Some of them an earlier session acknowledged."""

    async def count(self: SetStep, session: SetSession, heard: Heard, message: Message) -> None:
        kinds = [entry.message_type for entry in entries_of(message)]
        more = kinds.count(ASSIGNED) - kinds.count(COMPLETED)
        assigned = max(0, heard.statistics.total_assigned_jobs + more)
        heard.count_assigned(assigned, now=self._clock.now())

    real = Heard.count

    def counted(self: Heard, said: Any, *, now: float) -> None:
        if said.total_registered_runners == 0 and said.total_running_jobs == 0:
            real(self, said, now=now)

    patch.setattr(SetStep, "_count", count)
    patch.setattr(Heard, "count", counted)


def a_taken_session_is_never_asked_for_again(patch: Patch) -> None:
    patch.setattr(set_listener, "SESSION_EVERY", 1e9)


def a_lost_webhook_is_never_made_up_for(patch: Patch) -> None:
    async def reconcile(_self: JobLookup) -> None:
        return

    patch.setattr(JobLookup, "reconcile", reconcile)


def idle_runners_come_on_top_of_the_maximum(patch: Patch) -> None:
    real = set_scaling.plan

    def plan(demand: Demand, runners: Sequence[SetRunnerState], bounds: Bounds, *, now: float) -> Plan:
        return real(demand, runners, replace(bounds, most=bounds.most + bounds.min_idle), now=now)

    patch.setattr(set_step, "plan", plan)


def the_capacity_told_is_the_one_of_the_template(patch: Patch) -> None:
    patch.setattr(set_step, "capacity", lambda room, _most: room.cap)


def every_replica_holds_the_lease(patch: Patch) -> None:
    real = StandingDutyKeeper._renewed

    async def renewed(self: StandingDutyKeeper, duty: Any, lease: Any, *, tolerant: bool = False) -> bool:
        await real(self, duty, lease, tolerant=tolerant)
        lease.until = self._clock.now() + self._term
        return True

    patch.setattr(StandingDutyKeeper, "_renewed", renewed)


def a_lost_lease_stops_no_listener(patch: Patch) -> None:
    async def renew(self: StandingDutyKeeper, duty: Any, lease: Any) -> None:
        while True:
            await self._clock.sleep(self._term / 3)
            await self._renewed(duty, lease, tolerant=True)

    patch.setattr(StandingDutyKeeper, "_renew", renew)
    patch.setattr(SetLease, "check", lambda _self: None)


def a_forged_webhook_is_believed(patch: Patch) -> None:
    patch.setattr(webhooks, "is_signed", lambda *_: True)


def strangers_are_allowed(patch: Patch) -> None:
    patch.setattr(JobIntake, "allows", lambda _self, _repository: True)
