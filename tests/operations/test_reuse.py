import pytest

from muster.domain.errors import IdempotencyMismatch, InvalidRequest
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind
from muster.domain.reasons import Reason
from muster.domain.template import Reuse
from tests.stage import Stage, staged


@pytest.mark.parametrize(
    ("reuse", "same_owner", "other_owner"),
    [(Reuse.NEVER, False, False), (Reuse.SAME_OWNER, True, False), (Reuse.ALWAYS, True, True)],
)
@staged
async def test_the_template_says_whom_a_used_node_may_serve(
    stage: Stage, reuse: Reuse, same_owner: bool, other_owner: bool
) -> None:
    for owner, served in (("acme", same_owner), ("rival", other_owner)):
        await stage.template(name=f"for-{owner}", reuse=reuse)
        replica = await stage.replica()
        template = f"for-{owner}"
        first = await stage.succeeded(await replica.provision(1, owner="acme", template=template))
        await stage.succeeded(await replica.release(first.id))
        await stage.pass_time(5.0)

        second = await stage.succeeded(await replica.provision(1, owner=owner, template=template))

        assert (first.members[0].node_id == second.members[0].node_id) is served


@staged
async def test_a_node_that_may_not_serve_again_is_thrown_away(stage: Stage) -> None:
    await stage.template(reuse=Reuse.NEVER)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))

    await stage.succeeded(await replica.release(operation.id))

    assert (await stage.node(operation.members[0].node_id)).reason is Reason.REUSE
    await stage.nothing_is_left()


@staged
async def test_a_fresh_node_serves_anybody(stage: Stage) -> None:
    await stage.template(reuse=Reuse.SAME_OWNER)
    (warm,) = await stage.warm(1)
    replica = await stage.replica()

    operation = await stage.succeeded(await replica.provision(1, owner="rival"))

    assert operation.members[0].node_id == warm.id


@staged
async def test_a_node_of_an_old_revision_is_not_claimed_and_not_pooled_again(stage: Stage) -> None:
    await stage.template()
    (old,) = await stage.warm(1)
    replica = await stage.replica()
    running = await stage.succeeded(await replica.provision(1))
    await stage.template(boot_script="echo new")

    await stage.succeeded(await replica.release(running.id))

    assert (await stage.node(old.id)).reason is Reason.RETIRED
    operation = await stage.succeeded(await replica.provision(1, run="run-2"))
    (node,) = await stage.of(operation.id)
    assert node.revision == 2


@staged
async def test_the_same_key_and_body_are_the_same_operation(stage: Stage) -> None:
    await stage.template()
    replica, other = await stage.replica(), await stage.replica()

    first = await replica.provision(2, key="key-1")
    again = await other.provision(2, key="key-1")
    assert again.id == first.id
    await stage.succeeded(first)
    after = await other.provision(2, key="key-1")

    assert after.id == first.id
    assert len(await stage.of_kind(Kind.PROVISION)) == 1
    assert len(await stage.nodes(NodeState.RUNNING)) == 2


@staged
async def test_the_same_key_with_another_body_is_refused(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(2, key="key-1"))

    with pytest.raises(IdempotencyMismatch) as refusal:
        await replica.provision(3, key="key-1")
    assert refusal.value.operation_id == first.id
    with pytest.raises(IdempotencyMismatch):
        await replica.release(first.id, key="key-1")
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        await replica.provision(1, key=" ")

    assert len(await stage.of_kind(Kind.PROVISION)) == 1
