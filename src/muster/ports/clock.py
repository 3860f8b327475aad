"""Time. The only place from which the control plane learns it."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Return the seconds since the epoch by the server's clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for so many seconds."""
        ...
