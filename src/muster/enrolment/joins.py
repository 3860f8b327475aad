"""Let machines join as nodes, once each, with a proof of identity.

A machine that isn't wanted is told to power off; one whose record doesn't exist yet, to try again. A second
machine with a node's identity condemns the node: which of the two is the right one can't be known.
"""

import asyncio
from collections.abc import Mapping

from muster.domain import checks
from muster.domain import node as nodes
from muster.domain.access import hashed
from muster.domain.errors import Conflict, Forbidden, Gone, NotYet, ProviderError
from muster.domain.ids import NodeId
from muster.domain.launch import Launch
from muster.domain.lifecycle import ENDING
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.enrolment.heartbeats import Heartbeats
from muster.ports.bundle import Ports
from muster.ports.identity import Identity, IdentityVerifier

JOIN_RETRY = 2.0
"""Seconds after which a machine whose record doesn't exist yet asks again."""
TRIES = 10


class JoinHandler:
    def __init__(self, ports: Ports, heartbeats: Heartbeats) -> None:
        self._ports = ports
        self._store = ports.store
        self._heartbeats = heartbeats

    async def join(self, proof: str, *, key: str, boot_id: str) -> tuple[NodeId, str]:
        """Admit a machine: which node it is, and a token that speaks for that one alone.

        `key` was made when its agent started: the same key is the same join.
        Raises NotYet (its record isn't written yet), Gone (it isn't wanted: power off), Forbidden.
        """
        checks.text("key", key)
        checks.text("boot_id", boot_id)
        arrived_at = self._heartbeats.arrived_by
        identity = await self._ports.verifier.verify(proof)
        await self._check_installation(identity.machine_id, identity.installation_id)
        node = await self._record(identity)
        if node.state in ENDING:
            raise Gone(f"node {node.id} is {node.state}: {node.reason or 'its time is over'}")
        return await self._admit(node, key, boot_id, arrived_at)

    async def _check_installation(self, machine_id: str, named: str | None) -> None:
        installation = await self._store.installation()
        if named is not None and named != installation.id:
            raise Forbidden(f"machine {machine_id} belongs to another installation")

    async def _record(self, identity: Identity) -> Node:
        token = identity.token
        if token is None:
            # Most have a record; then the provider need not be asked.
            node = await self._store.node_by_machine(identity.provider, identity.machine_id)
            if node is not None:
                return node
            token = await self._launch_token(identity)
        # The launch first: one that is closed has its records, so a machine that has none isn't wanted.
        launch = await self._store.launch_by_token(token)
        node = await self._store.node_by_machine(identity.provider, identity.machine_id)
        if node is None:
            raise _without_record(identity, launch)
        return node

    async def _launch_token(self, identity: Identity) -> str:
        """Ask the machine's provider for the launch token. The provider may not show a new machine yet."""
        provider = self._ports.providers[identity.provider]
        try:
            async with asyncio.timeout(provider.call_timeout):
                machine = (await provider.describe([identity.machine_id])).get(identity.machine_id)
        except (ProviderError, TimeoutError) as error:
            raise NotYet(
                f"cannot read the tags of machine {identity.machine_id}: {error}", JOIN_RETRY
            ) from error
        if machine is None or not machine.installation_id:
            # A new machine may be shown late, and its tags later still.
            until = (identity.since or 0.0) + provider.visibility_window
            if self._ports.clock.now() < until:
                words = f"{identity.provider} doesn't show machine {identity.machine_id} or its tags yet"
                raise NotYet(words, JOIN_RETRY)
        if machine is None:
            raise Gone(f"{identity.provider} knows no machine {identity.machine_id}")
        await self._check_installation(identity.machine_id, machine.installation_id)
        return machine.token

    async def _admit(self, node: Node, key: str, boot_id: str, arrived_at: float) -> tuple[NodeId, str]:
        now = self._ports.clock.now()
        known = await self._store.admitted_key(node.id)
        key_hash = hashed(key)
        if known is not None and known != key_hash:
            await self.condemn(node.id, Reason.DUPLICATE_JOIN, "a second machine joined as this node")
            raise Forbidden(f"node {node.id} has joined already, with another key")
        token = self._ports.ids.secret()
        change = nodes.joined(node, boot_id=boot_id, now=now) if known is None else None
        try:
            await self._store.admit(change, node.id, key_hash=key_hash, token_hash=hashed(token))
        except Conflict as error:
            raise NotYet(f"node {node.id} is changing; join again", JOIN_RETRY) from error
        if change is not None:
            # At once, not with the next flush: a node that boots in no time can then be claimed in no time.
            # A join that comes again is no sign of life: a proxy may send a copy when the machine is gone.
            self._heartbeats.beat(node.id, arrived_at=arrived_at)
            await self._heartbeats.flush()
        return node.id, token

    async def condemn(self, node_id: NodeId, reason: Reason, detail: str) -> None:
        for _ in range(TRIES):
            node = await self._store.node(node_id)
            if node.state in ENDING:
                return
            try:
                now = self._ports.clock.now()
                await self._store.apply(nodes.condemn(node, now=now, reason=reason, detail=detail))
            except Conflict:
                continue
            return


def _without_record(identity: Identity, launch: Launch | None) -> NotYet | Gone:
    if launch is not None and launch.open:
        return NotYet(f"launch {launch.id} is not settled yet", JOIN_RETRY)
    return Gone(f"machine {identity.machine_id} belongs to no open launch")


class VerifierByProvider:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, by_provider: Mapping[str, IdentityVerifier]) -> None:
        self._by_provider = by_provider

    async def verify(self, proof: str) -> Identity:
        verifier = self._by_provider.get(proof.partition(":")[0])
        if verifier is None:
            known = ", ".join(sorted(self._by_provider))
            raise Forbidden(f"cannot accept the proof: it is of no kind that this server knows ({known})")
        return await verifier.verify(proof)
