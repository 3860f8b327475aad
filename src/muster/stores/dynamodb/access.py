"""API tokens, pauses and acknowledgements, for the access port.

Holds hashes of secrets, never a secret.
"""

from collections.abc import Sequence
from dataclasses import replace

from muster.domain.access import ApiToken
from muster.domain.acknowledgements import KEPT, Acknowledgement
from muster.domain.errors import NotFound
from muster.domain.events import of_installation
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import Key, record, restored, text
from muster.stores.dynamodb.writes import ABSENT, THERE, Write, conflict

EVERYTHING = "*"
"""How a pause of everything is stored: no template has this name, and it sorts before all of them."""

FORGOTTEN = 20
"""Old acknowledgements that go with one write, which has few places."""


class DynamoAccess:
    """Implements muster.ports.access.AccessStore; see there for what each verb promises."""

    def __init__(self, table: Table, feed: Feed) -> None:
        self._table = table
        self._feed = feed

    async def add_token(self, token: ApiToken, *, secret_hash: str, actor: str = "") -> None:
        write = Write()
        taken = conflict(f"cannot add token {token.id}: it, or its secret, is there already")
        write.put(keys.secret(secret_hash), {"token": token.id}, where=ABSENT, refused=taken)
        write.put((keys.TOKENS, token.id), {"d": record(token)}, where=ABSENT, refused=taken)
        changes = {"name": token.name, "role": token.role.value, "template": token.template}
        write.tell(of_installation(token.id, "token_added", changes, actor=actor), at=token.created_at)
        await self._feed.commit(write)

    async def token_for(self, secret_hash: str) -> ApiToken | None:
        item = await self._table.get(keys.secret(secret_hash))
        found = None if item is None else await self._table.get((keys.TOKENS, text(item, "token")))
        return None if found is None else restored(ApiToken, found)

    async def tokens(self) -> Sequence[ApiToken]:
        found = [restored(ApiToken, item) for item in await self._table.query(keys.TOKENS, most=1000)]
        return sorted(found, key=lambda token: (token.created_at, token.id))

    async def revoke_token(self, token_id: str, *, now: float, actor: str = "") -> ApiToken:
        return await self._table.repeated(lambda: self._revoke(token_id, now, actor))

    async def _revoke(self, token_id: str, now: float, actor: str) -> ApiToken:
        item = await self._table.get((keys.TOKENS, token_id))
        if item is None:
            raise NotFound("token", token_id)
        token = restored(ApiToken, item)
        if token.revoked_at is not None:
            return token
        revoked = replace(token, revoked_at=now)
        write = Write()
        write.update(
            (keys.TOKENS, token_id),
            "SET #d = :after",
            {"after": record(revoked), "before": item["d"]},
            where="#d = :before",
            refused=lambda _item: Again(token_id),
        )
        write.tell(of_installation(token_id, "token_revoked", {"name": token.name}, actor=actor), at=now)
        await self._feed.commit(write)
        return revoked

    async def pause(self, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
        write = Write()
        if paused:
            write.put(_pause(template), {"since": now}, where=ABSENT, refused=lambda _item: Again())
        else:
            write.delete(_pause(template), where=THERE, refused=lambda _item: Again())
        name = "paused" if paused else "resumed"
        write.tell(
            of_installation(template or "everything", name, {"template": template}, actor=actor), at=now
        )
        try:
            await self._feed.commit(write)
        except Again:
            return  # it is so already

    async def paused(self, template: str) -> bool:
        return bool(await self._table.get_many([_pause(template), _pause(None)]))

    async def pauses(self) -> Sequence[str | None]:
        names = [text(item, "SK") for item in await self._table.query(keys.PAUSES)]
        return [None if name == EVERYTHING else name for name in names]

    async def acknowledge(self, given: Acknowledgement) -> None:
        write = Write()
        old = [
            each
            for each in await self.acknowledgements()
            if each.at < given.at - KEPT and each.finding != given.finding
        ]
        for each in old[:FORGOTTEN]:
            write.delete((keys.ACKNOWLEDGED, each.finding))
        write.put((keys.ACKNOWLEDGED, given.finding), {"d": record(given)})
        write.tell(of_installation(given.finding, "acknowledged", {}, actor=given.actor), at=given.at)
        await self._feed.commit(write)

    async def unacknowledge(self, finding: str, *, now: float, actor: str = "") -> None:
        write = Write()
        write.delete((keys.ACKNOWLEDGED, finding), where=THERE, refused=lambda _item: Again())
        write.tell(of_installation(finding, "unacknowledged", {}, actor=actor), at=now)
        try:
            await self._feed.commit(write)
        except Again:
            return  # it is so already

    async def acknowledgements(self) -> Sequence[Acknowledgement]:
        found = await self._table.query(keys.ACKNOWLEDGED, most=1000)
        return [restored(Acknowledgement, item) for item in found]


def _pause(template: str | None) -> Key:
    return keys.PAUSES, template or EVERYTHING
