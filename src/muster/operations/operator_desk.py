"""Carry out acts of operators: terminate or drain a node, extend a run, pause, resume, acknowledge.

`actor` is who does it, for the event.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from muster.domain import checks, undelivered
from muster.domain import node as nodes
from muster.domain.deadlines import HARD
from muster.domain.errors import Conflict, InvalidRequest, NotFound
from muster.domain.findings import Finding
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import ENDING, NodeState
from muster.domain.node import HOLD, Node, NodeChange
from muster.domain.operation import Operation
from muster.domain.overview import Acknowledgement
from muster.domain.reasons import Reason
from muster.domain.requests import HOLD_MAX
from muster.domain.run_decisions import run_of
from muster.domain.text import counted
from muster.domain.undelivered import FORGOTTEN, RESENT, Undelivered
from muster.operations.concurrency import concurrently
from muster.operations.submission import provision_of
from muster.ports.bundle import Ports
from muster.ports.paging import every_undelivered
from muster.ports.store import if_found

TRIES = 20
AT_ONCE = 16
"""Messages of a webhook that are written side by side."""
BY_OPERATOR = "operator"
"""The source of a deadline that an operator moved."""


class OperatorDesk:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store

    async def terminate(self, node_id: NodeId, *, actor: str = "") -> Node:
        """Condemn a node, whatever it does. One that is on its way out stays as it is."""

        def change(node: Node, now: float) -> NodeChange | None:
            if node.state in ENDING:
                return None
            return nodes.condemn(node, now=now, reason=Reason.OPERATOR)

        return await self._guarded(node_id, change, actor)

    async def drain(self, node_id: NodeId, *, actor: str = "") -> Node:
        """Mark a node as draining: no run claims it again, and it ends once it is free."""

        def change(node: Node, now: float) -> NodeChange | None:
            return None if node.drain or node.state in ENDING else nodes.drained(node, now=now)

        return await self._guarded(node_id, change, actor)

    async def hold(self, node_id: NodeId, seconds: float, *, actor: str = "") -> Node:
        """Keep a failed node for a look, from now on. Raises InvalidRequest for any other."""
        checks.seconds("for", seconds, most=HOLD_MAX)

        def change(node: Node, now: float) -> NodeChange | None:
            over = node.deadline_at is not None and now >= node.deadline_at
            if node.state is not NodeState.FAILED or over:
                rule = f"it is {node.state}: only a failed node is kept; a run has `--hold-on-failure`"
                raise InvalidRequest("node_id", node_id, rule)
            return nodes.held(node, now=now, until=now + seconds)

        return await self._guarded(node_id, change, actor)

    async def extend(self, operation_id: OperationId, seconds: float, *, actor: str = "") -> Sequence[Node]:
        """Give the running nodes of a provision more time. One that is held stays within a day from now."""
        checks.seconds("by", seconds)
        provision = await provision_of(self._store, operation_id)
        await self._check_not_hard(provision)
        view = await self._store.view(provision.id)
        running = [node for node in view.nodes if _in_time(node, self._ports.clock.now())]
        if not running:
            raise InvalidRequest("operation_id", operation_id, "has no running nodes to give more time to")
        for node in running:
            _check_hold(node, seconds, self._ports.clock.now())  # all or none, as far as is known now

        def change(node: Node, now: float) -> NodeChange | None:
            if node.deadline_at is None or not _in_time(node, now):
                return None
            _check_hold(node, seconds, now)
            source = HOLD if node.held else BY_OPERATOR
            return nodes.extend(node, now=now, deadline_at=node.deadline_at + seconds, source=source)

        return await concurrently(self._guarded(node.id, change, actor) for node in running)

    async def _check_not_hard(self, provision: Operation) -> None:
        """Refuse more time for the nodes of a run whose own timeout is hard."""
        run_id = run_of(provision.idempotency_key)
        if run_id is None:
            return
        run = await if_found(self._store.operation(run_id))
        if run is not None and run.deadline_source == HARD and not run.ended:
            rule = "its timeout is hard, and no extension passes it; run it again with a longer one"
            raise InvalidRequest("operation_id", run_id, rule)

    async def pause(self, template: str | None, *, actor: str = "") -> None:
        """Stop new claims and launches of a template, or of all. What runs continues."""
        await self._brake(template, paused=True, actor=actor)

    async def resume(self, template: str | None, *, actor: str = "") -> None:
        await self._brake(template, paused=False, actor=actor)

    async def _brake(self, template: str | None, *, paused: bool, actor: str) -> None:
        if template is not None:
            await self._store.template(template)
        await self._ports.access.pause(template, paused=paused, now=self._ports.clock.now(), actor=actor)

    async def acknowledge(self, finding: Finding, *, actor: str = "") -> None:
        """Acknowledge a finding: it is no longer shown first, until it happens anew."""
        given = Acknowledgement(
            finding=finding.id, tone=finding.tone, at=self._ports.clock.now(), actor=actor
        )
        await self._ports.access.acknowledge(given)

    async def unacknowledge(self, finding_id: str, *, actor: str = "") -> None:
        await self._ports.access.unacknowledge(finding_id, now=self._ports.clock.now(), actor=actor)

    async def resend(
        self, webhook: str, ids: Sequence[str] | None = None, *, actor: str = ""
    ) -> Sequence[Undelivered]:
        """Make undelivered messages of a webhook due at once: those named, or all.

        What is not kept any more is left out: it was delivered or forgotten meanwhile. So a repeat does no
        harm. Raises NotFound for an unknown webhook, InvalidRequest for one that was removed from the
        settings.
        """
        now = self._ports.clock.now()
        found = await self._undelivered(webhook, ids)
        if webhook not in self._ports.outgoing:
            rule = "is no longer in the settings: add it again, or forget its messages"
            raise InvalidRequest("webhook", webhook, rule)
        await self._tell(webhook, RESENT, found, now=now, actor=actor)
        return await self._written([(each, undelivered.sent_again(each, now=now)) for each in found])

    async def forget(
        self, webhook: str, ids: Sequence[str] | None = None, *, actor: str = ""
    ) -> Sequence[Undelivered]:
        """Forget messages that were given up: those named, or all. Of a webhook that was removed from the
        settings, also those that wait.

        What is not kept any more is left out, so that a repeat does no harm. Raises NotFound for an unknown
        webhook, and for a message that waits to be sent.
        """
        now = self._ports.clock.now()
        found = await self._undelivered(webhook, ids)
        if webhook in self._ports.outgoing:
            waits = next((each.id for each in found if ids and not each.given_up), None)
            if waits is not None:
                raise NotFound("message that was given up", waits)
            found = [each for each in found if each.given_up]
        await self._tell(webhook, FORGOTTEN, found, now=now, actor=actor)
        return await self._written([(each, None) for each in found])

    async def _undelivered(self, webhook: str, ids: Sequence[str] | None) -> Sequence[Undelivered]:
        """Return the messages named, or all, as far as they are kept. Raises NotFound."""
        kept = {each.id: each async for each in every_undelivered(self._ports.messages, webhook)}
        if not kept and webhook not in self._ports.outgoing:
            raise NotFound("webhook", webhook)
        return [kept[each] for each in dict.fromkeys(kept if ids is None else ids) if each in kept]

    async def _tell(
        self, webhook: str, name: str, messages: Sequence[Undelivered], *, now: float, actor: str
    ) -> None:
        """Append one event for the act. It comes first: so no act is without one."""
        if not messages:
            return
        what = messages[0].id if len(messages) == 1 else counted(len(messages), "message")
        await self._store.note(f"webhook {webhook}", name, reason=None, detail=what, now=now, actor=actor)

    async def _written(
        self, changes: Sequence[tuple[Undelivered, Undelivered | None]]
    ) -> Sequence[Undelivered]:
        """Write the changes, and return those messages as they are now, or were last."""

        async def write(before: Undelivered, after: Undelivered | None) -> Sequence[Undelivered]:
            try:
                await self._ports.messages.write_undelivered(before, after)
            except Conflict:
                return ()  # it was sent at this moment
            return (after or before,)

        written: list[Undelivered] = []
        for start in range(0, len(changes), AT_ONCE):
            some = changes[start : start + AT_ONCE]
            for each in await concurrently(write(before, after) for before, after in some):
                written += each
        return written

    async def _guarded(
        self, node_id: NodeId, change: Callable[[Node, float], NodeChange | None], actor: str
    ) -> Node:
        for _ in range(TRIES):
            node = await self._store.node(node_id)
            wanted = change(node, self._ports.clock.now())
            if wanted is None:
                return node
            with suppress(Conflict):
                return await self._store.apply(replace(wanted, actor=actor))
        raise Conflict(
            f"cannot change node {node_id}: it keeps changing, or its provision was just committed"
        )


def _check_hold(node: Node, seconds: float, now: float) -> None:
    """Refuse to keep a node for a look for longer than a hold may ask for."""
    if node.held and node.deadline_at is not None and node.deadline_at + seconds > now + HOLD_MAX:
        rule = f"{node.id} is kept for a look, for at most one day from now; ask for less"
        raise InvalidRequest("by", seconds, rule)


def _in_time(node: Node, now: float) -> bool:
    """Return whether a node runs or is kept for a look, and is in time. Only the sweep judges a node past its
    deadline."""
    kept = node.state is NodeState.RUNNING or node.held
    return kept and (node.deadline_at is None or now < node.deadline_at)
