"""What a provider can tell at once about the end of its machines. Only some can."""

from collections.abc import Sequence
from typing import Protocol

from muster.ports.provider import Machine


class Endings(Protocol):
    name: str
    """The provider's."""

    async def ended(self) -> Sequence[Machine]:
        """Wait until machines are gone, and return them: each once, to a caller that keeps calling.

        Only a provider that knows at once implements this. It saves time and is not needed for correctness:
        the duty `vanished` finds the same machines later. Raises Throttled or Uncertain.
        """
        ...
