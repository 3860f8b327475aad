"""Undelivered messages of webhooks, for the message port: one row each, in the table undelivered."""

from collections.abc import Sequence

from muster.domain.undelivered import Backlog, Undelivered, dropped
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.records import version_conflict
from muster.stores.sql import events
from muster.stores.sql.engines import EngineVerbs, read, write
from muster.stores.sql.rows import UNDELIVERED
from muster.stores.sql.tx import Tx, Value

ALL = f"SELECT {UNDELIVERED.select} FROM undelivered WHERE id > :after ORDER BY id LIMIT :limit"
OF_WEBHOOK = f"""
    SELECT {UNDELIVERED.select} FROM undelivered WHERE webhook = :webhook AND id > :after
    ORDER BY id LIMIT :limit
"""
BACKLOGS = """
    SELECT webhook, count(due_at), count(given_up_at),
        min(CASE WHEN due_at IS NOT NULL THEN since END), max(given_up_at),
        (SELECT problem FROM undelivered AS m WHERE m.webhook = u.webhook
            ORDER BY CASE WHEN due_at IS NULL THEN 1 ELSE 0 END,
                CASE WHEN due_at IS NULL THEN -given_up_at ELSE since END, id LIMIT 1)
    FROM undelivered AS u GROUP BY webhook ORDER BY webhook
"""
_KEEP = f"{UNDELIVERED.insert} ON CONFLICT (id) DO NOTHING"
_FORGET = "DELETE FROM undelivered WHERE id = :id AND version = :expected"
_PRUNE = "DELETE FROM undelivered WHERE since < :before"


def _undelivered(
    tx: Tx, *, webhook: str | None, after: Cursor | None = None, limit: int
) -> Page[Undelivered]:
    place = "" if after is None else cursors.decode("undelivered", after, str)[0]
    params: dict[str, Value] = {"after": place, "limit": limit + 1}
    if webhook is None:
        rows = tx.execute(ALL, params)
    else:
        rows = tx.execute(OF_WEBHOOK, {**params, "webhook": webhook})
    return cursors.page(UNDELIVERED.all(rows), limit, "undelivered", place=lambda each: (each.id,))


def _backlogs(tx: Tx) -> Sequence[Backlog]:
    return [
        Backlog(
            webhook=webhook,
            waiting=waiting,
            given_up=given_up,
            oldest_since=oldest_since,
            given_up_at=given_up_at,
            problem=problem,
        )
        for webhook, waiting, given_up, oldest_since, given_up_at, problem in tx.execute(BACKLOGS)
    ]


def _keep(tx: Tx, message: Undelivered) -> None:
    if tx.change(_KEEP, UNDELIVERED.params(message)):
        _tell(tx, message)


def _write(tx: Tx, before: Undelivered, after: Undelivered | None) -> None:
    place: dict[str, Value] = {"id": before.id, "expected": before.version}
    if after is None:
        written = tx.change(_FORGET, place)
    else:
        changes = UNDELIVERED.changed(before, after)
        written = tx.change(UNDELIVERED.update(tuple(changes)), {**changes, **place})
    if not written:
        raise version_conflict(before.id, before.version)
    _tell(tx, after)


def _prune(tx: Tx, *, before: float) -> None:
    tx.change(_PRUNE, {"before": before})


def _tell(tx: Tx, message: Undelivered | None) -> None:
    if message is not None and message.given_up_at is not None:
        events.append(tx, dropped(message), at=message.given_up_at)


class SqlMessages(EngineVerbs):
    """Implements muster.ports.messages.MessageStore."""

    undelivered = read(_undelivered)
    backlogs = read(_backlogs)
    keep_undelivered = write(_keep)
    write_undelivered = write(_write)
    prune_undelivered = write(_prune)
