"""For which scopes runners were provisioned: known after a restart, however many provisions came later."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from muster.domain.errors import StoreUnavailable
from muster.domain.lifecycle import NodeState
from muster.integrations.github import provisioned_scopes
from muster.integrations.github.provisioned_scopes import ProvisionedScopes
from muster.integrations.github.runners import Scope
from tests.harness import Harness, with_harness
from tests.harness.github import REPOSITORY, GitHubHarness, context
from tests.harness.harness import Replica


@contextmanager
def looks_of(*, pages: int, of: int) -> Iterator[None]:
    """As if there were thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provisioned_scopes, "BATCHES_MOST", pages)
        patch.setattr(provisioned_scopes, "BATCH", of)
        yield


async def provisioned(github: GitHubHarness, replica: Replica, *repositories: str) -> None:
    """One after the other."""
    for repository in repositories:
        await github.provision(replica, github.world.begin(repository))
        await github.harness.pass_time(1)


@with_harness
async def test_one_look_reads_so_many_and_the_next_ones_the_rest(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, max_nodes=50)
    names = [f"acme/r-{number}" for number in range(9)]
    await provisioned(github, await harness.replica(), *names)
    with looks_of(pages=2, of=2):
        known = ProvisionedScopes(context(harness))
        assert await known.repositories() == names[5:]
        await provisioned(github, await harness.replica(), "acme/new")
        assert await known.repositories() == ["acme/new", *names[5:]], "what is new comes first"
        for _ in range(4):
            await known.repositories()
        assert await known.repositories() == ["acme/new", *names]
        assert await known.scopes() == [Scope.named(name) for name in ("acme/new", *names)]


@with_harness
async def test_more_than_one_look_of_new_ones_leaves_no_hole(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, max_nodes=50)
    replica = await harness.replica()
    names = [f"acme/r-{number}" for number in range(10)]
    with looks_of(pages=2, of=2):
        known = ProvisionedScopes(context(harness))
        await provisioned(github, replica, *names[:2])
        assert await known.repositories() == names[:2]
        await provisioned(github, replica, *names[2:])
        for _ in range(3):
            await known.repositories()
        assert await known.repositories() == names


@pytest.mark.parametrize("broken", [1, 2, 3])
@with_harness
async def test_a_look_that_breaks_off_leaves_no_hole(harness: Harness, broken: int) -> None:
    github = await GitHubHarness.set(harness, max_nodes=50)
    names = [f"acme/r-{number}" for number in range(6)]
    await provisioned(github, await harness.replica(), *names)
    listed, pages = harness.ports.store.operations, count(1)

    async def breaking(**asked: object) -> object:
        if next(pages) == broken:
            raise StoreUnavailable("cannot read: it is away")
        return await listed(**asked)  # type: ignore[arg-type]  # as they were

    with looks_of(pages=20, of=2), pytest.MonkeyPatch.context() as patch:
        known = ProvisionedScopes(context(harness))
        patch.setattr(harness.ports.store, "operations", breaking)
        with pytest.raises(StoreUnavailable):
            await known.repositories()
        assert await known.repositories() == names


@with_harness
async def test_what_is_read_is_not_read_again(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, max_nodes=50)
    await provisioned(github, await harness.replica(), *(f"acme/r-{number}" for number in range(9)))
    pages = 0
    listed = harness.ports.store.operations

    with looks_of(pages=20, of=2), pytest.MonkeyPatch.context() as patch:
        known = ProvisionedScopes(context(harness))
        await known.repositories()

        async def counted(**asked: object) -> object:
            nonlocal pages
            pages += 1
            return await listed(**asked)  # type: ignore[arg-type]  # as they were

        patch.setattr(harness.ports.store, "operations", counted)
        await known.repositories()
    assert pages == 1


@with_harness
async def test_a_rerun_is_served_after_a_restart_whatever_was_provisioned_since(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, max_nodes=50)
    run = github.begin()
    first = await harness.replica()
    old = await harness.succeeded(await github.provision(first, run))
    await harness.succeeded(await first.release(old.id))
    await provisioned(github, first, *(f"acme/r-{number}" for number in range(9)))
    await harness.count(9, NodeState.RUNNING)
    await first.life.die()
    run.attempt = 2
    github.world.queue(run, "test", [f"{run.id}-1"])
    with looks_of(pages=3, of=2):
        await harness.replica()
        await harness.count(10, NodeState.RUNNING, within=600)
    assert len(github.world.of(REPOSITORY)) == 1
