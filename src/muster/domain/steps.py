"""The steps of every kind of operation: phase, label, and how long each usually takes.

The seconds are only what the bar expects before there is history. No deadline depends on them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster.domain.operation import Kind


class Step(NamedTuple):
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
CLUSTER_CREATE_STEPS: Steps = (
    Step("creating_cluster", "Preparing the request", 5.0),
    Step("ensuring_resource_group", "Ensuring the resource group", 15.0),
    Step("making_cluster", "Creating the cluster (5–10 min)", 450.0),
    Step("ensuring_rbac", "Granting role assignments", 30.0),
    Step("completed", "Cluster ready"),
)
CLUSTER_DELETE_STEPS: Steps = (
    Step("stopping", "Stopping what runs", 15.0),
    Step("removing_rbac", "Removing role assignments", 10.0),
    Step("deleting_cluster", "Deleting the cluster (3–8 min)", 300.0),
    Step("clearing_resource_group", "Clearing the resource group", 60.0),
    Step("completed", "Cluster deleted"),
)
STEPS: Mapping[Kind, Steps] = {
    Kind.PROVISION: PROVISION_STEPS,
    Kind.RELEASE: RELEASE_STEPS,
    Kind.REFILL: REFILL_STEPS,
    Kind.RUN: RUN_STEPS,
    Kind.CLUSTER_CREATE: CLUSTER_CREATE_STEPS,
    Kind.CLUSTER_DELETE: CLUSTER_DELETE_STEPS,
}
"""Of every kind: all that it goes through, in order."""
