"""Provide the machine's clock, its event loop, and random values that can't be guessed."""

import asyncio
import random
import secrets
import time

from muster.ports.clock import Clock
from muster.ports.ids import Ids

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Base 32 without letters that are misread."""
_TIME_DIGITS = 9
_CHANCE_DIGITS = 9
"""45 random bits beside a millisecond: two ids meet about once in 10^13 made in the same millisecond."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest event loop that is installed. uvloop is not available on every platform."""
    try:
        import uvloop  # noqa: PLC0415 — only a server needs it
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class SystemClock(Clock):
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemIds(Ids):
    def new(self, prefix: str) -> str:
        moment = _digits(int(time.time() * 1000), _TIME_DIGITS)
        return f"{prefix}-{moment}{_digits(secrets.randbits(5 * _CHANCE_DIGITS), _CHANCE_DIGITS)}"

    def secret(self) -> str:
        return secrets.token_urlsafe(32)

    def jitter(self) -> float:
        return random.random()  # noqa: S311 — spreads load, guards nothing


def _digits(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
