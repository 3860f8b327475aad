"""What an SQL store forgets in one transaction is bounded in bytes: meanwhile no other writer can write."""

import pytest

from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.diagnosis import Bundle, Cause, Section, Source
from muster.domain.errors import NotFound
from muster.domain.ids import OperationId
from muster.domain.operation import Status
from muster.domain.reasons import Reason
from muster.ports.commands import CommandStore
from muster.ports.store import Store
from muster.stores.sql import pruner
from tests.contracts.command_contract import MUCH_LATER, gone, provisioned, start
from tests.contracts.store_contract.records import Records

OUTPUT = 3 * pruner.RECORD


class BitesContract:
    async def test_much_output_goes_in_bites_and_its_provision_with_the_last_of_them(
        self, store: Store, commands: CommandStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pruner, "BITE", 2 * (OUTPUT + pruner.RECORD))
        operation, (node,) = await provisioned(store)
        for number in range(5):
            command = await start(store, commands, node, f"cmd-{number}")
            await commands.append_output(command.id, offset=0, data=bytes(OUTPUT))
        await gone(store, node)
        left = []
        while (await store.prune(before=MUCH_LATER, limit=100)).more:
            left.append(await self._left(commands))
            assert (await store.operation(operation.id)).id == operation.id
        assert left == [3, 1]
        assert await self._left(commands) == 0
        with pytest.raises(NotFound):
            await store.operation(operation.id)

    async def test_a_command_with_more_than_a_bite_goes_alone(
        self, store: Store, commands: CommandStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pruner, "BITE", OUTPUT)
        for number in range(2):
            _, (node,) = await provisioned(store)
            command = await start(store, commands, node, f"cmd-{number}")
            await commands.append_output(command.id, offset=0, data=bytes(OUTPUT))
            await gone(store, node)
        cuts = [await store.prune(before=MUCH_LATER, limit=100) for _ in range(2)]
        assert [(cut.operations, cut.more) for cut in cuts] == [(1, True), (1, False)]

    async def test_many_bundles_go_in_bites_with_their_nodes(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pruner, "BUNDLES", 2)
        records = Records(store)
        operation = await records.leased()
        for node in await records.created(operation, 5):
            failed = await store.apply(
                nodes.fail(node, now=5.0, reason=Reason.BOOT_TIMEOUT, deadline_at=99.0)
            )
            section = Section(name=Source.CONSOLE, text="panic")
            await store.file_bundle(
                Bundle(
                    node_id=node.id, collected_at=6.0, reason=failed.reason, detail="", sections=(section,)
                ),
                cause=Cause.UNKNOWN,
            )
            await gone(store, node)
        await self._end(store, operation.id)
        cuts = [await store.prune(before=MUCH_LATER, limit=100) for _ in range(3)]
        assert [(cut.nodes, cut.operations, cut.more) for cut in cuts] == [
            (2, 0, True),
            (2, 0, True),
            (1, 1, False),
        ]

    async def _left(self, commands: CommandStore) -> int:
        return len((await commands.commands(run=None, after=None, limit=9)).items)

    async def _end(self, store: Store, operation_id: OperationId) -> None:
        present = await store.operation(operation_id)
        await store.write_operation(operations.ended(present, Status.FAILED, now=20.0, progress=None))
