"""Keep away from what was just interrupted: a circuit breaker per instance type and zone, for spot launches.

EC2 shows a machine that it took back for about an hour. So EC2 itself remembers for all replicas, and nothing
is stored here. While it shows one, spot launches avoid that type in that zone, as long as something is left.
"""

from collections.abc import Mapping, Sequence

from muster.integrations.ec2 import tags
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.describer import PAGE, VERB
from muster.integrations.ec2.errors import AwsError, NoAnswer, NotAsked
from muster.ports.clock import Clock

TAKEN_BACK = ("Server.SpotInstanceTermination", "Server.SpotInstanceShutdown")
KEEP = 60.0
"""Seconds for which an answer holds."""
TYPES_MOST = 400
"""Names that a fleet takes for one subnet."""
SpotPool = tuple[str, str]
"""An instance type in a zone."""


class Interruptions:
    def __init__(self, aws: Aws, clock: Clock, *, installation_id: str) -> None:
        self._aws = aws
        self._clock = clock
        self._installation = installation_id
        self._known: frozenset[SpotPool] = frozenset()
        self._until = 0.0

    async def recent(self) -> frozenset[SpotPool]:
        """Return the pools whose machines EC2 took back lately. A failed look gives what was known."""
        now = self._clock.now()
        if now >= self._until:
            self._until = now + KEEP
            try:
                self._known = await self._look()
            except (AwsError, NoAnswer, NotAsked):
                return self._known  # no reason to fail a launch
        return self._known

    async def _look(self) -> frozenset[SpotPool]:
        filters = [
            {"Name": f"tag:{tags.INSTALLATION}", "Values": [self._installation]},
            {"Name": "state-reason-code", "Values": list(TAKEN_BACK)},
        ]
        found: list[SpotPool] = []
        async for page in self._aws.pages(VERB, Filters=filters, MaxResults=PAGE):
            for reservation in page.get("Reservations", ()):
                for each in reservation.get("Instances", ()):
                    zone = (each.get("Placement") or {}).get("AvailabilityZone", "")
                    found.append((str(each.get("InstanceType", "")), str(zone)))
        return frozenset(found)


def spared(
    subnets: Sequence[str], zones: Sequence[str], types: Sequence[str], interrupted: frozenset[SpotPool]
) -> Mapping[str, tuple[str, ...]]:
    """Return the types that each subnet may still use. Empty: no reason to choose, or nothing would be left.

    `zones`: of the subnets, in their order. `types`: what fits the launch.
    """
    left = {
        subnet: tuple(each for each in types if (each, zone) not in interrupted)[:TYPES_MOST]
        for subnet, zone in zip(subnets, zones, strict=True)
    }
    if all(len(some) == len(types) for some in left.values()):
        return {}
    return {subnet: some for subnet, some in left.items() if some}
