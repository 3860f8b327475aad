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
from tests.harness import Harness, with_harness


@dataclass
class Poll:
    """Notes who works from when to when, and whether it still thinks that it holds the duty."""

    harness: Harness
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
        self.begun.append((name, self.harness.now))
        self.working.append(name)
        assert len(self.working) == 1, "two replicas work at once"
        try:
            while True:
                if self.fail is not None:
                    error, self.fail = self.fail, None
                    raise error
                await self.harness.clock.sleep(1.0)
                if not held():
                    self.late.append(name)
        finally:
            self.working.remove(name)
            self.cut.append((name, self.harness.now))


@dataclass
class By:
    poll: Poll
    name: str

    async def wanted(self) -> Sequence[StandingDuty]:
        async def perform(held: Held) -> None:
            await self.poll.perform(self.name, held)

        return [StandingDuty(name=each, content=of, perform=perform) for each, of in self.poll.wants.items()]


def start(harness: Harness, poll: Poll, name: str) -> Life:
    life = Life(name)
    keeper = StandingDutyKeeper(harness.ports, name, [poll.by(name)], lease=harness.settings.lease)
    harness.keep(life.spawn(keeper.run()))
    return life


@with_harness
async def test_one_of_two_replicas_works_and_goes_on_far_beyond_one_lease(harness: Harness) -> None:
    poll = Poll(harness)
    start(harness, poll, "one")
    start(harness, poll, "two")
    await harness.pass_time(600.0)
    assert len(poll.begun) == 1 and not poll.cut and not poll.late


@with_harness
async def test_another_replica_begins_when_the_lease_of_a_dead_one_lapsed(harness: Harness) -> None:
    poll = Poll(harness)
    lives = {name: start(harness, poll, name) for name in ("one", "two")}
    await harness.pass_time(100.0)
    (holder, _), died_at = poll.begun[0], harness.now
    lives[holder].kill()
    poll.working.clear()
    await harness.pass_time(100.0)
    (name, since) = poll.begun[1]
    assert name != holder
    assert since - died_at <= harness.settings.lease + LOOK_EVERY


@with_harness
async def test_a_replica_that_was_stopped_beyond_its_lease_is_told_before_it_does_anything(
    harness: Harness,
) -> None:
    poll = Poll(harness)
    lives = {name: start(harness, poll, name) for name in ("one", "two")}
    await harness.pass_time(100.0)
    holder = poll.begun[0][0]
    poll.working.clear()  # it stands still
    lives[holder].pause(asyncio.get_running_loop().time() + 60.0)
    await harness.pass_time(50.0)
    assert poll.working != [holder] and len(poll.begun) == 2
    poll.working.append(holder)
    await harness.pass_time(60.0)
    assert set(poll.late) <= {holder}, "and only the one that was stopped"
    assert [name for name, _ in poll.cut] == [holder]


@with_harness
async def test_a_store_that_does_not_answer_ends_the_work_before_the_lease_does(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = Poll(harness)
    start(harness, poll, "one")
    await harness.pass_time(30.0)

    async def away(*_: Any, **__: Any) -> bool:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(harness.ports.store, "lease_duty", away)
    since = harness.now
    await harness.pass_time(60.0)
    assert poll.cut and poll.cut[0][1] - since <= harness.settings.lease
    assert not poll.late


@with_harness
async def test_work_that_fails_begins_again_after_a_pause_and_its_problem_is_told(harness: Harness) -> None:
    poll = Poll(harness)
    poll.fail = ProviderError("cannot listen: no answer")
    start(harness, poll, "one")
    await harness.pass_time(5.0)
    assert len(poll.begun) == 2
    assert [tick.problem for tick in await harness.ports.overview.ticks()] == [
        "ProviderError: cannot listen: no answer"
    ]
    poll.fail = ZeroDivisionError("a bug")
    await harness.pass_time(30.0)
    assert len(poll.begun) == 3
    assert [record.levelno for record in harness.complaints] == [logging.ERROR]
    harness.complaints.clear()


@with_harness
async def test_a_duty_that_is_not_wanted_any_more_ends_and_other_content_begins_anew(
    harness: Harness,
) -> None:
    poll = Poll(harness)
    start(harness, poll, "one")
    await harness.pass_time(30.0)
    poll.wants = {"poll": 2}
    await harness.pass_time(LOOK_EVERY + 1.0)
    assert len(poll.begun) == 2 and len(poll.cut) == 1
    poll.wants = {}
    await harness.pass_time(LOOK_EVERY + 1.0)
    assert poll.working == []
    assert await harness.store.lease_duty("poll", "two", now=harness.now, until=harness.now + 1.0), (
        "given back"
    )
