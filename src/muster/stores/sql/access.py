"""API tokens, terminals that sign in, pauses and acknowledgements, for the access port.

Holds hashes of secrets, never a secret.
"""

from collections.abc import Sequence

from muster.domain.access import ENDED_KEPT, ApiToken, DeviceRequest, Settlement, TokenKind, displaced
from muster.domain.errors import Conflict, NotFound
from muster.domain.events import of_installation, of_note, of_token_made, of_token_revoked
from muster.domain.overview import KEPT, Acknowledgement
from muster.stores.records import device_over
from muster.stores.sql import events, guards
from muster.stores.sql.engines import EngineVerbs, read, write
from muster.stores.sql.rows import ACKNOWLEDGEMENT, API_TOKEN, DEVICE
from muster.stores.sql.tx import Tx, Value

_BY_HASH = f"SELECT {API_TOKEN.select} FROM api_tokens WHERE secret_hash = :secret_hash"
_ALL = f"SELECT {API_TOKEN.select} FROM api_tokens ORDER BY created_at, id LIMIT 1000"
_ADD = API_TOKEN.inserting("secret_hash")
_FORGET_ENDED = f"""
    DELETE FROM api_tokens
    WHERE kind <> '{TokenKind.TOKEN.value}' AND (expires_at < :before OR revoked_at < :before)
"""
_TOUCH = "UPDATE api_tokens SET seen_at = :now WHERE id = :id AND (seen_at IS NULL OR seen_at < :now)"
_ADD_DEVICE = f"{DEVICE.inserting('secret_hash')} ON CONFLICT DO NOTHING"
_DEVICE = f"SELECT {DEVICE.select} FROM device_requests WHERE user_code = :user_code"
_DEVICE_BY_HASH = f"SELECT {DEVICE.select} FROM device_requests WHERE secret_hash = :secret_hash"
_WAITING_DEVICES = f"SELECT {DEVICE.select} FROM device_requests WHERE settled IS NULL ORDER BY user_code"
_DEVICE_HASH = "SELECT secret_hash FROM device_requests WHERE user_code = :user_code"
_SETTLE = """
    UPDATE device_requests SET settled = :settled
    WHERE user_code = :user_code AND settled IS NULL AND expires_at > :now
"""
_SEEN = f"SELECT {ACKNOWLEDGEMENT.select} FROM acknowledgements ORDER BY finding LIMIT 1000"
_ACKNOWLEDGE = ACKNOWLEDGEMENT.upserting("finding")


def _add_token(tx: Tx, token: ApiToken, *, secret_hash: str, actor: str = "") -> None:
    if token.kind is not TokenKind.TOKEN:
        tx.change(_FORGET_ENDED, {"before": token.created_at - ENDED_KEPT})
    tx.change(_ADD, {**API_TOKEN.params(token), "secret_hash": secret_hash})
    events.append(tx, of_token_made(token, actor=actor), at=token.created_at)


def _token_for(tx: Tx, secret_hash: str) -> ApiToken | None:
    return API_TOKEN.first(tx.execute(_BY_HASH, {"secret_hash": secret_hash}))


def _tokens(tx: Tx) -> Sequence[ApiToken]:
    return API_TOKEN.all(tx.execute(_ALL))


def _revoke(tx: Tx, token_id: str, *, now: float, actor: str = "") -> ApiToken:
    revoked = tx.change(
        "UPDATE api_tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        {"id": token_id, "now": now},
    )
    token = API_TOKEN.get(tx, token_id)
    if revoked:
        events.append(tx, of_token_revoked(token, actor=actor), at=now)
    return token


def _touch(tx: Tx, token_id: str, *, now: float) -> None:
    tx.change(_TOUCH, {"id": token_id, "now": now})


def _add_device(tx: Tx, request: DeviceRequest, *, secret_hash: str, most: int) -> None:
    tx.change("DELETE FROM device_requests WHERE expires_at <= :now", {"now": request.created_at})
    waiting = [DEVICE.decode(row) for row in tx.execute(_WAITING_DEVICES)]
    for each in displaced(waiting, request, most=most):
        tx.change("DELETE FROM device_requests WHERE user_code = :code", {"code": each.user_code})
    if not tx.change(_ADD_DEVICE, {**DEVICE.params(request), "secret_hash": secret_hash}):
        raise Conflict(
            f"cannot add the terminal {request.user_code}: its code, or its secret, is there already"
        )


def _device(tx: Tx, user_code: str) -> DeviceRequest | None:
    return DEVICE.first(tx.execute(_DEVICE, {"user_code": user_code}))


def _device_for(tx: Tx, secret_hash: str) -> DeviceRequest | None:
    return DEVICE.first(tx.execute(_DEVICE_BY_HASH, {"secret_hash": secret_hash}))


def _settle(tx: Tx, user_code: str, token: ApiToken | None, *, now: float, actor: str) -> None:
    how = Settlement.DENIED if token is None else Settlement.CONFIRMED
    if not tx.change(_SETTLE, {"user_code": user_code, "settled": how.value, "now": now}):
        if _device(tx, user_code) is None:
            raise NotFound("terminal", user_code)
        raise device_over(user_code)
    if token is not None:
        rows = tx.execute(_DEVICE_HASH, {"user_code": user_code})
        _add_token(tx, token, secret_hash=rows[0][0], actor=actor)
    else:
        events.append(tx, of_note(user_code, "login_denied", reason=None, detail="", actor=actor), at=now)


def _pause(tx: Tx, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
    params: dict[str, Value] = {"template": template or guards.EVERYTHING, "now": now}
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
    return bool(tx.execute(guards.PAUSED, {"template": template, "everything": guards.EVERYTHING}))


def _pauses(tx: Tx) -> Sequence[str | None]:
    rows = tx.execute("SELECT template FROM pauses ORDER BY template")
    return [None if row[0] == guards.EVERYTHING else row[0] for row in rows]


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
    touch_token = write(_touch)
    add_device = write(_add_device)
    device = read(_device, point=True)
    device_for = read(_device_for, point=True)
    settle_device = write(_settle)
    pause = write(_pause)
    paused = read(_paused, point=True)
    pauses = read(_pauses)
    acknowledge = write(_acknowledge)
    unacknowledge = write(_unacknowledge)
    acknowledgements = read(_acknowledgements)
