"""The steps of operations: phase, label, and how long each usually takes.

The seconds are only what the bar expects before there is history. No deadline depends on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.domain.operation import Kind


@dataclass(frozen=True, slots=True)
class Step:
    phase: str
    label: str
    seconds: float = 0.0
    """Expected until there is history. The last step has none: it is the end."""


Steps = tuple[Step, ...]

PROVISION_STEPS: Steps = (
    Step("selecting", "Selecting warm nodes", 2.0),
    Step("creating", "Creating the missing nodes", 10.0),
    Step("booting", "Booting and attaching", 45.0),
    Step("handing_over", "Handing over", 2.0),
    Step("completed", "Nodes ready"),
)
RELEASE_STEPS: Steps = (
    Step("releasing", "Taking the nodes back", 5.0),
    Step("detaching", "Waiting until they are clean", 10.0),
    Step("completed", "Nodes returned"),
)
REFILL_STEPS: Steps = (
    Step("creating", "Creating warm nodes", 10.0),
    Step("booting", "Booting", 45.0),
    Step("completed", "Pool refilled"),
)
RUN_STEPS: Steps = (
    *PROVISION_STEPS[:4],
    Step("running", "Running the commands", 120.0),
    Step("releasing", "Giving the nodes back", 10.0),
    Step("completed", "Run ended"),
)
STEPS: Mapping[Kind, Steps] = {
    Kind.PROVISION: PROVISION_STEPS,
    Kind.RELEASE: RELEASE_STEPS,
    Kind.REFILL: REFILL_STEPS,
    Kind.RUN: RUN_STEPS,
}
"""Of each kind: all that it goes through, in order. The steps of clusters are their provider's."""
