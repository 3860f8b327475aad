"""One replica at a time performs a duty; another takes over when its lease lapses."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.controllers.duties import LEASE_TICKS, RENEWALS, TICK_MOST, Duties, Duty
from muster.domain.errors import ProviderError, StoreUnavailable
from muster.domain.lifecycle import NodeState
from muster.domain.redaction import MARK
from muster.ports.clock import Clock
from muster.ports.provider import Machine
from muster.ports.store import DutyLease
from muster_simulation.life import Life
from tests.stage import Manner, Stage, staged

EVERY = 10.0


class Work:
    """Remembers who did it when; fails once if it is told to."""

    def __init__(self, stage: Stage) -> None:
        self.done: list[tuple[str, float]] = []
        self.fail: Exception | None = None
        self._stage = stage

    def by(self, name: str) -> "By":
        return By(self, name)

    def do(self, name: str) -> None:
        self.done.append((name, self._stage.now))
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error


class By:
    def __init__(self, work: Work, name: str) -> None:
        self._work = work
        self._name = name

    async def reconcile(self) -> None:
        self._work.do(self._name)


class Skewed:
    """A replica's own clock, which a test sets."""

    def __init__(self, clock: Clock) -> None:
        self.by = 0.0
        self._clock = clock

    def now(self) -> float:
        return self._clock.now() + self.by

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def start(stage: Stage, work: Work, name: str, every: float = EVERY, *, clock: Clock | None = None) -> Life:
    life = Life(name)
    ports = replace(stage.ports, clock=clock or stage.ports.clock)
    duties = Duties(
        ports, name, (Duty(name="sweep", every=every, work=work.by(name)),), lease=stage.settings.lease
    )
    stage.keep(life.spawn(duties.run()))
    return life


@staged
async def test_one_of_two_replicas_performs_a_duty(stage: Stage) -> None:
    work = Work(stage)
    start(stage, work, "one")
    start(stage, work, "two")

    await stage.pass_time(600.0)

    assert len({name for name, _ in work.done}) == 1
    assert 59 <= len(work.done) <= 61


@staged
async def test_another_takes_over_when_the_lease_of_a_dead_one_lapsed(stage: Stage) -> None:
    work = Work(stage)
    lives = {name: start(stage, work, name) for name in ("one", "two")}
    await stage.pass_time(100.0)
    holder, last = work.done[-1]
    lives[holder].kill()

    await stage.pass_time(200.0)

    name, since = next((name, at) for name, at in work.done if at > last)
    assert name != holder
    assert (LEASE_TICKS - 1) * EVERY <= since - last <= (LEASE_TICKS + 1) * EVERY + stage.settings.lease


@staged
async def test_a_renewal_that_is_refused_ends_the_holding_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = stage.store.lease_duties
    refused: list[float] = []

    async def noted(owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        held = await real(owner, duties, now=now)
        if not held:
            refused.append(now)
        return held

    monkeypatch.setattr(stage.ports.store, "lease_duties", noted)
    work = Work(stage)
    start(stage, work, "one")
    await stage.pass_time(100.0)
    await stage.store.expire_leases("one")
    assert await stage.store.lease_duty("sweep", "two", now=stage.now, until=stage.now + 300.0)
    assert not refused

    await stage.pass_time(LEASE_TICKS * EVERY)

    assert refused[0] < stage.now - 2 * EVERY, "it hears of it well within its own lease"
    assert work.done[-1][1] <= refused[0]


@staged
async def test_one_replica_performs_a_duty_after_the_holders_clock_was_set_back(stage: Stage) -> None:
    work = Work(stage)
    clocks = {name: Skewed(stage.ports.clock) for name in ("one", "two")}
    for name, clock in clocks.items():
        start(stage, work, name, clock=clock)
    await stage.pass_time(100.0)
    holder, _ = work.done[-1]
    clocks[holder].by = -600.0
    since = stage.now

    await stage.pass_time(500.0)

    assert {name for name, at in work.done if at > since + 2 * EVERY} == set(clocks) - {holder}


@staged
async def test_a_lease_taken_by_a_clock_ahead_does_not_outlast_the_clocks_correction(stage: Stage) -> None:
    work = Work(stage)
    clocks = {name: Skewed(stage.ports.clock) for name in ("one", "two")}
    lives = {name: start(stage, work, name, clock=clock) for name, clock in clocks.items()}
    await stage.pass_time(100.0)
    holder, _ = work.done[-1]
    clocks[holder].by = 3600.0
    await stage.pass_time(60.0)
    clocks[holder].by = 0.0
    await stage.pass_time(60.0)
    assert work.done[-1][0] == holder and work.done[-1][1] > stage.now - 2 * EVERY
    lives[holder].kill()
    since = stage.now

    await stage.pass_time(200.0)

    name, at = next((name, at) for name, at in work.done if at > since)
    assert name != holder
    assert at - since <= (LEASE_TICKS + 1) * EVERY + stage.settings.lease


@staged
async def test_a_tick_that_lasts_longer_than_its_lease_keeps_the_duty(stage: Stage) -> None:
    performed: list[str] = []

    class Slow:
        def __init__(self, name: str) -> None:
            self._name = name

        async def reconcile(self) -> None:
            performed.append(self._name)
            await stage.ports.clock.sleep(TICK_MOST - EVERY)

    for name in ("one", "two"):
        duty = Duty(name="sweep", every=1.0, work=Slow(name))
        stage.keep(Life(name).spawn(Duties(stage.ports, name, (duty,), lease=stage.settings.lease).run()))
    await stage.pass_time(10 * TICK_MOST)

    assert len(performed) > 5
    assert len(set(performed)) == 1


@staged
async def test_a_slow_duty_is_leased_for_several_of_its_intervals(stage: Stage) -> None:
    work = Work(stage)
    every = 300.0
    lives = {name: start(stage, work, name, every) for name in ("one", "two")}
    await stage.pass_time(1000.0)
    holder, last = work.done[-1]
    lives[holder].kill()

    await stage.pass_time(2000.0)

    since = next(at for _, at in work.done if at > last)
    assert (LEASE_TICKS - 1) * every <= since - last <= (LEASE_TICKS + 1) * every


@staged
async def test_a_replica_that_was_stopped_beyond_its_lease_does_not_hold_the_duty_any_more(
    stage: Stage,
) -> None:
    work = Work(stage)
    lives = {name: start(stage, work, name) for name in ("one", "two")}
    await stage.pass_time(100.0)
    holder, _ = work.done[-1]
    lives[holder].pause(asyncio.get_running_loop().time() + 300.0)

    await stage.pass_time(600.0)

    after = [name for name, at in work.done if at > stage.now - 250.0]
    assert holder not in after
    assert after


@staged
async def test_a_duty_that_fails_is_performed_again_at_its_next_tick(stage: Stage) -> None:
    work = Work(stage)
    start(stage, work, "one")
    await stage.pass_time(50.0)
    done = len(work.done)
    work.fail = StoreUnavailable("the store is away")
    await stage.pass_time(20.0)
    work.fail = ZeroDivisionError("a bug")
    await stage.pass_time(20.0)

    assert len(work.done) == done + 4
    assert [(record.levelno, record.getMessage()) for record in stage.complaints] == [
        (logging.ERROR, "duty failed")
    ]
    stage.complaints.clear()


@staged
async def test_a_listing_that_never_ends_does_not_end_the_duty_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.template()
    hung: list[float] = []
    real = stage.provider.list

    async def listing() -> AsyncIterator[Machine]:
        if len(hung) < 2:  # once for each of the duties that list
            hung.append(stage.now)
            await stage.pass_time(1e8)
        async for machine in real():
            yield machine

    monkeypatch.setattr(stage.provider, "list", listing)
    installation = await stage.store.installation()
    stage.agents.script(Manner(join=False))
    stage.cloud.make("inst/op-lost.1", installation.id)
    await stage.replica()

    await stage.count(1, NodeState.TERMINATED, within=7200.0)

    assert len(hung) == 2
    assert stage.cloud.live() == []


@staged
async def test_a_tick_that_hangs_is_stopped(stage: Stage) -> None:
    began: list[float] = []
    cut: list[float] = []

    class Hanging:
        async def reconcile(self) -> None:
            began.append(stage.now)
            try:
                await stage.ports.clock.sleep(1e6)
            finally:
                cut.append(stage.now)

    duty = Duty(name="sweep", every=5.0, work=Hanging())
    stage.keep(Life("one").spawn(Duties(stage.ports, "one", (duty,), lease=stage.settings.lease).run()))

    async def ended() -> bool:
        return bool(cut)

    await stage.until(ended, within=10 * TICK_MOST)
    assert cut[0] == pytest.approx(began[0] + TICK_MOST, abs=0.1)


@staged
async def test_one_write_renews_all_duties_of_a_replica_and_asks_for_the_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = stage.store.lease_duties
    asked: list[tuple[str, int, int]] = []

    async def counted(owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        held = await real(owner, duties, now=now)
        asked.append((owner, len(duties), len(held)))
        return held

    monkeypatch.setattr(stage.ports.store, "lease_duties", counted)
    work = Work(stage)
    duties = tuple(Duty(name=f"duty-{each}", every=5.0, work=work.by(f"{each}")) for each in range(20))
    for name in ("one", "two"):
        stage.keep(Life(name).spawn(Duties(stage.ports, name, duties, lease=stage.settings.lease).run()))
    await stage.pass_time(60.0)
    asked.clear()
    await stage.pass_time(60.0)

    turns = round(60.0 / stage.settings.lease * RENEWALS)
    for name in ("one", "two"):
        mine = [each[1:] for each in asked if each[0] == name]
        assert turns - 1 <= len(mine) <= turns + 1
        assert {wanted for wanted, _ in mine} == {20}
        assert 0 < mine[0][1] < 20, "both have some"
    assert sum(held for _, _, held in asked) <= 20 * (turns + 1)
    assert len({name for name, at in work.done if at > stage.now - 30.0}) == 20


@staged
async def test_a_duty_goes_on_while_the_store_is_away_until_its_lease_is_over(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(stage)
    start(stage, work, "one")
    await stage.pass_time(100.0)

    async def away(*_: Any, **__: Any) -> Sequence[str]:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(stage.ports.store, "lease_duties", away)
        gone = stage.now
        await stage.pass_time(300.0)
    assert gone < work.done[-1][1] <= gone + LEASE_TICKS * EVERY
    back = stage.now
    await stage.pass_time(2 * stage.settings.lease)
    assert back < work.done[-1][1]


@staged
async def test_what_kept_a_tick_from_its_end_is_told_with_the_next_and_then_no_more(stage: Stage) -> None:
    work = Work(stage)
    work.fail = ProviderError("cannot list: password=hunter22 is wrong\nand more")
    start(stage, work, "one")

    async def problem() -> str:
        return (await stage.ports.overview.ticks())[0].problem

    async def told(problem_now: str) -> None:
        async def known() -> bool:
            return await problem() == problem_now

        await stage.until(known, within=stage.settings.lease + 2 * EVERY)

    async def begun() -> bool:
        return bool(work.done)

    await stage.until(begun)
    assert await problem() == ""
    await told(f"ProviderError: cannot list: password={MARK} is wrong")
    await told("")
    work.fail = StoreUnavailable("cannot use the store at db.internal: its disk is full", why="it is full")
    # Viewers see this: where the store is stays in the log.
    await told("StoreUnavailable: cannot use the store: it is full; the server's log has more")
    await told("")
    ticks = [at for _, at in work.done]
    assert (await stage.ports.overview.ticks())[0].at in ticks[-2:]


class Broken:
    """Fails each time, with the same words."""

    def __init__(self, words: str) -> None:
        self._words = words

    async def reconcile(self) -> None:
        raise ProviderError(self._words)


def start_with_broken(stage: Stage, work: Work, words: str) -> None:
    duties = (
        Duty(name="broken", every=EVERY, work=Broken(words)),
        Duty(name="sweep", every=EVERY, work=work.by("one")),
    )
    stage.keep(Life("one").spawn(Duties(stage.ports, "one", duties, lease=stage.settings.lease).run()))


@staged
async def test_an_error_with_characters_that_no_store_takes_is_told_without_them(stage: Stage) -> None:
    work = Work(stage)
    start_with_broken(stage, work, "cannot read 'a\udcff'")

    await stage.pass_time(300.0)

    assert len(work.done) >= 300.0 / EVERY - 1
    problems = {tick.name: tick.problem for tick in await stage.ports.overview.ticks()}
    assert problems == {"broken": "ProviderError: cannot read 'a?'", "sweep": ""}


@staged
async def test_a_text_that_the_store_cannot_take_costs_no_lease(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = stage.store.lease_duties

    async def choosy(owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        if any(each.problem for each in duties):
            raise UnicodeError("no such text")
        return await real(owner, duties, now=now)

    monkeypatch.setattr(stage.ports.store, "lease_duties", choosy)
    work = Work(stage)
    start_with_broken(stage, work, "some words")

    await stage.pass_time(300.0)

    assert len(work.done) >= 300.0 / EVERY - 1
    assert {record.getMessage() for record in stage.complaints} == {"cannot lease duties"}
    stage.complaints.clear()
