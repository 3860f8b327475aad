"""API tokens, pauses and acknowledgements, for the access port.

Holds hashes of secrets, never a secret.
"""

from collections.abc import Sequence

from muster.domain.access import ApiToken
from muster.domain.acknowledgements import KEPT, Acknowledgement
from muster.domain.errors import NotFound
from muster.domain.events import of_installation
from muster.stores.sql import events
from muster.stores.sql.engines import EngineVerbs, read, write
from muster.stores.sql.rows import ACKNOWLEDGEMENT, API_TOKEN
from muster.stores.sql.tx import Tx, Value

EVERYTHING = ""
"""How a pause of everything is stored: no template has this name."""

_BY_ID = f"SELECT {API_TOKEN.select} FROM api_tokens WHERE id = :id"
_BY_HASH = f"SELECT {API_TOKEN.select} FROM api_tokens WHERE secret_hash = :secret_hash"
_ALL = f"SELECT {API_TOKEN.select} FROM api_tokens ORDER BY created_at, id LIMIT 1000"
_ADD = API_TOKEN.inserting("secret_hash")
_SEEN = f"SELECT {ACKNOWLEDGEMENT.select} FROM acknowledgements ORDER BY finding LIMIT 1000"
_ACKNOWLEDGE = ACKNOWLEDGEMENT.upserting("finding")


def _add_token(tx: Tx, token: ApiToken, *, secret_hash: str, actor: str = "") -> None:
    tx.change(_ADD, {**API_TOKEN.params(token), "secret_hash": secret_hash})
    changes = {"name": token.name, "role": token.role.value, "template": token.template}
    events.append(tx, of_installation(token.id, "token_added", changes, actor=actor), at=token.created_at)


def _token_for(tx: Tx, secret_hash: str) -> ApiToken | None:
    return API_TOKEN.first(tx.execute(_BY_HASH, {"secret_hash": secret_hash}))


def _tokens(tx: Tx) -> Sequence[ApiToken]:
    return API_TOKEN.all(tx.execute(_ALL))


def _revoke(tx: Tx, token_id: str, *, now: float, actor: str = "") -> ApiToken:
    revoked = tx.change(
        "UPDATE api_tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        {"id": token_id, "now": now},
    )
    rows = tx.execute(_BY_ID, {"id": token_id})
    if not rows:
        raise NotFound("token", token_id)
    token = API_TOKEN.decode(rows[0])
    if revoked:
        told = of_installation(token_id, "token_revoked", {"name": token.name}, actor=actor)
        events.append(tx, told, at=now)
    return token


def _pause(tx: Tx, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
    params: dict[str, Value] = {"template": template or EVERYTHING, "now": now}
    if paused:
        sql = """
            INSERT INTO pauses (template, since) VALUES (:template, :now) ON CONFLICT (template) DO NOTHING
        """
    else:
        sql = "DELETE FROM pauses WHERE template = :template"
    if tx.change(sql, params):
        name = "paused" if paused else "resumed"
        told = of_installation(template or "everything", name, {"template": template}, actor=actor)
        events.append(tx, told, at=now)


def _paused(tx: Tx, template: str) -> bool:
    return bool(
        tx.execute(
            "SELECT 1 FROM pauses WHERE template = :template OR template = :everything",
            {"template": template, "everything": EVERYTHING},
        )
    )


def _pauses(tx: Tx) -> Sequence[str | None]:
    rows = tx.execute("SELECT template FROM pauses ORDER BY template")
    return [None if row[0] == EVERYTHING else row[0] for row in rows]


def _acknowledge(tx: Tx, given: Acknowledgement) -> None:
    tx.change("DELETE FROM acknowledgements WHERE at < :before", {"before": given.at - KEPT})
    tx.change(_ACKNOWLEDGE, ACKNOWLEDGEMENT.params(given))
    events.append(tx, of_installation(given.finding, "acknowledged", {}, actor=given.actor), at=given.at)


def _acknowledgements(tx: Tx) -> Sequence[Acknowledgement]:
    return ACKNOWLEDGEMENT.all(tx.execute(_SEEN))


def _unacknowledge(tx: Tx, finding: str, *, now: float, actor: str = "") -> None:
    if tx.change("DELETE FROM acknowledgements WHERE finding = :finding", {"finding": finding}):
        events.append(tx, of_installation(finding, "unacknowledged", {}, actor=actor), at=now)


class SqlAccess(EngineVerbs):
    """Implements muster.ports.access.AccessStore."""

    add_token = write(_add_token)
    token_for = read(_token_for, point=True)
    tokens = read(_tokens)
    revoke_token = write(_revoke)
    pause = write(_pause)
    paused = read(_paused, point=True)
    pauses = read(_pauses)
    acknowledge = write(_acknowledge)
    unacknowledge = write(_unacknowledge)
    acknowledgements = read(_acknowledgements)
