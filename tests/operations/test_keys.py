"""A key gives the operation that was made under it, whatever has changed since, and answers can be lost."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain.errors import Ambiguous, IdempotencyMismatch, InvalidRequest, StoreUnavailable
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Operation, Status
from muster.domain.run_decisions import RESERVED, release_key
from tests.stage import Manner, Outcome, Replica, Stage, staged


def loses_its_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch, *, written: bool) -> None:
    """The next submission is not answered; it was written all the same, or it was not."""
    real = stage.store.submit

    async def submit(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(stage.store, "submit", real)
        if written:
            await real(*args, **kwargs)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(stage.store, "submit", submit)


async def release_run(replica: Replica, run: str, key: str, *, latest: bool = False) -> Operation:
    return await replica.ask(replica.plane.desk.release_run(run, key=key, latest=latest))


@staged
async def test_a_submission_whose_answer_was_lost_is_driven_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.template()
    await stage.warm(2)
    replica, _ = await stage.replica(), await stage.replica()
    loses_its_answer(stage, monkeypatch, written=True)
    began = stage.now

    with pytest.raises(StoreUnavailable):
        await replica.provision(1, key="k", timeout=45.0)
    (written,) = await stage.of_kind(Kind.PROVISION)
    operation = await stage.succeeded(written)  # even if nobody asks again

    assert stage.now - began < 5.0
    assert (await replica.provision(1, key="k", timeout=45.0)).id == operation.id
    assert operation.epoch == 1  # nobody had to take it over


@staged
async def test_a_submission_that_never_happened_is_forgotten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.template()
    replica = await stage.replica()
    loses_its_answer(stage, monkeypatch, written=False)

    with pytest.raises(StoreUnavailable):
        await replica.provision(1, key="k")
    await stage.pass_time(30.0)

    assert await stage.of_kind(Kind.PROVISION) == []
    assert replica.plane._driver.driving == 0
    await stage.succeeded(await replica.provision(1, key="k"))


@staged
async def test_the_same_key_again_does_not_restart_what_is_being_driven(stage: Stage) -> None:
    await stage.template()
    stage.cloud.script(Outcome(after=20.0))
    replica = await stage.replica()
    operation = await replica.provision(1, key="k")
    await stage.pass_time(1.0)

    for _ in range(5):
        assert (await replica.provision(1, key="k")).id == operation.id
        await stage.pass_time(1.0)

    await stage.succeeded(operation)
    assert len(stage.cloud.launches) == 1  # a driver that starts again would call again
    ended = await replica.provision(1, key="k")
    assert (ended.id, ended.status) == (operation.id, Status.SUCCEEDED)
    assert replica.plane._driver.driving == 0


@pytest.mark.parametrize("latest", [False, True])
@staged
async def test_a_key_gives_the_same_release_after_the_run_was_tried_again(stage: Stage, latest: bool) -> None:
    await stage.template()
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1, run="ci-7"))
    first = await stage.succeeded(await release_run(replica, "ci-7", "k"))
    await stage.succeeded(await replica.provision(1, run="ci-7"))

    again = await release_run(replica, "ci-7", "k", latest=latest)

    assert again.id == first.id
    assert len(await stage.nodes(NodeState.RUNNING)) == 1
    with pytest.raises(Ambiguous):
        await release_run(replica, "ci-7", "another")
    with pytest.raises(IdempotencyMismatch):
        await release_run(replica, "ci-8", "k")


@staged
async def test_a_key_gives_the_same_provision_after_its_provider_went_away(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    provision = await stage.succeeded(await replica.provision(1, key="p"))
    release = await stage.succeeded(await replica.release(provision.id, key="r"))
    run = await stage.ended(await replica.run(1, run="run-2", key="x"))
    replica.life.kill()
    stage.ports = replace(stage.ports, providers={})
    bare = await stage.replica()

    assert (await bare.provision(1, key="p")).id == provision.id
    assert (await bare.release(provision.id, key="r")).id == release.id
    assert (await bare.run(1, run="run-2", key="x")).id == run.id
    with pytest.raises(InvalidRequest, match="not configured"):
        await bare.provision(1, key="new")
    with pytest.raises(IdempotencyMismatch):
        await bare.provision(2, key="p")
    with pytest.raises(IdempotencyMismatch):
        await bare.release(provision.id, key="p")


@staged
async def test_no_caller_may_use_a_key_of_ours(stage: Stage) -> None:
    await stage.template(max_runtime=7200.0)
    replica = await stage.replica()
    other = await stage.succeeded(await replica.provision(1, run="other"))
    stage.agents.usual = Manner(works=60.0)
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

    # What was a key of ours in another form is just a key: it gets in nobody's way.
    foreign = await stage.succeeded(await replica.release(other.id, key=f"{run.id}/release"))
    await stage.succeeded(run)
    (own,) = [each for each in await stage.of_kind(Kind.RELEASE) if each.id != foreign.id]
    assert own.idempotency_key == key
    assert await stage.nodes(NodeState.RUNNING) == []
