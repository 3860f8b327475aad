"""One replica at a time performs a standing duty, for as long as it holds the lease."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.controllers.standing_duties import LOOK_EVERY, StandingDutyKeeper
from muster.domain.errors import ProviderError, StoreUnavailable
from muster.ports.duties import Held, StandingDuty
from muster_simulation.life import Life
from tests.stage import Stage, staged


@dataclass
class Poll:
    """Notes who works from when to when, and whether it still thinks that it holds the duty."""

    stage: Stage
    wants: dict[str, object] = field(default_factory=lambda: {"poll": 1})
    working: list[str] = field(default_factory=list)
    begun: list[tuple[str, float]] = field(default_factory=list)
    cut: list[tuple[str, float]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """Who went on although its lease was over."""
    fail: Exception | None = None

    def by(self, name: str) -> "By":
        return By(self, name)

    async def perform(self, name: str, held: Held) -> None:
        self.begun.append((name, self.stage.now))
        self.working.append(name)
        assert len(self.working) == 1, "two replicas work at once"
        try:
            while True:
                if self.fail is not None:
                    error, self.fail = self.fail, None
                    raise error
                await self.stage.clock.sleep(1.0)
                if not held():
                    self.late.append(name)
        finally:
            self.working.remove(name)
            self.cut.append((name, self.stage.now))


@dataclass
class By:
    poll: Poll
    name: str

    async def wanted(self) -> Sequence[StandingDuty]:
        async def perform(held: Held) -> None:
            await self.poll.perform(self.name, held)

        return [StandingDuty(name=each, content=of, perform=perform) for each, of in self.poll.wants.items()]


def start(stage: Stage, poll: Poll, name: str) -> Life:
    life = Life(name)
    keeper = StandingDutyKeeper(stage.ports, name, [poll.by(name)], lease=stage.settings.lease)
    stage.keep(life.spawn(keeper.run()))
    return life


@staged
async def test_one_of_two_replicas_works_and_goes_on_far_beyond_one_lease(stage: Stage) -> None:
    poll = Poll(stage)
    start(stage, poll, "one")
    start(stage, poll, "two")
    await stage.pass_time(600.0)
    assert len(poll.begun) == 1 and not poll.cut and not poll.late


@staged
async def test_another_replica_begins_when_the_lease_of_a_dead_one_lapsed(stage: Stage) -> None:
    poll = Poll(stage)
    lives = {name: start(stage, poll, name) for name in ("one", "two")}
    await stage.pass_time(100.0)
    (holder, _), died_at = poll.begun[0], stage.now
    lives[holder].kill()
    poll.working.clear()
    await stage.pass_time(100.0)
    (name, since) = poll.begun[1]
    assert name != holder
    assert since - died_at <= stage.settings.lease + LOOK_EVERY


@staged
async def test_a_replica_that_was_stopped_beyond_its_lease_is_told_before_it_does_anything(
    stage: Stage,
) -> None:
    poll = Poll(stage)
    lives = {name: start(stage, poll, name) for name in ("one", "two")}
    await stage.pass_time(100.0)
    holder = poll.begun[0][0]
    poll.working.clear()  # it stands still
    lives[holder].pause(asyncio.get_running_loop().time() + 60.0)
    await stage.pass_time(50.0)
    assert poll.working != [holder] and len(poll.begun) == 2
    poll.working.append(holder)
    await stage.pass_time(60.0)
    assert set(poll.late) <= {holder}, "and only the one that was stopped"
    assert [name for name, _ in poll.cut] == [holder]


@staged
async def test_a_store_that_does_not_answer_ends_the_work_before_the_lease_does(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = Poll(stage)
    start(stage, poll, "one")
    await stage.pass_time(30.0)

    async def away(*_: Any, **__: Any) -> bool:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(stage.ports.store, "lease_duty", away)
    since = stage.now
    await stage.pass_time(60.0)
    assert poll.cut and poll.cut[0][1] - since <= stage.settings.lease
    assert not poll.late


@staged
async def test_work_that_fails_begins_again_after_a_pause_and_its_problem_is_told(stage: Stage) -> None:
    poll = Poll(stage)
    poll.fail = ProviderError("cannot listen: no answer")
    start(stage, poll, "one")
    await stage.pass_time(5.0)
    assert len(poll.begun) == 2
    assert [tick.problem for tick in await stage.ports.overview.ticks()] == [
        "ProviderError: cannot listen: no answer"
    ]
    poll.fail = ZeroDivisionError("a bug")
    await stage.pass_time(30.0)
    assert len(poll.begun) == 3
    assert [record.levelno for record in stage.complaints] == [logging.ERROR]
    stage.complaints.clear()


@staged
async def test_a_duty_that_is_not_wanted_any_more_ends_and_other_content_begins_anew(stage: Stage) -> None:
    poll = Poll(stage)
    start(stage, poll, "one")
    await stage.pass_time(30.0)
    poll.wants = {"poll": 2}
    await stage.pass_time(LOOK_EVERY + 1.0)
    assert len(poll.begun) == 2 and len(poll.cut) == 1
    poll.wants = {}
    await stage.pass_time(LOOK_EVERY + 1.0)
    assert poll.working == []
    assert await stage.store.lease_duty("poll", "two", now=stage.now, until=stage.now + 1.0), "given back"
