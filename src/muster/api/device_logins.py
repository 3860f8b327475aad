"""Sign terminals in, after RFC 8628: Muster is the device authorization endpoint.

The terminal gets a secret and a short code. A person who is signed in on the page confirms the code, whatever
identity provider they came from. From then on the terminal's secret is a token. So a lost answer costs
nothing: the terminal asks again with the secret that it has.
"""

import hashlib

from muster.api.access import SECRET_PREFIX
from muster.api.problems import AuthorizationPending, LoginDenied, LoginExpired
from muster.domain.access import ApiToken, DeviceRequest, Settlement, TokenKind, hashed, named_after
from muster.domain.errors import Conflict, Forbidden, NotFound
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.sign_in import Lifetimes

LASTS = 600.0
INTERVAL = 2.0
WAITING_MOST = 200
"""Terminals that may wait at the same time: anyone on the network can ask. Then the oldest one of the address
that asks most makes room."""
TRIES = 3
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that no code is a word."""
_CODE_LENGTH, _HALF = 8, 4


def user_code(secret: str) -> str:
    """Derive the code that a person compares from the terminal's secret: 34 bits."""
    number = int.from_bytes(hashlib.sha256(f"code {secret}".encode()).digest(), "big")
    letters = ""
    for _ in range(_CODE_LENGTH):
        number, letter = divmod(number, len(_LETTERS))
        letters += _LETTERS[letter]
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


def typed_code(text: str) -> str:
    """Return a code as it was given out, from what a person typed."""
    letters = "".join(each for each in text.upper() if each in _LETTERS)[:_CODE_LENGTH]
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


class DeviceLogins:
    def __init__(self, access: AccessStore, clock: Clock, ids: Ids, lifetimes: Lifetimes) -> None:
        self._access = access
        self._clock = clock
        self._ids = ids
        self._lifetimes = lifetimes

    async def begin(self, machine: str, address: str) -> tuple[DeviceRequest, str]:
        """Return the request of a terminal and its secret."""
        for attempt in range(TRIES):
            secret, now = SECRET_PREFIX + self._ids.secret(), self._clock.now()
            request = DeviceRequest(
                user_code=user_code(secret),
                machine=machine,
                created_at=now,
                expires_at=now + LASTS,
                address=address,
            )
            try:
                await self._access.add_device(request, secret_hash=hashed(secret), most=WAITING_MOST)
            except Conflict:
                if attempt == TRIES - 1:
                    raise
                continue
            return request, secret
        raise AssertionError("unreachable")

    async def token(self, secret: str) -> ApiToken:
        """Return the token of a terminal that was confirmed.

        Raises AuthorizationPending, LoginDenied or LoginExpired.
        """
        token = await self._access.token_for(hashed(secret))
        if token is not None and token.kind is TokenKind.LOGIN and token.valid(now=self._clock.now()):
            return token
        request = await self._access.device_for(hashed(secret))
        if request is not None and request.settled is Settlement.DENIED:
            raise LoginDenied("cannot log in: the person denied it; run `muster login` again")
        if request is None or not request.pending(now=self._clock.now()):
            why = f"the code was not confirmed within {LASTS / 60:g} minutes, or too many terminals asked"
            raise LoginExpired(f"cannot log in: {why}; run `muster login` again")
        raise AuthorizationPending("the code waits for a person to confirm it; ask again")

    async def find(self, typed: str, person: ApiToken) -> DeviceRequest:
        """Return the waiting terminal with a code. Raises NotFound, or Forbidden for others than people."""
        _check_person(person)
        request = await self._access.device(typed_code(typed))
        if request is None or now_over(request, self._clock.now()):
            raise NotFound("waiting terminal", typed_code(typed))
        return request

    async def confirm(self, typed: str, person: ApiToken) -> DeviceRequest:
        """Sign the terminal in as the person, with the person's role. Raises as `find` does, and Conflict."""
        request, now = await self.find(typed, person), self._clock.now()
        ends = person.created_at + self._lifetimes.login  # so that its groups are never older than that
        if now >= ends:
            words = "you signed in on the page longer ago than login_max"
            raise Forbidden(f"cannot log in a terminal: {words}; sign out and in again")
        token = ApiToken(
            id=self._ids.new("tok"),
            name=named_after(person.name, request.machine),
            role=person.role,
            created_at=now,
            expires_at=ends,
            kind=TokenKind.LOGIN,
            claims=person.claims,
        )
        await self._access.settle_device(request.user_code, token, now=now, actor=person.actor)
        return await self.find(typed, person)

    async def deny(self, typed: str, person: ApiToken) -> DeviceRequest:
        request = await self.find(typed, person)
        now = self._clock.now()
        await self._access.settle_device(request.user_code, None, now=now, actor=person.actor)
        return await self.find(typed, person)


def now_over(request: DeviceRequest, now: float) -> bool:
    return now >= request.expires_at


def _check_person(token: ApiToken) -> None:
    if token.kind is not TokenKind.SESSION:
        rule = "only a person who signed in by the identity provider can confirm a terminal"
        raise Forbidden(f"cannot do this with a token: {rule}; sign in on the page")
