"""Say in a few words what an event is: always in the past tense, for the page, the terminal and messages.

An event's `name` is a code that programs match. People read the title.
"""

from collections.abc import Mapping

from muster.domain.cluster import ClusterState
from muster.domain.command import CommandState
from muster.domain.events import SUBMITTED, Entity
from muster.domain.health import Health
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import Fact, Verb
from muster.domain.node import RENEWED
from muster.domain.operation import OperationEvent
from muster.domain.undelivered import DROPPED, FORGOTTEN, RESENT

_TITLES: Mapping[Entity, Mapping[str, str]] = {
    Entity.NODE: {
        Verb.ADOPT: "created",
        Verb.POOL_IN: "pooled",
        Verb.CLAIM: "claimed",
        Verb.HAND_OVER: "handed over",
        Verb.RELEASE: "released",
        Verb.CLEAN: "cleaned",
        Verb.FAIL: "failed",
        Verb.EXTEND: "extended",
        Verb.CONDEMN: "set to terminate",
        Verb.CONFIRM_GONE: "terminated",
        RENEWED: "kept warm",
        Fact.HELD: "retained",
    },
    Entity.HEALTH: {
        Health.STARTING: "started up",
        Health.READY: "became ready",
        Health.DEGRADED: "became degraded",
        Health.OFFLINE: "went offline",
    },
    Entity.DIAGNOSIS: {"collected": "diagnosis collected"},
    Entity.COMMAND: {CommandState.PENDING: "submitted", CommandState.RUNNING: "started"},
    Entity.LAUNCH: {LaunchState.CALLING: "provider called"},
    Entity.OPERATION: {
        OperationEvent.CANCEL_REQUESTED: "cancelled",
        OperationEvent.FAILING: "rollback started",
    },
    Entity.CLUSTER: {
        ClusterState.READY: "became ready",
        ClusterState.CREATING: "creation started",
        ClusterState.DELETING: "deletion started",
        ClusterState.FAILED: "failed",
        ClusterState.DELETED: "deleted",
        SUBMITTED: "submitted",
    },
    Entity.INSTALLATION: {
        "limited": "cap changed",
        "orphans_brake": "orphans left alone",
        "needs_attention": "termination resisted",
        DROPPED: "message given up",
        RESENT: "messages sent again",
        FORGOTTEN: "messages forgotten",
    },
}


def title_of(entity: Entity, name: str) -> str:
    """Return what happened, in words: `handed over`, `went offline`. Most codes are such words already."""
    told = _TITLES.get(entity, {}).get(name)
    words = name.replace("_", " ")
    # Other events of a cluster are named by the steps of its provider.
    return told or (f"step {words} started" if entity is Entity.CLUSTER else words)
