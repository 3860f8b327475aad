"""A key gives the operation that was made under it, whatever has changed since, and answers can be lost."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain.errors import Ambiguous, IdempotencyMismatch, InvalidRequest, StoreUnavailable
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.domain.run_decisions import RESERVED, release_key
from tests.harness import Behaviour, Harness, Outcome, Replica, with_harness


def loses_its_answer(harness: Harness, monkeypatch: pytest.MonkeyPatch, *, written: bool) -> None:
    """The next submission is not answered; it was written all the same, or it was not."""
    real = harness.store.submit

    async def submit(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(harness.store, "submit", real)
        if written:
            await real(*args, **kwargs)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(harness.store, "submit", submit)


async def release_run(replica: Replica, run: str, key: str, *, latest: bool = False) -> Operation:
    return await replica.ask(replica.plane.desk.release_run(run, key=key, latest=latest))


@with_harness
async def test_a_submission_whose_answer_was_lost_is_driven_at_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.template()
    await harness.warm(2)
    replica, _ = await harness.replica(), await harness.replica()
    loses_its_answer(harness, monkeypatch, written=True)
    began = harness.now

    with pytest.raises(StoreUnavailable):
        await replica.provision(1, key="k", timeout=45.0)
    (written,) = await harness.of_kind(Kind.PROVISION)
    operation = await harness.succeeded(written)  # even if no caller asks again

    assert harness.now - began < 5.0
    assert (await replica.provision(1, key="k", timeout=45.0)).id == operation.id
    assert operation.epoch == 1  # no replica had to take it over


@with_harness
async def test_a_submission_that_never_happened_is_forgotten(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.template()
    replica = await harness.replica()
    loses_its_answer(harness, monkeypatch, written=False)

    with pytest.raises(StoreUnavailable):
        await replica.provision(1, key="k")
    await harness.pass_time(30.0)

    assert await harness.of_kind(Kind.PROVISION) == []
    assert replica.plane._driver.driving == 0
    await harness.succeeded(await replica.provision(1, key="k"))


@with_harness
async def test_the_same_key_again_does_not_restart_what_is_being_driven(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(Outcome(after=20.0))
    replica = await harness.replica()
    operation = await replica.provision(1, key="k")
    await harness.pass_time(1.0)

    for _ in range(5):
        assert (await replica.provision(1, key="k")).id == operation.id
        await harness.pass_time(1.0)

    await harness.succeeded(operation)
    assert len(harness.cloud.launches) == 1  # a driver that starts again would call again
    ended = await replica.provision(1, key="k")
    assert (ended.id, ended.status) == (operation.id, Status.SUCCEEDED)
    assert replica.plane._driver.driving == 0


@pytest.mark.parametrize("latest", [False, True])
@with_harness
async def test_a_key_gives_the_same_release_after_the_run_was_tried_again(
    harness: Harness, latest: bool
) -> None:
    await harness.template()
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1, run="ci-7"))
    first = await harness.succeeded(await release_run(replica, "ci-7", "k"))
    await harness.succeeded(await replica.provision(1, run="ci-7"))

    again = await release_run(replica, "ci-7", "k", latest=latest)

    assert again.id == first.id
    assert len(await harness.nodes(NodeState.RUNNING)) == 1
    with pytest.raises(Ambiguous):
        await release_run(replica, "ci-7", "another")
    with pytest.raises(IdempotencyMismatch):
        await release_run(replica, "ci-8", "k")


@with_harness
async def test_a_key_gives_the_same_provision_after_its_provider_went_away(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    provision = await harness.succeeded(await replica.provision(1, key="p"))
    release = await harness.succeeded(await replica.release(provision.id, key="r"))
    run = await harness.ended(await replica.run(1, run="run-2", key="x"))
    replica.life.kill()
    harness.ports = replace(harness.ports, providers={})
    bare = await harness.replica()

    assert (await bare.provision(1, key="p")).id == provision.id
    assert (await bare.release(provision.id, key="r")).id == release.id
    assert (await bare.run(1, run="run-2", key="x")).id == run.id
    with pytest.raises(InvalidRequest, match="not configured"):
        await bare.provision(1, key="new")
    with pytest.raises(IdempotencyMismatch):
        await bare.provision(2, key="p")
    with pytest.raises(IdempotencyMismatch):
        await bare.release(provision.id, key="p")


@with_harness
async def test_no_caller_may_use_a_key_of_ours(harness: Harness) -> None:
    await harness.template(max_runtime=7200.0)
    replica = await harness.replica()
    other = await harness.succeeded(await replica.provision(1, run="other"))
    harness.agents.usual = Behaviour(works=60.0)
    run = await replica.run(1, run="run-2")
    key = release_key(run.id)
    assert key.startswith(RESERVED)

    with pytest.raises(InvalidRequest, match="idempotency_key"):
        await replica.release(other.id, key=key)
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        await replica.provision(1, key=f"{RESERVED}x")
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        await replica.run(1, key=RESERVED)
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        await release_run(replica, "other", key)

    # What was a key of ours in another form is just a key.
    foreign = await harness.succeeded(await replica.release(other.id, key=f"{run.id}/release"))
    await harness.succeeded(run)
    (own,) = [each for each in await harness.of_kind(Kind.RELEASE) if each.id != foreign.id]
    assert own.idempotency_key == key
    assert await harness.nodes(NodeState.RUNNING) == []
