"""API tokens and pauses, as the access port promises. Holds hashes of secrets, never a secret."""

from collections.abc import Sequence

from muster.domain.access import ApiToken
from muster.domain.errors import NotFound
from muster.domain.plain import Plain
from muster.stores.sql import events
from muster.stores.sql.engines import Engine
from muster.stores.sql.rows import API_TOKEN
from muster.stores.sql.tx import Tx, Value

EVERYTHING = ""
"""How a pause of everything is stored: no template has this name."""

_BY_ID = f"SELECT {API_TOKEN.select} FROM api_tokens WHERE id = :id"
_BY_HASH = f"SELECT {API_TOKEN.select} FROM api_tokens WHERE secret_hash = :secret_hash"
_ALL = f"SELECT {API_TOKEN.select} FROM api_tokens ORDER BY created_at, id LIMIT 1000"
_ADD = f"""
    INSERT INTO api_tokens ({API_TOKEN.select}, secret_hash)
    VALUES (:id, :name, :role, :created_at, :expires_at, :revoked_at, :template, :secret_hash)
"""


class SqlAccess:
    """Implements muster.ports.access.AccessStore; see there for what each verb promises."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add_token(self, token: ApiToken, *, secret_hash: str, actor: str = "") -> None:
        await self._engine.write(lambda tx: _add(tx, token, secret_hash, actor))

    async def token_for(self, secret_hash: str) -> ApiToken | None:
        return await self._engine.read(lambda tx: _by_hash(tx, secret_hash))

    async def tokens(self) -> Sequence[ApiToken]:
        return await self._engine.read(lambda tx: [API_TOKEN.decode(row) for row in tx.execute(_ALL)])

    async def revoke_token(self, token_id: str, *, now: float, actor: str = "") -> ApiToken:
        return await self._engine.write(lambda tx: _revoke(tx, token_id, now, actor))

    async def pause(self, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
        await self._engine.write(lambda tx: _pause(tx, template, paused, now, actor))

    async def paused(self, template: str) -> bool:
        return await self._engine.read(lambda tx: _paused(tx, template))

    async def pauses(self) -> Sequence[str | None]:
        return await self._engine.read(_pauses)


def _add(tx: Tx, token: ApiToken, secret_hash: str, actor: str) -> None:
    tx.change(_ADD, {**API_TOKEN.params(token), "secret_hash": secret_hash})
    events.announce(
        tx,
        token.id,
        "token_added",
        changes={"name": token.name, "role": token.role.value, "template": token.template},
        actor=actor,
        now=token.created_at,
    )


def _by_hash(tx: Tx, secret_hash: str) -> ApiToken | None:
    rows = tx.execute(_BY_HASH, {"secret_hash": secret_hash})
    return API_TOKEN.decode(rows[0]) if rows else None


def _revoke(tx: Tx, token_id: str, now: float, actor: str) -> ApiToken:
    revoked = tx.change(
        "UPDATE api_tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        {"id": token_id, "now": now},
    )
    rows = tx.execute(_BY_ID, {"id": token_id})
    if not rows:
        raise NotFound("token", token_id)
    token = API_TOKEN.decode(rows[0])
    if revoked:
        changes: dict[str, Plain] = {"name": token.name}
        events.announce(tx, token_id, "token_revoked", changes=changes, actor=actor, now=now)
    return token


def _pause(tx: Tx, template: str | None, paused: bool, now: float, actor: str) -> None:
    params: dict[str, Value] = {"template": template or EVERYTHING, "now": now}
    if paused:
        sql = """
            INSERT INTO pauses (template, since) VALUES (:template, :now) ON CONFLICT (template) DO NOTHING
        """
    else:
        sql = "DELETE FROM pauses WHERE template = :template"
    if tx.change(sql, params):
        name = "paused" if paused else "resumed"
        changes: dict[str, Plain] = {"template": template}
        events.announce(tx, template or "everything", name, changes=changes, actor=actor, now=now)


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
