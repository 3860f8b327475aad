"""Ask a service from outside whether it serves. Its address comes from the service and is not trusted."""

from typing import Protocol


class Prober(Protocol):
    async def check(self, url: str) -> None:
        """Raises InvalidRequest, saying why, if the address isn't one that may be probed: not http(s), or a
        host that is (or resolves to) anything outside the allowed ranges. A name that doesn't resolve is no
        reason."""
        ...

    async def passes(self, url: str) -> bool:
        """Whether the service answers with success, within a bounded time. Never raises for what the other
        side does, and never connects to anything outside the allowed ranges, whatever a name resolves to
        by now."""
        ...
