"""What scenarios run on: virtual time, one store, a scripted cloud, scripted agents, replicas."""

from tests.harness.agents import NEVER_ATTACHES, NEVER_BOOTS, NEVER_DETACHES, Agent, Behaviour
from tests.harness.cloud import (
    FULL,
    Outcome,
    gives,
    hangs,
    loses_the_reply,
    loses_the_request,
    refuses,
    spends_the_token,
)
from tests.harness.harness import Harness, Replica, with_harness

__all__ = [
    "FULL",
    "NEVER_ATTACHES",
    "NEVER_BOOTS",
    "NEVER_DETACHES",
    "Agent",
    "Behaviour",
    "Harness",
    "Outcome",
    "Replica",
    "gives",
    "hangs",
    "loses_the_reply",
    "loses_the_request",
    "refuses",
    "spends_the_token",
    "with_harness",
]
