"""One replica at a time performs a duty; another takes over when its lease lapses."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.controllers.duties import LEASE_TICKS, RENEWALS, TICK_MOST, Duties
from muster.domain.errors import ProviderError, StoreUnavailable
from muster.domain.lifecycle import NodeState
from muster.domain.redaction import MARK
from muster.ports.clock import Clock
from muster.ports.duties import Duty
from muster.ports.provider import Machine
from muster.ports.store import DutyLease
from muster_simulation.life import Life
from tests.harness import Behaviour, Harness, with_harness

EVERY = 10.0


class Work:
    """Remembers who did it when; fails once if it is told to."""

    def __init__(self, harness: Harness) -> None:
        self.done: list[tuple[str, float]] = []
        self.fail: Exception | None = None
        self._stage = harness

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


def start(
    harness: Harness, work: Work, name: str, every: float = EVERY, *, clock: Clock | None = None
) -> Life:
    life = Life(name)
    ports = replace(harness.ports, clock=clock or harness.ports.clock)
    duties = Duties(
        ports, name, (Duty(name="sweep", every=every, work=work.by(name)),), lease=harness.settings.lease
    )
    harness.keep(life.spawn(duties.run()))
    return life


@with_harness
async def test_one_of_two_replicas_performs_a_duty(harness: Harness) -> None:
    work = Work(harness)
    start(harness, work, "one")
    start(harness, work, "two")

    await harness.pass_time(600.0)

    assert len({name for name, _ in work.done}) == 1
    assert 59 <= len(work.done) <= 61


@with_harness
async def test_another_takes_over_when_the_lease_of_a_dead_one_lapsed(harness: Harness) -> None:
    work = Work(harness)
    lives = {name: start(harness, work, name) for name in ("one", "two")}
    await harness.pass_time(100.0)
    holder, last = work.done[-1]
    lives[holder].kill()

    await harness.pass_time(200.0)

    name, since = next((name, at) for name, at in work.done if at > last)
    assert name != holder
    assert (LEASE_TICKS - 1) * EVERY <= since - last <= (LEASE_TICKS + 1) * EVERY + harness.settings.lease


@with_harness
async def test_a_renewal_that_is_refused_ends_the_holding_at_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = harness.store.lease_duties
    refused: list[float] = []

    async def noted(owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        held = await real(owner, duties, now=now)
        if not held:
            refused.append(now)
        return held

    monkeypatch.setattr(harness.ports.store, "lease_duties", noted)
    work = Work(harness)
    start(harness, work, "one")
    await harness.pass_time(100.0)
    await harness.store.expire_leases("one")
    assert await harness.store.lease_duty("sweep", "two", now=harness.now, until=harness.now + 300.0)
    assert not refused

    await harness.pass_time(LEASE_TICKS * EVERY)

    assert refused[0] < harness.now - 2 * EVERY, "it hears of it well within its own lease"
    assert work.done[-1][1] <= refused[0]


@with_harness
async def test_one_replica_performs_a_duty_after_the_holders_clock_was_set_back(harness: Harness) -> None:
    work = Work(harness)
    clocks = {name: Skewed(harness.ports.clock) for name in ("one", "two")}
    for name, clock in clocks.items():
        start(harness, work, name, clock=clock)
    await harness.pass_time(100.0)
    holder, _ = work.done[-1]
    clocks[holder].by = -600.0
    since = harness.now

    await harness.pass_time(500.0)

    assert {name for name, at in work.done if at > since + 2 * EVERY} == set(clocks) - {holder}


@with_harness
async def test_a_lease_taken_by_a_clock_ahead_does_not_outlast_the_clocks_correction(
    harness: Harness,
) -> None:
    work = Work(harness)
    clocks = {name: Skewed(harness.ports.clock) for name in ("one", "two")}
    lives = {name: start(harness, work, name, clock=clock) for name, clock in clocks.items()}
    await harness.pass_time(100.0)
    holder, _ = work.done[-1]
    clocks[holder].by = 3600.0
    await harness.pass_time(60.0)
    clocks[holder].by = 0.0
    await harness.pass_time(60.0)
    assert work.done[-1][0] == holder and work.done[-1][1] > harness.now - 2 * EVERY
    lives[holder].kill()
    since = harness.now

    await harness.pass_time(200.0)

    name, at = next((name, at) for name, at in work.done if at > since)
    assert name != holder
    assert at - since <= (LEASE_TICKS + 1) * EVERY + harness.settings.lease


@with_harness
async def test_a_tick_that_lasts_longer_than_its_lease_keeps_the_duty(harness: Harness) -> None:
    performed: list[str] = []

    class Slow:
        def __init__(self, name: str) -> None:
            self._name = name

        async def reconcile(self) -> None:
            performed.append(self._name)
            await harness.ports.clock.sleep(TICK_MOST - EVERY)

    for name in ("one", "two"):
        duty = Duty(name="sweep", every=1.0, work=Slow(name))
        harness.keep(
            Life(name).spawn(Duties(harness.ports, name, (duty,), lease=harness.settings.lease).run())
        )
    await harness.pass_time(10 * TICK_MOST)

    assert len(performed) > 5
    assert len(set(performed)) == 1


@with_harness
async def test_a_slow_duty_is_leased_for_several_of_its_intervals(harness: Harness) -> None:
    work = Work(harness)
    every = 300.0
    lives = {name: start(harness, work, name, every) for name in ("one", "two")}
    await harness.pass_time(1000.0)
    holder, last = work.done[-1]
    lives[holder].kill()

    await harness.pass_time(2000.0)

    since = next(at for _, at in work.done if at > last)
    assert (LEASE_TICKS - 1) * every <= since - last <= (LEASE_TICKS + 1) * every


@with_harness
async def test_a_replica_that_was_stopped_beyond_its_lease_does_not_hold_the_duty_any_more(
    harness: Harness,
) -> None:
    work = Work(harness)
    lives = {name: start(harness, work, name) for name in ("one", "two")}
    await harness.pass_time(100.0)
    holder, _ = work.done[-1]
    lives[holder].pause(asyncio.get_running_loop().time() + 300.0)

    await harness.pass_time(600.0)

    after = [name for name, at in work.done if at > harness.now - 250.0]
    assert holder not in after
    assert after


@with_harness
async def test_a_duty_that_fails_is_performed_again_at_its_next_tick(harness: Harness) -> None:
    work = Work(harness)
    start(harness, work, "one")
    await harness.pass_time(50.0)
    done = len(work.done)
    work.fail = StoreUnavailable("the store is away")
    await harness.pass_time(20.0)
    work.fail = ZeroDivisionError("a bug")
    await harness.pass_time(20.0)

    assert len(work.done) == done + 4
    assert [(record.levelno, record.getMessage()) for record in harness.complaints] == [
        (logging.ERROR, "duty failed")
    ]
    harness.complaints.clear()


@with_harness
async def test_a_listing_that_never_ends_does_not_end_the_duty_for_ever(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.template()
    hung: list[float] = []
    real = harness.provider.list

    async def listing() -> AsyncIterator[Machine]:
        if len(hung) < 2:  # once for each of the duties that list
            hung.append(harness.now)
            await harness.pass_time(1e8)
        async for machine in real():
            yield machine

    monkeypatch.setattr(harness.provider, "list", listing)
    installation = await harness.store.installation()
    harness.agents.script(Behaviour(join=False))
    harness.cloud.make("inst/op-lost.1", installation.id)
    await harness.replica()

    await harness.count(1, NodeState.TERMINATED, within=7200.0)

    assert len(hung) == 2
    assert harness.cloud.live() == []


@with_harness
async def test_a_tick_that_hangs_is_stopped(harness: Harness) -> None:
    began: list[float] = []
    cut: list[float] = []

    class Hanging:
        async def reconcile(self) -> None:
            began.append(harness.now)
            try:
                await harness.ports.clock.sleep(1e6)
            finally:
                cut.append(harness.now)

    duty = Duty(name="sweep", every=5.0, work=Hanging())
    harness.keep(Life("one").spawn(Duties(harness.ports, "one", (duty,), lease=harness.settings.lease).run()))

    async def ended() -> bool:
        return bool(cut)

    await harness.until(ended, within=10 * TICK_MOST)
    assert cut[0] == pytest.approx(began[0] + TICK_MOST, abs=0.1)


@with_harness
async def test_one_write_renews_all_duties_of_a_replica_and_asks_for_the_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = harness.store.lease_duties
    asked: list[tuple[str, int, int]] = []

    async def counted(owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        held = await real(owner, duties, now=now)
        asked.append((owner, len(duties), len(held)))
        return held

    monkeypatch.setattr(harness.ports.store, "lease_duties", counted)
    work = Work(harness)
    duties = tuple(Duty(name=f"duty-{each}", every=5.0, work=work.by(f"{each}")) for each in range(20))
    for name in ("one", "two"):
        harness.keep(
            Life(name).spawn(Duties(harness.ports, name, duties, lease=harness.settings.lease).run())
        )
    await harness.pass_time(60.0)
    asked.clear()
    await harness.pass_time(60.0)

    turns = round(60.0 / harness.settings.lease * RENEWALS)
    for name in ("one", "two"):
        mine = [each[1:] for each in asked if each[0] == name]
        assert turns - 1 <= len(mine) <= turns + 1
        assert {wanted for wanted, _ in mine} == {20}
        assert 0 < mine[0][1] < 20, "both have some"
    assert sum(held for _, _, held in asked) <= 20 * (turns + 1)
    assert len({name for name, at in work.done if at > harness.now - 30.0}) == 20


@with_harness
async def test_a_duty_goes_on_while_the_store_is_away_until_its_lease_is_over(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(harness)
    start(harness, work, "one")
    await harness.pass_time(100.0)

    async def away(*_: Any, **__: Any) -> Sequence[str]:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(harness.ports.store, "lease_duties", away)
        gone = harness.now
        await harness.pass_time(300.0)
    assert gone < work.done[-1][1] <= gone + LEASE_TICKS * EVERY
    back = harness.now
    await harness.pass_time(2 * harness.settings.lease)
    assert back < work.done[-1][1]


@with_harness
async def test_what_kept_a_tick_from_its_end_is_told_with_the_next_and_then_no_more(harness: Harness) -> None:
    work = Work(harness)
    work.fail = ProviderError("cannot list: password=hunter22 is wrong\nand more")
    start(harness, work, "one")

    async def problem() -> str:
        return (await harness.ports.overview.ticks())[0].problem

    async def told(problem_now: str) -> None:
        async def known() -> bool:
            return await problem() == problem_now

        await harness.until(known, within=harness.settings.lease + 2 * EVERY)

    async def begun() -> bool:
        return bool(work.done)

    await harness.until(begun)
    assert await problem() == ""
    await told(f"ProviderError: cannot list: password={MARK} is wrong")
    await told("")
    work.fail = StoreUnavailable("cannot use the store at db.internal: its disk is full", why="it is full")
    # Viewers see this: where the store is stays in the log.
    await told("StoreUnavailable: cannot use the store: it is full; the server's log has more")
    await told("")
    ticks = [at for _, at in work.done]
    assert (await harness.ports.overview.ticks())[0].at in ticks[-2:]


class Broken:
    """Fails each time, with the same words."""

    def __init__(self, words: str) -> None:
        self._words = words

    async def reconcile(self) -> None:
        raise ProviderError(self._words)


def start_with_broken(harness: Harness, work: Work, words: str) -> None:
    duties = (
        Duty(name="broken", every=EVERY, work=Broken(words)),
        Duty(name="sweep", every=EVERY, work=work.by("one")),
    )
    harness.keep(Life("one").spawn(Duties(harness.ports, "one", duties, lease=harness.settings.lease).run()))


@with_harness
async def test_an_error_with_characters_that_no_store_takes_is_told_without_them(harness: Harness) -> None:
    work = Work(harness)
    start_with_broken(harness, work, "cannot read 'a\udcff'")

    await harness.pass_time(300.0)

    assert len(work.done) >= 300.0 / EVERY - 1
    problems = {tick.name: tick.problem for tick in await harness.ports.overview.ticks()}
    assert problems == {"broken": "ProviderError: cannot read 'a?'", "sweep": ""}


@with_harness
async def test_a_text_that_the_store_cannot_take_costs_no_lease(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = harness.store.lease_duties

    async def choosy(owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        if any(each.problem for each in duties):
            raise UnicodeError("no such text")
        return await real(owner, duties, now=now)

    monkeypatch.setattr(harness.ports.store, "lease_duties", choosy)
    work = Work(harness)
    start_with_broken(harness, work, "some words")

    await harness.pass_time(300.0)

    assert len(work.done) >= 300.0 / EVERY - 1
    assert {record.getMessage() for record in harness.complaints} == {"cannot lease duties"}
    harness.complaints.clear()
