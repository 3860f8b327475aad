"""An operation as an item: the record, and beside it what moves on its own.

This module owns the shape. Lost nodes also move the version, and the driver moves the lease, so both are
attributes of their own. An item of a kind that only newer replicas know is left to them.
"""

from collections.abc import Iterable
from typing import Any

from muster.domain import serialization
from muster.domain.operation import Operation
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.values import Item, Value, moment, number, record, unpacked, whole
from muster.stores.records import REQUESTS, request_class

_APART = ("version", "epoch", "lease_owner", "lease_until")


def operation(item: Item) -> Operation:
    data: dict[str, Any] = unpacked(item["d"])
    # The kind of an operation tells the class of its request.
    request = serialization.from_plain(request_class(data["kind"]), data.pop("request"))
    owner = item.get("lease_owner")
    lease = {
        "version": whole(item, "v"),
        "epoch": whole(item, "epoch"),
        "lease_owner": None if owner is None else str(owner),
        "lease_until": number(item, "lease_until") or 0.0,
    }
    return serialization.from_plain(Operation, data | lease, request=request)


def known(item: Item) -> bool:
    """Return whether this program knows the operation's kind; newer replicas handle the others."""
    return unpacked(item["d"])["kind"] in REQUESTS


def known_of(items: Iterable[Item]) -> list[Operation]:
    return [operation(item) for item in items if known(item)]


def new(asked: Operation) -> Item:
    return {**fields(asked), **lease_fields(asked), "epoch": asked.epoch}


def fields(after: Operation) -> dict[str, Value]:
    """Return all attributes but the epoch, which only a lease moves. The lease is written with the end
    alone."""
    sets: dict[str, Value] = {
        "v": after.version,
        "d": record(after, without=_APART),
        "committed": after.committed,
        "ended": after.ended,
        "lp": f"OPS#{after.status.value}",
        "ls": moment(after.created_at, after.id),
        "sp": None if after.run is None else f"RUN#{after.run}",
        "ss": None if after.run is None else moment(after.created_at, after.id),
    }
    if after.ended_at is not None:
        ended = {"tp": keys.ENDED, "ts": moment(after.ended_at, after.id)}
        return {**sets, **ended, "lease_owner": None, "lease_until": 0.0}
    return sets


def lease_fields(held: Operation) -> dict[str, Value]:
    return {
        "lease_owner": held.lease_owner,
        "lease_until": held.lease_until,
        "tp": keys.LEASED,
        "ts": moment(held.lease_until, held.id),
    }
