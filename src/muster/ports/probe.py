"""Ask a service from outside whether it serves. Its address comes from the service and is not trusted."""

from typing import Protocol


class Prober(Protocol):
    async def check(self, url: str) -> None:
        """Check that an address may be probed.

        Raises InvalidRequest if the address isn't http(s), or its host is or resolves to an address outside
        the allowed ranges. A name that doesn't resolve is accepted.
        """
        ...

    async def passes(self, url: str) -> bool:
        """Return whether the service answers with success, within a bounded time.

        Never raises for what the other side does. Never connects to an address outside the allowed ranges,
        also if the name resolves to one by now.
        """
        ...
