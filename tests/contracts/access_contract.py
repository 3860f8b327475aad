"""The contract of the access port as code: every adapter runs it unchanged.

An adapter's test module subclasses `AccessContract` and gives it two fixtures: `store` (an empty one) and
`access` (the access port over it).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from muster.api.access import mint_first_admin
from muster.domain.access import (
    ENDED_KEPT,
    ApiToken,
    Claims,
    DeviceRequest,
    Role,
    Settlement,
    TokenKind,
    hashed,
)
from muster.domain.errors import Conflict, NotFound, Paused
from muster.domain.overview import KEPT, Acknowledgement
from muster.domain.progress import Tone
from muster.ports.access import AccessStore
from muster.ports.store import Store
from muster.system import SystemIds
from tests.contracts.store_contract.bookkeeping import whole_feed
from tests.contracts.store_contract.records import Records


def token(n: int = 1, *, expires_at: float | None = 900.0) -> ApiToken:
    return ApiToken(
        id=f"tok-{n}", name="laptop", role=Role.OPERATOR, created_at=10.0 * n, expires_at=expires_at
    )


def session(n: int = 1, *, created_at: float = 10.0) -> ApiToken:
    return ApiToken(
        id=f"ses-{n}",
        name="ada@example.com",
        role=Role.OPERATOR,
        created_at=created_at,
        expires_at=created_at + 100.0,
        kind=TokenKind.SESSION,
        idle_timeout=20.0,
        seen_at=created_at,
        claims=Claims(groups=("platform", "größe"), email="ada@example.com"),
    )


def terminal(code: str = "AAAA-BBBB", *, created_at: float = 10.0, address: str = "") -> DeviceRequest:
    return DeviceRequest(
        user_code=code,
        machine="laptop",
        created_at=created_at,
        expires_at=created_at + 60.0,
        address=address,
    )


class ClaimBatcher:
    """Holds all after their first look at the tokens until each has looked."""

    def __init__(self, access: AccessStore, *, count: int) -> None:
        self._access = access
        self._met = asyncio.Barrier(count)
        self._looks = count

    async def tokens(self) -> Sequence[ApiToken]:
        found = await self._access.tokens()
        if self._looks:
            self._looks -= 1
            await self._met.wait()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access, name)


class AccessContract:
    async def test_a_token_is_found_by_the_hash_of_its_secret(self, access: AccessStore) -> None:
        await access.add_token(token(), secret_hash="hash-1")
        await access.add_token(token(2, expires_at=None), secret_hash="hash-2")
        assert await access.token_for("hash-1") == token()
        assert await access.token_for("hash-2") == token(2, expires_at=None)
        assert await access.token_for("hash-3") is None
        assert await access.token_for("") is None

    async def test_tokens_are_listed_oldest_first(self, access: AccessStore) -> None:
        assert list(await access.tokens()) == []
        for n in (3, 1, 2):
            await access.add_token(token(n), secret_hash=f"hash-{n}")
        assert list(await access.tokens()) == [token(1), token(2), token(3)]

    async def test_an_expired_token_is_still_found_for_the_caller_to_judge(self, access: AccessStore) -> None:
        await access.add_token(token(expires_at=11.0), secret_hash="hash-1")
        found = await access.token_for("hash-1")
        assert found is not None
        assert not found.valid(now=11.0)

    async def test_a_revoked_token_stays_revoked_since_the_first_time(self, access: AccessStore) -> None:
        await access.add_token(token(), secret_hash="hash-1")
        await access.add_token(token(2), secret_hash="hash-2")
        revoked = await access.revoke_token("tok-1", now=50.0)
        assert revoked == replace(token(), revoked_at=50.0)
        assert await access.revoke_token("tok-1", now=60.0) == revoked
        assert await access.token_for("hash-1") == revoked
        assert await access.token_for("hash-2") == token(2)

    async def test_an_unknown_token_cannot_be_revoked(self, store: Store, access: AccessStore) -> None:
        with pytest.raises(NotFound):
            await access.revoke_token("tok-9", now=50.0)
        assert await whole_feed(store) == []

    async def test_two_tokens_never_share_a_secret(self, access: AccessStore) -> None:
        await access.add_token(token(), secret_hash="hash-1")
        with pytest.raises(Conflict):
            await access.add_token(token(2), secret_hash="hash-1")
        assert list(await access.tokens()) == [token()]

    async def test_of_servers_that_start_together_one_makes_the_admin_token(
        self, store: Store, access: AccessStore
    ) -> None:
        for number in (1, 2):  # the second time, there is one that was revoked
            together = cast("AccessStore", ClaimBatcher(access, count=3))
            made = await asyncio.gather(
                *(mint_first_admin(together, ids=SystemIds(), now=20.0) for _ in range(3))
            )
            (secret,) = [each for each in made if each is not None]
            found = await access.token_for(hashed(secret))
            assert found is not None and found.role is Role.ADMIN
            assert len(await access.tokens()) == number
            assert await mint_first_admin(access, ids=SystemIds(), now=30.0) is None
            await access.revoke_token(found.id, now=40.0)

    @pytest.mark.parametrize("kind", [TokenKind.SESSION, TokenKind.LOGIN])
    async def test_a_person_who_signed_in_as_admin_takes_the_place_of_no_admin_token(
        self, access: AccessStore, kind: TokenKind
    ) -> None:
        """Changed rules may give the person no role any more, and then no person could get in."""
        await access.add_token(replace(token(), role=Role.ADMIN, kind=kind), secret_hash="hash-1")
        assert await mint_first_admin(access, ids=SystemIds(), now=20.0) is not None
        assert await mint_first_admin(access, ids=SystemIds(), now=20.0) is None

    async def test_events_tell_of_tokens_once_and_never_of_their_hash(
        self, store: Store, access: AccessStore
    ) -> None:
        await access.add_token(token(), secret_hash="hash-1")
        for now in (50.0, 60.0):
            await access.revoke_token("tok-1", now=now)
        told = [(event.entity_id, event.name, event.at) for event in await whole_feed(store)]
        assert told == [("tok-1", "token_added", 10.0), ("tok-1", "token_revoked", 50.0)]
        assert "hash-1" not in repr(await whole_feed(store))

    # --- sessions ---------------------------------------------------------------------------------

    async def test_a_session_is_a_token_whose_use_is_noted_without_an_event(
        self, store: Store, access: AccessStore
    ) -> None:
        await access.add_token(session(), secret_hash="hash-1", actor="ada")
        assert await access.token_for("hash-1") == session()
        for now in (25.0, 22.0):
            await access.touch_token("ses-1", now=now)
        await access.touch_token("ses-none", now=26.0)
        found = await access.token_for("hash-1")
        assert found == replace(session(), seen_at=25.0), "never back"
        assert found.valid(now=44.0) and not found.valid(now=45.0)
        told = [(each.name, each.entity_id, each.actor) for each in await whole_feed(store)]
        assert told == [("signed_in", "ses-1", "ada")]

    async def test_its_own_person_signs_out_and_another_revokes(
        self, store: Store, access: AccessStore
    ) -> None:
        for n in (1, 2):
            await access.add_token(session(n), secret_hash=f"hash-{n}")
        await access.revoke_token("ses-1", now=15.0, actor=session(1).actor)
        await access.revoke_token("ses-2", now=16.0, actor="admin (tok-1)")
        told = [(each.name, each.entity_id) for each in await whole_feed(store)]
        assert told[-2:] == [("signed_out", "ses-1"), ("token_revoked", "ses-2")]

    async def test_ended_sessions_are_forgotten_with_a_later_one_and_tokens_are_not(
        self, access: AccessStore
    ) -> None:
        kept = token(expires_at=20.0)
        await access.add_token(kept, secret_hash="hash-0")
        for n in (1, 2, 3):
            await access.add_token(session(n, created_at=10.0 * n), secret_hash=f"hash-{n}")
        await access.revoke_token("ses-3", now=31.0)
        later = session(4, created_at=ENDED_KEPT + 115.0)
        await access.add_token(later, secret_hash="hash-4")
        assert [each.id for each in await access.tokens()] == ["tok-1", "ses-2", "ses-4"]
        assert await access.token_for("hash-1") is None and await access.token_for("hash-3") is None
        await access.add_token(session(1, created_at=later.created_at), secret_hash="hash-1")

    # --- terminals that sign in -------------------------------------------------------------------

    async def test_a_terminal_waits_until_it_is_confirmed_and_then_its_secret_is_the_token(
        self, store: Store, access: AccessStore
    ) -> None:
        await access.add_device(terminal(), secret_hash="hash-1", most=5)
        assert await access.device("AAAA-BBBB") == terminal() == await access.device_for("hash-1")
        assert await access.device("CCCC-DDDD") is None and await access.device_for("hash-2") is None
        assert await access.token_for("hash-1") is None
        login = replace(session(), kind=TokenKind.LOGIN, idle_timeout=None, seen_at=None)
        await access.settle_device("AAAA-BBBB", login, now=20.0, actor="ada")
        assert await access.token_for("hash-1") == login
        found = await access.device("AAAA-BBBB")
        assert found is not None and found.settled is Settlement.CONFIRMED
        assert "hash-1" not in repr(await whole_feed(store))

    async def test_a_terminal_is_settled_once(self, store: Store, access: AccessStore) -> None:
        await access.add_device(terminal(), secret_hash="hash-1", most=5)
        await access.settle_device("AAAA-BBBB", None, now=20.0, actor="ada")
        for given in (session(), None):
            with pytest.raises(Conflict):
                await access.settle_device("AAAA-BBBB", given, now=21.0, actor="eve")
        with pytest.raises(NotFound):
            await access.settle_device("CCCC-DDDD", None, now=21.0, actor="eve")
        assert list(await access.tokens()) == []
        assert [(each.name, each.actor) for each in await whole_feed(store)] == [("login_denied", "ada")]

    async def test_of_two_people_who_confirm_together_one_does(self, access: AccessStore) -> None:
        await access.add_device(terminal(), secret_hash="hash-1", most=5)
        ends = await asyncio.gather(
            *(access.settle_device("AAAA-BBBB", session(n), now=20.0, actor="ada") for n in (1, 2)),
            return_exceptions=True,
        )
        assert [type(end) for end in ends if end is not None] == [Conflict]
        assert len(await access.tokens()) == 1

    async def test_a_terminal_that_waited_too_long_is_not_confirmed(self, access: AccessStore) -> None:
        await access.add_device(terminal(), secret_hash="hash-1", most=5)
        with pytest.raises(Conflict):
            await access.settle_device("AAAA-BBBB", session(), now=70.0, actor="ada")
        assert list(await access.tokens()) == []

    async def test_only_so_many_terminals_wait_and_the_address_that_asks_most_makes_room(
        self, access: AccessStore
    ) -> None:
        for n, address in enumerate(("10.0.0.1", "10.0.0.2", "10.0.0.2")):
            asked = terminal(f"AAAA-{n}", created_at=10.0 + n, address=address)
            await access.add_device(asked, secret_hash=f"hash-{n}", most=3)
            assert await access.device(f"AAAA-{n}") == asked
        for n, address in ((3, "10.0.0.2"), (4, "10.0.0.3")):
            asked = terminal(f"AAAA-{n}", created_at=10.0 + n, address=address)
            await access.add_device(asked, secret_hash=f"hash-{n}", most=3)
        left = [await access.device_for(f"hash-{n}") is not None for n in range(5)]
        assert left == [True, False, False, True, True]

    async def test_terminals_that_are_settled_or_expired_make_room(self, access: AccessStore) -> None:
        for n in range(3):
            await access.add_device(terminal(f"AAAA-{n}"), secret_hash=f"hash-{n}", most=3)
        await access.settle_device("AAAA-0", None, now=20.0, actor="ada")
        await access.add_device(terminal("AAAA-9"), secret_hash="hash-9", most=3)
        for code, secret in (("AAAA-9", "hash-8"), ("AAAA-8", "hash-9")):
            with pytest.raises(Conflict):
                await access.add_device(terminal(code), secret_hash=secret, most=9)
        assert [await access.device(f"AAAA-{n}") is not None for n in range(3)] == [True] * 3
        await access.add_device(terminal("AAAA-7", created_at=71.0), secret_hash="hash-7", most=1)
        assert await access.device("AAAA-1") is None and await access.device_for("hash-1") is None

    async def test_a_template_is_paused_until_it_is_resumed(self, access: AccessStore) -> None:
        assert not await access.paused("web")
        await access.pause("web", paused=True, now=1.0)
        assert await access.paused("web")
        assert not await access.paused("ci")
        await access.pause("web", paused=False, now=2.0)
        assert not await access.paused("web")

    async def test_a_pause_of_everything_holds_every_template(self, access: AccessStore) -> None:
        await access.pause(None, paused=True, now=1.0)
        assert await access.paused("web") and await access.paused("ci")
        await access.pause("web", paused=False, now=2.0)
        assert await access.paused("web"), "resuming one does not lift the pause of all"
        await access.pause(None, paused=False, now=3.0)
        assert not await access.paused("web")

    async def test_a_pause_of_one_outlives_a_pause_of_all(self, access: AccessStore) -> None:
        await access.pause("web", paused=True, now=1.0)
        await access.pause(None, paused=True, now=1.0)
        assert list(await access.pauses()) == [None, "web"]
        await access.pause(None, paused=False, now=2.0)
        assert list(await access.pauses()) == ["web"]
        assert await access.paused("web") and not await access.paused("ci")

    @pytest.mark.parametrize("paused", ["web", None], ids=["template", "everything"])
    async def test_the_store_refuses_a_claim_of_what_is_paused(
        self, store: Store, access: AccessStore, paused: str | None
    ) -> None:
        records = Records(store)
        (idle,) = await records.idle(1)
        await access.pause("ci", paused=True, now=1.0)
        await access.pause(paused, paused=True, now=1.0)
        operations = [await records.leased() for _ in range(3)]
        claims = [records.claim(operation, 1) for operation in operations]
        for refused in await asyncio.gather(*claims, return_exceptions=True):
            assert isinstance(refused, Paused) and "resume it first" in str(refused)
        assert await store.node(idle.id) == idle
        await access.pause(paused, paused=False, now=2.0)
        (taken,) = await records.claim(operations[0], 1)
        assert taken.id == idle.id, "a pause of another template holds nothing back"

    @pytest.mark.parametrize("paused", ["web", None], ids=["template", "everything"])
    async def test_the_store_refuses_a_launch_of_what_is_paused(
        self, store: Store, access: AccessStore, paused: str | None
    ) -> None:
        records = Records(store)
        operation = await records.leased()
        early, late = (records.plan(operation, ordinal=ordinal) for ordinal in (1, 2))
        assert await store.reserve(early, cap=9, total_cap=9, fence=operation.fence) == early
        await access.pause("ci", paused=True, now=1.0)
        await access.pause(paused, paused=True, now=1.0)
        with pytest.raises(Paused):
            await store.reserve(late, cap=9, total_cap=9, fence=operation.fence)
        assert await store.launch_by_token(late.token) is None
        assert (await store.usage("web")).total == 1
        with pytest.raises(Paused):  # it makes no room for what may not start
            await store.reserve(late, cap=1, total_cap=1, fence=operation.fence)
        again = await store.reserve(early, cap=9, total_cap=9, fence=operation.fence)
        assert again == early, "it was reserved before the pause"
        await access.pause(paused, paused=False, now=2.0)
        assert await store.reserve(late, cap=9, total_cap=9, fence=operation.fence) == late

    async def test_pausing_twice_is_told_once(self, store: Store, access: AccessStore) -> None:
        for paused in (False, True, True, False, False):
            await access.pause("web", paused=paused, now=1.0)
        await access.pause(None, paused=True, now=2.0)
        told = [(event.name, event.changes, event.at) for event in await whole_feed(store)]
        assert told == [
            ("paused", {"template": "web"}, 1.0),
            ("resumed", {"template": "web"}, 1.0),
            ("paused", {"template": None}, 2.0),
        ]

    async def test_an_acknowledgement_is_kept_replaced_and_taken_back(
        self, store: Store, access: AccessStore
    ) -> None:
        seen = Acknowledgement(finding="paused.web", tone=Tone.WARNING, at=5.0, actor="ada")
        again = replace(seen, at=8.0, tone=Tone.DANGER, actor="bob")
        other = replace(seen, finding="cluster_failed.prod")
        for each in (seen, other, again):
            await access.acknowledge(each)
        assert list(await access.acknowledgements()) == [other, again]
        for _ in range(2):
            await access.unacknowledge("paused.web", now=9.0, actor="ada")
        assert list(await access.acknowledgements()) == [other]
        told = [(event.entity_id, event.name, event.at, event.actor) for event in await whole_feed(store)]
        assert told[-2:] == [
            ("paused.web", "acknowledged", 8.0, "bob"),
            ("paused.web", "unacknowledged", 9.0, "ada"),
        ]
        assert len(told) == 4

    async def test_old_acknowledgements_are_forgotten_with_the_next(self, access: AccessStore) -> None:
        old = Acknowledgement(finding="a", tone=Tone.WARNING, at=1.0, actor="ada")
        kept = replace(old, finding="b", at=2.0)
        new = replace(old, finding="c", at=2.0 + KEPT)
        for each in (old, kept, new):
            await access.acknowledge(each)
        assert list(await access.acknowledgements()) == [kept, new]
