"""Credentials of nodes: hashes alone, one key per node for ever, one token at a time."""

from dataclasses import replace

from muster.domain import node as lifecycle
from muster.domain.errors import Conflict
from muster.domain.ids import NodeId
from muster.domain.lifecycle import LIVE
from muster.domain.node import Node, NodeChange
from muster.stores.sql import counters, liveness, nodes, templates
from muster.stores.sql.tx import Retry, Tx


def admit(tx: Tx, change: NodeChange | None, node_id: NodeId, *, key_hash: str, token_hash: str) -> None:
    key = admitted_key(tx, node_id)
    if key is not None and key != key_hash:
        raise Conflict(f"cannot admit node {node_id}: another key was admitted before")
    if change is not None:
        nodes.apply(tx, change)
    elif key is None:
        raise Conflict(f"cannot renew the token of node {node_id}: it never joined")
    tx.change(
        """
        INSERT INTO credentials (node_id, key_hash, token_hash) VALUES (:node_id, :key_hash, :token_hash)
        ON CONFLICT (node_id) DO UPDATE SET token_hash = excluded.token_hash
        """,
        {"node_id": node_id, "key_hash": key_hash, "token_hash": token_hash},
    )


def enrol(
    tx: Tx,
    node: Node,
    *,
    boot_id: str,
    key_hash: str,
    token_hash: str,
    stale_after: float,
    now: float,
    actor: str = "",
) -> Node:
    known = nodes.by_machine(tx, node.provider, node.machine_id)
    if known is not None:
        if known.state in LIVE:
            admit(tx, None, known.id, key_hash=key_hash, token_hash=token_hash)
            liveness.set_stale_after(tx, known.id, stale_after=stale_after)
        return known
    stored = templates.caps(tx, node.template)
    if stored.template is None:
        raise Conflict(f"cannot enrol {node.machine_id}: there is no template {node.template}")
    # This transaction holds the counters' rows to its end: an enrolment at the same moment reads after it.
    counters.take(tx, node.template, 1, cap=stored.template, total_cap=stored.total)
    if node.address:
        for other in nodes.at_address(tx, node.template, node.address):
            nodes.apply(tx, lifecycle.displaced(other, now=now))
            liveness.forget_probes(tx, other.id)
    if not nodes.adopt(tx, node, now=now):
        raise Retry(f"{node.machine_id} was enrolled at the same moment")
    joined = replace(lifecycle.joined(node, boot_id=boot_id, now=now), actor=actor)
    admit(tx, joined, node.id, key_hash=key_hash, token_hash=token_hash)
    liveness.set_stale_after(tx, node.id, stale_after=stale_after)
    return joined.after


def admitted_key(tx: Tx, node_id: NodeId) -> str | None:
    rows = tx.execute("SELECT key_hash FROM credentials WHERE node_id = :id", {"id": node_id})
    return rows[0][0] if rows else None


def node_for_token(tx: Tx, token_hash: str) -> NodeId | None:
    rows = tx.execute("SELECT node_id FROM credentials WHERE token_hash = :token", {"token": token_hash})
    return NodeId(rows[0][0]) if rows else None
