"""The stage on which scenarios play: virtual time, one store, a scripted cloud, scripted agents, replicas."""

from tests.stage.agents import NEVER_ATTACHES, NEVER_BOOTS, NEVER_DETACHES, Agent, Manner
from tests.stage.cloud import (
    FULL,
    Outcome,
    gives,
    hangs,
    loses_the_reply,
    loses_the_request,
    refuses,
    spends_the_token,
)
from tests.stage.stage import Replica, Stage, staged

__all__ = [
    "FULL",
    "NEVER_ATTACHES",
    "NEVER_BOOTS",
    "NEVER_DETACHES",
    "Agent",
    "Manner",
    "Outcome",
    "Replica",
    "Stage",
    "gives",
    "hangs",
    "loses_the_reply",
    "loses_the_request",
    "refuses",
    "spends_the_token",
    "staged",
]
