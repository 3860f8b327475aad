import pytest

from muster.domain.errors import IdempotencyMismatch, InvalidRequest
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind
from muster.domain.reasons import Reason
from muster.domain.template import Reuse
from tests.harness import Harness, with_harness


@pytest.mark.parametrize(
    ("reuse", "same_owner", "other_owner"),
    [(Reuse.NEVER, False, False), (Reuse.SAME_OWNER, True, False), (Reuse.ALWAYS, True, True)],
)
@with_harness
async def test_the_template_says_which_owners_a_used_node_may_serve(
    harness: Harness, reuse: Reuse, same_owner: bool, other_owner: bool
) -> None:
    for owner, served in (("acme", same_owner), ("rival", other_owner)):
        await harness.template(name=f"for-{owner}", reuse=reuse)
        replica = await harness.replica()
        template = f"for-{owner}"
        first = await harness.succeeded(await replica.provision(1, owner="acme", template=template))
        await harness.succeeded(await replica.release(first.id))
        await harness.pass_time(5.0)

        second = await harness.succeeded(await replica.provision(1, owner=owner, template=template))

        assert (first.members[0].node_id == second.members[0].node_id) is served


@with_harness
async def test_a_node_that_may_not_serve_again_is_thrown_away(harness: Harness) -> None:
    await harness.template(reuse=Reuse.NEVER)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))

    await harness.succeeded(await replica.release(operation.id))

    assert (await harness.node(operation.members[0].node_id)).reason is Reason.REUSE
    await harness.nothing_is_left()


@with_harness
async def test_a_fresh_node_serves_any_owner(harness: Harness) -> None:
    await harness.template(reuse=Reuse.SAME_OWNER)
    (warm,) = await harness.warm(1)
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(1, owner="rival"))

    assert operation.members[0].node_id == warm.id


@with_harness
async def test_a_node_of_an_old_revision_is_not_claimed_and_not_pooled_again(harness: Harness) -> None:
    await harness.template()
    (old,) = await harness.warm(1)
    replica = await harness.replica()
    running = await harness.succeeded(await replica.provision(1))
    await harness.template(boot_script="echo new")

    await harness.succeeded(await replica.release(running.id))

    assert (await harness.node(old.id)).reason is Reason.RETIRED
    operation = await harness.succeeded(await replica.provision(1, run="run-2"))
    (node,) = await harness.of(operation.id)
    assert node.revision == 2


@with_harness
async def test_the_same_key_and_body_are_the_same_operation(harness: Harness) -> None:
    await harness.template()
    replica, other = await harness.replica(), await harness.replica()

    first = await replica.provision(2, key="key-1")
    again = await other.provision(2, key="key-1")
    assert again.id == first.id
    await harness.succeeded(first)
    after = await other.provision(2, key="key-1")

    assert after.id == first.id
    assert len(await harness.of_kind(Kind.PROVISION)) == 1
    assert len(await harness.nodes(NodeState.RUNNING)) == 2


@with_harness
async def test_the_same_key_with_another_body_is_refused(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(2, key="key-1"))

    with pytest.raises(IdempotencyMismatch) as refusal:
        await replica.provision(3, key="key-1")
    assert refusal.value.operation_id == first.id
    with pytest.raises(IdempotencyMismatch):
        await replica.release(first.id, key="key-1")
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        await replica.provision(1, key=" ")

    assert len(await harness.of_kind(Kind.PROVISION)) == 1
