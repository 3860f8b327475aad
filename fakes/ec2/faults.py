"""Faults that a test asks for. Each entry is used up by the request that it hits."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fakes.ec2.query_protocol import ApiError


class Boot(StrEnum):
    NORMAL = "normal"
    NEVER = "never"
    """It runs, and nothing in it ever starts."""
    TWICE = "twice"
    """A copy of it runs too, with the same identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    error: ApiError | None = None
    """Answered instead of doing it."""
    page: tuple[int, str, bytes] | None = None
    """Answered instead of doing it, as a proxy on the way does: status, content type, body."""
    lost: bool = False
    """Done, and the connection closed without an answer."""
    held: bool = False
    """Done, and answered only after `FakeEc2.let_go`."""


@dataclass(slots=True)
class Faults:
    capacity: int | None = None
    """Instances that there is room for, over all types and zones."""
    spot_capacity: int | None = None
    throttled_fleets: int = 0
    """So many of the next fleets are answered, and all of their pools were throttled."""
    lag: float = 0.0
    """Seconds until Describe shows a new instance."""
    termination: float = 0.0
    """Seconds from a request to terminate until the instance is terminated."""
    boots: deque[Boot] = field(default_factory=deque)
    """How the next instances boot; then they boot normally."""
    denied: frozenset[str] = frozenset()
    """Actions that these credentials may not do."""
    own_tag: tuple[str, str] | None = None
    """Rights over single machines and launch templates hang on this tag, as in the policy that is printed."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    _next: dict[str, deque[Fault]] = field(default_factory=dict)

    def fail(
        self, action: str, code: str, text: str = "scripted", *, status: int = 400, times: int = 1
    ) -> None:
        self._add(action, Fault(error=ApiError(code, text, status)), times)

    def intercept(self, action: str, status: int, kind: str, body: bytes, times: int = 1) -> None:
        self._add(action, Fault(page=(status, kind, body)), times)

    def throttle(self, action: str, times: int = 1) -> None:
        self.fail(action, "RequestLimitExceeded", "Request limit exceeded.", status=503, times=times)

    def lose(self, action: str, times: int = 1) -> None:
        self._add(action, Fault(lost=True), times)

    def hold(self, action: str) -> None:
        self._add(action, Fault(held=True), 1)

    def take(self, action: str) -> Fault:
        waiting = self._next.get(action)
        return waiting.popleft() if waiting else Fault()

    def _add(self, action: str, fault: Fault, times: int) -> None:
        self._next.setdefault(action, deque()).extend([fault] * times)
