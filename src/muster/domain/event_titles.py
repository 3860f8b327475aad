"""Say in a few words what an event is: always in the past tense, for the page, the terminal and messages.

An event's `name` is a code that programs match. People read the title.
"""

from collections.abc import Mapping

from muster.domain.cluster import ClusterState, Stage
from muster.domain.command import CommandState
from muster.domain.events import Entity
from muster.domain.health import Health
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import Verb
from muster.domain.node import RENEWED
from muster.domain.operation import Step

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
    Entity.OPERATION: {Step.CANCEL_REQUESTED: "cancelled", Step.FAILING: "rollback started"},
    Entity.CLUSTER: {
        ClusterState.READY: "became ready",
        Stage.PREPARING: "preparation started",
        Stage.GROUP: "resource group requested",
        Stage.CREATING: "creation started",
        Stage.GRANTING: "role grants started",
        Stage.DONE: "finished",
        Stage.ABORTING: "stop requested",
        Stage.REVOKING: "role removal started",
        Stage.DELETING: "deletion started",
        Stage.CLEARING: "clean-up started",
        Stage.GONE: "removed",
    },
    Entity.INSTALLATION: {
        "limited": "cap changed",
        "orphans_brake": "orphans left alone",
        "needs_attention": "termination resisted",
    },
}


def title_of(entity: Entity, name: str) -> str:
    """Return what happened, in words: `handed over`, `went offline`. Most codes are such words already."""
    return _TITLES.get(entity, {}).get(name) or name.replace("_", " ")
