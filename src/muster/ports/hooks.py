"""Hooks: what a service elsewhere tells this server by HTTP, without a token of Muster's.

An integration contributes a hook, and the API serves it at `POST /hooks/NAME`. The body is bounded before the
hook gets it. The hook proves who sent it, and makes durable what it says before it answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    headers: Mapping[str, str]
    """By name, in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    status: int
    words: str
    """What was done with it. The sender's log of deliveries shows it."""


class Hook(Protocol):
    async def take(self, delivery: Delivery) -> HookAnswer:
        """Take a delivery. May be called with the same one again, in any order. Raises StoreUnavailable."""
        ...
