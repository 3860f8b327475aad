"""What the provider asks of an executable, in whatever words the executable understands."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from muster.integrations.command.protocol import AskedMachine, Hello, Launched, MachineSeen
from muster.ports.provider import LaunchRequest


class Dialect(Protocol):
    """Every method but `hello` raises Throttled, Refused or Uncertain; `launch` also TokenSpent."""

    async def hello(self) -> Hello:
        """Return what the executable can do. Raises Throttled (it can't be asked now) or Refused."""
        ...

    async def launch(
        self, request: LaunchRequest, machines: Sequence[AskedMachine], types: Sequence[str]
    ) -> Launched:
        """Make these machines. Fewer may come, with the reason."""
        ...

    def list(self, prefix: str) -> AsyncIterator[MachineSeen]:
        """Show the machines whose names begin so. Others may be among them."""
        ...

    async def describe(self, ids: Sequence[str]) -> Sequence[MachineSeen]: ...

    async def console(self, machine_id: str, lines: int) -> str | None: ...

    async def terminate(self, ids: Sequence[str]) -> None: ...

    async def close(self) -> None: ...
