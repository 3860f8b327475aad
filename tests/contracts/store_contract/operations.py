import asyncio
from dataclasses import replace

import pytest

from muster.domain import node as nodes
from muster.domain import operation as lifecycle
from muster.domain.errors import (
    Conflict,
    IdempotencyMismatch,
    IllegalTransition,
    LeaseLost,
    NotFound,
    QueueFull,
)
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Member, Operation, Status, Verdict
from muster.domain.progress import Part, Progress, Tone
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest, RefillRequest
from muster.ports.store import Beat, Store
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import Records

_BOOTING = Progress(
    step=3,
    total_steps=5,
    phase="booting",
    label="booting",
    percent=44.5,
    parts=(Part(id="node-1", name="node-1", state="created", tone=Tone.ACTIVE, since=1.5),),
)


class OperationContract:
    @pytest.mark.parametrize("kind", list(Kind))
    async def test_an_operation_is_kept_as_it_was_submitted(self, store: Store, kind: Kind) -> None:
        records = Records(store)
        draft = records.draft(kind=kind)
        assert await store.submit(draft) == (draft, True)
        assert await store.operation(draft.id) == draft
        (event,) = await whole_feed(store)
        assert (event.name, event.entity_id) == ("submitted", draft.id)

    async def test_the_same_key_and_request_give_the_first_operation(self, store: Store) -> None:
        records = Records(store)
        first = records.draft(key="key-1")
        await store.submit(first)
        assert await store.submit(records.draft(key="key-1", now=9.0)) == (first, False)
        assert await store.submit(records.draft(key="key-2")) != (first, False)
        assert len(await whole_feed(store)) == 2

    async def test_the_same_key_with_another_request_or_kind_is_refused(self, store: Store) -> None:
        records = Records(store)
        first = records.draft(key="key-1")
        await store.submit(first)
        body = ProvisionRequest(template="web", count=3, run="run-1", owner="acme")
        for other in (records.draft(key="key-1", request=body), records.draft(key="key-1", kind=Kind.REFILL)):
            with pytest.raises(IdempotencyMismatch) as refused:
                await store.submit(other)
            assert refused.value.operation_id == first.id
        assert len(await whole_feed(store)) == 1

    async def test_concurrent_submissions_with_one_key_make_one_operation(self, store: Store) -> None:
        records = Records(store)
        drafts = [records.draft(key="key-1") for _ in range(16)]
        ends = await asyncio.gather(*(store.submit(draft) for draft in drafts))
        assert sum(made for _, made in ends) == 1
        assert len(dict.fromkeys(operation.id for operation, _ in ends)) == 1

    async def test_an_id_is_used_once(self, store: Store) -> None:
        records = Records(store)
        draft = records.draft()
        await store.submit(draft)
        with pytest.raises(Conflict):
            await store.submit(draft)

    async def test_one_refill_is_submitted_per_version_of_the_pool(self, store: Store) -> None:
        records = Records(store)
        pool = await store.pool("web")
        assert pool.refill is None
        drafts = [records.draft(kind=Kind.REFILL) for _ in range(8)]
        ends = await asyncio.gather(
            *(store.submit(draft, pool=pool) for draft in drafts), return_exceptions=True
        )
        made = [end for end in ends if not isinstance(end, BaseException)]
        assert len(made) == 1
        assert sum(isinstance(end, Conflict) for end in ends) == 7
        moved = await store.pool("web")
        assert moved.refill == made[0][0].id
        assert moved.version != pool.version
        request = RefillRequest(template="web", revision=1, count=1)
        await store.submit(records.draft(kind=Kind.REFILL, request=request), pool=moved)

    async def test_an_operation_write_is_stored_with_exactly_one_event(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        change = lifecycle.progressed(operation, _BOOTING, now=5.0)
        after = await store.write_operation(change, fence=operation.fence)
        assert after == change.after
        verdict = Verdict(reason=Reason.CAPACITY, message="no room")
        failing = await store.write_operation(lifecycle.failing(after, verdict, now=6.0))
        assert await store.operation(operation.id) == failing
        assert [event.name for event in await whole_feed(store)] == ["submitted", "progressed", "failing"]

    async def test_an_operation_that_moved_or_was_taken_over_is_not_written(self, store: Store) -> None:
        records = Records(store)
        operation, old = await records.taken_over()
        change = lifecycle.progressed(operation, _BOOTING, now=5.0)
        with pytest.raises(LeaseLost):
            await store.write_operation(change, fence=old)
        cancel = lifecycle.cancel_requested(operation, now=5.0)
        assert cancel is not None
        await store.write_operation(cancel)
        with pytest.raises(Conflict):
            await store.write_operation(change, fence=operation.fence)
        assert (await store.operation(operation.id)).progress is None

    async def test_a_cancel_and_a_commit_compete_for_one_write(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        cancel = lifecycle.cancel_requested(operation, now=5.0)
        assert cancel is not None
        commit = lifecycle.committed(operation, (), _BOOTING, now=5.0, fresh_for=20.0)
        ends = await asyncio.gather(
            store.write_operation(commit, fence=operation.fence, clock=lambda: 5.0),
            store.write_operation(cancel),
            return_exceptions=True,
        )
        assert sum(isinstance(end, Operation) for end in ends) == 1
        assert sum(isinstance(end, Conflict) for end in ends) == 1

    async def test_a_write_never_undoes_a_renewed_lease(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased(until=60.0)
        await store.renew("replica-a", [operation.fence], until=90.0)
        change = lifecycle.progressed(operation, _BOOTING, now=5.0)
        after = await store.write_operation(change, fence=operation.fence)
        assert after.lease_until == 90.0
        assert await store.operation(operation.id) == after
        ended = lifecycle.ended(after, Status.SUCCEEDED, now=6.0, progress=None)
        over = await store.write_operation(ended, fence=operation.fence)
        assert (over.lease_owner, over.lease_until) == (None, 0.0)

    async def test_a_view_shows_all_that_an_operation_holds(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased()
        made = []
        for ordinal in (2, 1, 10):
            made += await records.created(operation, 1, ordinal=ordinal)
        lost = await store.apply(nodes.condemn(made[0], now=6.0, reason=Reason.OPERATOR))
        await store.record_beats([Beat(node_id=made[1].id, seen_at=7.0)])
        await records.created(await records.leased(), 1)
        view = await store.view(operation.id)
        held = await store.holdings(operation.id)
        assert (held.nodes, held.launches) == (view.nodes, view.launches)
        assert view.operation == await store.operation(operation.id)
        assert view.operation.version == operation.version + 1
        assert view.nodes == (lost, made[1], made[2])
        assert [launch.id for launch in view.launches] == [f"{operation.id}.{n}" for n in (1, 2, 10)]
        assert view.seen == {made[1].id: 7.0}
        with pytest.raises(NotFound):
            await store.view(OperationId("op-x"))
        assert (await store.holdings(OperationId("op-x"))).nodes == ()

    async def test_the_place_in_the_queue_is_the_age(self, store: Store) -> None:
        records = Records(store)
        waiting = []
        for now in (3.0, 1.0, 2.0):
            operation = await records.submitted(now=now)
            change = lifecycle.queued(operation, replace(_BOOTING, step=1), now=10.0 - now)
            waiting.append(await store.write_operation(change))
        assert [(await store.view(each.id)).ahead for each in waiting] == [2, 0, 1]
        late = await records.submitted(now=9.0)
        assert (await store.view(late.id)).ahead == 3
        await store.write_operation(lifecycle.progressed(waiting[1], replace(_BOOTING, step=2), now=11.0))
        assert [(await store.view(each.id)).ahead for each in waiting] == [1, 0, 0]

    async def test_an_owner_has_so_many_waiting_and_no_more(self, store: Store) -> None:
        records = Records(store)
        patient = ProvisionRequest(template="web", count=1, run="run-1", owner="acme", queue_timeout=60.0)
        first = records.draft(request=patient, key="again")
        assert (await store.submit(first, queue_cap=2))[1]
        second, _ = await store.submit(records.draft(request=patient), queue_cap=2)
        with pytest.raises(QueueFull, match="cannot queue another operation of acme: 2 of its operations"):
            await store.submit(records.draft(request=patient), queue_cap=2)
        assert (await store.submit(first, queue_cap=2))[0].id == first.id, "a repeat is no other one"
        for other in (replace(patient, owner="other"), replace(patient, queue_timeout=0.0)):
            await store.submit(records.draft(request=other), queue_cap=2)
        await store.submit(records.draft(request=patient))
        await store.write_operation(lifecycle.progressed(second, replace(_BOOTING, step=2), now=11.0))
        with pytest.raises(QueueFull):
            await store.submit(records.draft(request=patient), queue_cap=2)
        await store.write_operation(lifecycle.ended(first, Status.CANCELLED, now=12.0, progress=None))
        await store.submit(records.draft(request=patient), queue_cap=2)

    async def test_no_operation_leaves_the_queue_while_an_older_one_stands_in_it(self, store: Store) -> None:
        records = Records(store)
        younger = await records.submitted(now=2.0)
        waiting = lifecycle.queued(younger, replace(_BOOTING, step=1), now=3.0)
        younger = await store.write_operation(waiting)
        resumed = lifecycle.resumed(younger, now=5.0)
        older = await records.submitted(now=1.0)
        older = await store.write_operation(lifecycle.queued(older, replace(_BOOTING, step=1), now=4.0))
        with pytest.raises(Conflict):
            await store.write_operation(resumed)
        assert await store.operation(younger.id) == younger
        tries = await store.write_operation(lifecycle.resumed(older, now=5.0))
        with pytest.raises(Conflict):
            await store.write_operation(resumed)  # one that tries again still has its place
        await store.write_operation(lifecycle.progressed(tries, replace(_BOOTING, step=2), now=6.0))
        assert await store.write_operation(resumed) == resumed.after

    async def test_the_queue_of_another_template_delays_no_operation(self, store: Store) -> None:
        records = Records(store)
        draft = replace(records.draft(now=1.0), template="db")
        other, _ = await store.submit(draft)
        await store.write_operation(lifecycle.queued(other, replace(_BOOTING, step=1), now=2.0))
        operation = await records.submitted(now=3.0)
        operation = await store.write_operation(
            lifecycle.queued(operation, replace(_BOOTING, step=1), now=4.0)
        )
        resumed = lifecycle.resumed(operation, now=5.0)
        assert await store.write_operation(resumed) == resumed.after

    async def test_a_commit_is_judged_by_the_time_at_which_it_is_written(self, store: Store) -> None:
        records = Records(store)
        operation = await records.leased(until=160.0)
        made = await records.created(operation, 2)
        members = tuple(
            Member(node_id=node.id, assignment_id=node.assignment_id) for node in made if node.assignment_id
        )
        commit = lifecycle.committed(operation, members, _BOOTING, now=101.0, fresh_for=20.0)

        async def written(at: float) -> Operation:
            return await store.write_operation(commit, fence=operation.fence, clock=lambda: at)

        await store.record_beats([Beat(node_id=made[0].id, seen_at=100.0)])
        with pytest.raises(Conflict):
            await written(101.0)  # the other one never beat
        await store.record_beats([Beat(node_id=made[1].id, seen_at=95.0)])
        with pytest.raises(Conflict):
            await written(115.1)  # its writer stood still meanwhile
        await store.record_beats([Beat(node_id=node.id, seen_at=159.0) for node in made])
        with pytest.raises(LeaseLost):
            await written(160.0)
        assert await store.operation(operation.id) == operation
        await store.renew("replica-a", [operation.fence], until=220.0)
        assert (await written(160.0)).committed
        with pytest.raises(IllegalTransition):
            await store.write_operation(commit, fence=operation.fence)  # and it is unknown when

    async def test_operations_are_listed_newest_first_in_pages(self, store: Store) -> None:
        records = Records(store)
        made = []
        for number in range(9):
            draft = records.draft(now=float(number // 2), run=f"run-{number % 2}")
            made.append((await store.submit(draft))[0])
        refill = (await store.submit(records.draft(kind=Kind.REFILL, run=None, now=20.0)))[0]
        made[4] = await store.write_operation(lifecycle.progressed(made[4], _BOOTING, now=30.0))
        found: list[Operation] = []
        after = None
        while True:
            page = await store.operations(
                kind=Kind.PROVISION, statuses=tuple(Status), run=None, after=after, limit=2
            )
            found.extend(page.items)
            after = page.next
            if after is None:
                break
        assert found == made[::-1]
        everything = await store.operations(kind=None, statuses=tuple(Status), run=None, after=None, limit=99)
        assert everything.items == (refill, *made[::-1])
        ones = await store.operations(kind=None, statuses=[Status.QUEUED], run="run-0", after=None, limit=99)
        assert ones.items == (made[8], made[6], made[2], made[0])
        none = await store.operations(kind=None, statuses=[], run=None, after=None, limit=99)
        assert none.items == ()
