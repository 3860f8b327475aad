"""API tokens, terminals that sign in, pauses and acknowledgements, for the access port.

Holds hashes of secrets, never a secret.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from muster.domain.access import ENDED_KEPT, ApiToken, DeviceRequest, Settlement, TokenKind, displaced
from muster.domain.events import of_installation, of_note, of_token_made, of_token_revoked
from muster.domain.overview import KEPT, Acknowledgement
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import record, restored, text
from muster.stores.dynamodb.writes import ABSENT, THERE, Write, again, conflict
from muster.stores.records import device_over

FORGOTTEN = 20
"""Old acknowledgements, sessions or terminals that go with one write, which has few places."""


class DynamoAccess:
    """Implements muster.ports.access.AccessStore; see there for what each verb promises."""

    def __init__(self, table: Table, feed: Feed) -> None:
        self._table = table
        self._feed = feed

    async def add_token(self, token: ApiToken, *, secret_hash: str, actor: str = "") -> None:
        write = Write()
        _plan_token(write, token, secret_hash, actor)
        if token.kind is not TokenKind.TOKEN:
            await self._forget_ended(write, before=token.created_at - ENDED_KEPT)
        await self._feed.commit(write)

    async def _forget_ended(self, write: Write, *, before: float) -> None:
        items = await self._table.query(keys.TOKENS, most=1000)
        ended = [item for item in items if _ended_before(restored(ApiToken, item), before)]
        for item in ended[:FORGOTTEN]:
            write.delete((keys.TOKENS, text(item, "SK")))
            write.delete(keys.secret(text(item, "secret")))

    async def token_for(self, secret_hash: str) -> ApiToken | None:
        item = await self._table.get(keys.secret(secret_hash))
        if item is None:
            return None
        return await self._table.record(ApiToken, (keys.TOKENS, text(item, "token")))

    async def tokens(self) -> Sequence[ApiToken]:
        found = [restored(ApiToken, item) for item in await self._table.query(keys.TOKENS, most=1000)]
        return sorted(found, key=lambda token: (token.created_at, token.id))

    async def revoke_token(self, token_id: str, *, now: float, actor: str = "") -> ApiToken:
        return await self._table.repeated(lambda: self._revoke(token_id, now, actor))

    async def _revoke(self, token_id: str, now: float, actor: str) -> ApiToken:
        item = await self._table.found((keys.TOKENS, token_id), "token", token_id)
        token = restored(ApiToken, item)
        if token.revoked_at is not None:
            return token
        revoked = replace(token, revoked_at=now)
        write = Write()
        write.replace((keys.TOKENS, token_id), item, revoked, again(token_id))
        write.tell(of_token_revoked(token, actor=actor), at=now)
        await self._feed.commit(write)
        return revoked

    async def touch_token(self, token_id: str, *, now: float) -> None:
        await self._table.repeated(lambda: self._touch(token_id, now))

    async def _touch(self, token_id: str, now: float) -> None:
        item = await self._table.get((keys.TOKENS, token_id))
        if item is None:
            return
        token = restored(ApiToken, item)
        if token.seen_at is not None and token.seen_at >= now:
            return
        write = Write()
        write.replace((keys.TOKENS, token_id), item, replace(token, seen_at=now), again(token_id))
        await self._feed.commit(write)

    # --- terminals that sign in -------------------------------------------------------------------

    async def add_device(self, request: DeviceRequest, *, secret_hash: str, most: int) -> None:
        write = Write()
        items = await self._table.query(keys.DEVICES, most=most + FORGOTTEN)
        known, now = [restored(DeviceRequest, item) for item in items], request.created_at
        secrets = {each.user_code: text(item, "secret") for each, item in zip(known, items, strict=True)}
        room = displaced([each for each in known if each.pending(now=now)], request, most=most)
        over = [each for each in known if each.expires_at <= now]
        for each in (*room, *over)[:FORGOTTEN]:
            if each.user_code != request.user_code:
                write.delete((keys.DEVICES, each.user_code))
                write.delete(keys.device_secret(secrets[each.user_code]))
        there = conflict(
            f"cannot add the terminal {request.user_code}: its code, or its secret, is there already"
        )
        content = {"d": record(request), "secret": secret_hash}
        write.put((keys.DEVICES, request.user_code), content, where=ABSENT, refused=there)
        write.put(keys.device_secret(secret_hash), {"code": request.user_code}, where=ABSENT, refused=there)
        await self._feed.commit(write)

    async def device(self, user_code: str) -> DeviceRequest | None:
        return await self._table.record(DeviceRequest, (keys.DEVICES, user_code))

    async def device_for(self, secret_hash: str) -> DeviceRequest | None:
        item = await self._table.get(keys.device_secret(secret_hash))
        return None if item is None else await self.device(text(item, "code"))

    async def settle_device(self, user_code: str, token: ApiToken | None, *, now: float, actor: str) -> None:
        item = await self._table.found((keys.DEVICES, user_code), "terminal", user_code)
        request = restored(DeviceRequest, item)
        if not request.pending(now=now):
            raise device_over(user_code)
        how = Settlement.DENIED if token is None else Settlement.CONFIRMED
        write = Write()
        write.replace(
            (keys.DEVICES, user_code),
            item,
            replace(request, settled=how),
            lambda _item: device_over(user_code),
        )
        if token is not None:
            _plan_token(write, token, text(item, "secret"), actor)
        else:
            write.tell(of_note(user_code, "login_denied", reason=None, detail="", actor=actor), at=now)
        await self._feed.commit(write)

    # --- brakes and findings ----------------------------------------------------------------------

    async def pause(self, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
        write = Write()
        if paused:
            write.put(keys.pause(template), {"since": now}, where=ABSENT, refused=again())
        else:
            write.delete(keys.pause(template), where=THERE, refused=again())
        name = "paused" if paused else "resumed"
        write.tell(
            of_installation(template or "everything", name, {"template": template}, actor=actor), at=now
        )
        with suppress(Again):  # it is so already
            await self._feed.commit(write)

    async def paused(self, template: str) -> bool:
        return bool(await self._table.get_many(keys.pauses(template)))

    async def pauses(self) -> Sequence[str | None]:
        names = [text(item, "SK") for item in await self._table.query(keys.PAUSES)]
        return [None if name == keys.EVERYTHING else name for name in names]

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
        write.delete((keys.ACKNOWLEDGED, finding), where=THERE, refused=again())
        write.tell(of_installation(finding, "unacknowledged", {}, actor=actor), at=now)
        with suppress(Again):  # it is so already
            await self._feed.commit(write)

    async def acknowledgements(self) -> Sequence[Acknowledgement]:
        found = await self._table.query(keys.ACKNOWLEDGED, most=1000)
        return [restored(Acknowledgement, item) for item in found]


def _plan_token(write: Write, token: ApiToken, secret_hash: str, actor: str) -> None:
    taken = conflict(f"cannot add token {token.id}: it, or its secret, is there already")
    content = {"d": record(token), "secret": secret_hash}
    write.put(keys.secret(secret_hash), {"token": token.id}, where=ABSENT, refused=taken)
    write.put((keys.TOKENS, token.id), content, where=ABSENT, refused=taken)
    write.tell(of_token_made(token, actor=actor), at=token.created_at)


def _ended_before(token: ApiToken, before: float) -> bool:
    ends = [at for at in (token.expires_at, token.revoked_at) if at is not None]
    return token.kind is not TokenKind.TOKEN and any(at < before for at in ends)
