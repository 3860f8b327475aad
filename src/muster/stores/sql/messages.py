"""Undelivered messages of webhooks, for the message port: one row each, in the table undelivered."""

from collections.abc import Sequence

from muster.domain.undelivered import Undelivered, dropped
from muster.stores.records import version_conflict
from muster.stores.sql import events
from muster.stores.sql.engines import EngineVerbs, read, write
from muster.stores.sql.rows import UNDELIVERED
from muster.stores.sql.tx import Tx, Value

_ALL = f"SELECT {UNDELIVERED.select} FROM undelivered ORDER BY id LIMIT :limit"
_OF_WEBHOOK = (
    f"SELECT {UNDELIVERED.select} FROM undelivered WHERE webhook = :webhook ORDER BY id LIMIT :limit"
)
_KEEP = f"{UNDELIVERED.insert} ON CONFLICT (id) DO NOTHING"
_FORGET = "DELETE FROM undelivered WHERE id = :id AND version = :expected"
_PRUNE = "DELETE FROM undelivered WHERE since < :before"


def _undelivered(tx: Tx, *, webhook: str | None, limit: int) -> Sequence[Undelivered]:
    if webhook is None:
        return UNDELIVERED.all(tx.execute(_ALL, {"limit": limit}))
    return UNDELIVERED.all(tx.execute(_OF_WEBHOOK, {"webhook": webhook, "limit": limit}))


def _keep(tx: Tx, message: Undelivered) -> None:
    if tx.change(_KEEP, UNDELIVERED.params(message)):
        _tell(tx, message, now=message.since)


def _write(tx: Tx, before: Undelivered, after: Undelivered | None, *, now: float) -> None:
    place: dict[str, Value] = {"id": before.id, "expected": before.version}
    if after is None:
        written = tx.change(_FORGET, place)
    else:
        changes = UNDELIVERED.changed(before, after)
        written = tx.change(UNDELIVERED.update(tuple(changes)), {**changes, **place})
    if not written:
        raise version_conflict(before.id, before.version)
    _tell(tx, after, now=now)


def _prune(tx: Tx, *, before: float) -> None:
    tx.change(_PRUNE, {"before": before})


def _tell(tx: Tx, message: Undelivered | None, *, now: float) -> None:
    draft = dropped(message)
    if draft is not None:
        events.append(tx, draft, at=now)


class SqlMessages(EngineVerbs):
    """Implements muster.ports.messages.MessageStore."""

    undelivered = read(_undelivered)
    keep_undelivered = write(_keep)
    write_undelivered = write(_write)
    prune_undelivered = write(_prune)
