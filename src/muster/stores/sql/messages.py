"""Undelivered messages of webhooks, for the message port: one row each, in the table undelivered."""

from collections.abc import Sequence

from muster.domain.undelivered import KEPT, Undelivered, told
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


def _undelivered(tx: Tx, *, webhook: str | None, limit: int) -> Sequence[Undelivered]:
    if webhook is None:
        return UNDELIVERED.all(tx.execute(_ALL, {"limit": limit}))
    return UNDELIVERED.all(tx.execute(_OF_WEBHOOK, {"webhook": webhook, "limit": limit}))


def _keep(tx: Tx, message: Undelivered) -> None:
    tx.change("DELETE FROM undelivered WHERE since < :before", {"before": message.since - KEPT})
    if tx.change(_KEEP, UNDELIVERED.params(message)):
        _tell(tx, None, message, now=message.since)


def _write(tx: Tx, before: Undelivered, after: Undelivered | None, *, now: float, actor: str = "") -> None:
    place: dict[str, Value] = {"id": before.id, "expected": before.version}
    if after is None:
        written = tx.change(_FORGET, place)
    else:
        changes = UNDELIVERED.changed(before, after)
        written = tx.change(UNDELIVERED.update(tuple(changes)), {**changes, **place})
    if not written:
        raise version_conflict(before.id, before.version)
    _tell(tx, before, after, now=now, actor=actor)


def _tell(
    tx: Tx, before: Undelivered | None, after: Undelivered | None, *, now: float, actor: str = ""
) -> None:
    draft = told(before, after, actor=actor)
    if draft is not None:
        events.append(tx, draft, at=now)


class SqlMessages(EngineVerbs):
    """Implements muster.ports.messages.MessageStore."""

    undelivered = read(_undelivered)
    keep_undelivered = write(_keep)
    write_undelivered = write(_write)
