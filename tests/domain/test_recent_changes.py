from typing import Any

import pytest

from muster.domain.events import Entity, Event
from muster.domain.ids import EventId
from muster.domain.recent_changes import SHOWN, TOGETHER, changes
from tests.domain.builders import NOW, SMALLEST


def event(n: int = 1, name: str = "drained", entity: Entity = Entity.NODE, **fields: Any) -> Event:
    given: dict[str, Any] = {
        "id": EventId(f"ev-{n}"),
        "at": NOW - n,
        "entity_id": f"{entity}-{n}",
        "version": 7,
        "changes": {},
        "actor": "ada (tok-1)",
    }
    return Event(name=name, entity=entity, **(given | fields))


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (event(name="applied", entity=Entity.TEMPLATE, entity_id="ci"), "template ci applied, revision 7"),
        (event(name="paused", entity=Entity.INSTALLATION, entity_id="everything"), "everything paused"),
        (event(name="resumed", entity=Entity.INSTALLATION, entity_id="ci"), "ci resumed"),
        (
            event(name="limited", entity=Entity.INSTALLATION, changes={"max_nodes": 9}),
            "cap over all templates set to 9",
        ),
        (
            event(name="token_added", entity=Entity.INSTALLATION, changes={"name": "x", "role": "viewer"}),
            "token x added, role viewer",
        ),
        (event(name="token_revoked", entity=Entity.INSTALLATION, entity_id="tok-1"), "token tok-1 revoked"),
        (
            event(name="orphans_brake", entity=Entity.INSTALLATION, entity_id="ec2"),
            "orphans of ec2 left alone: too many",
        ),
        (
            event(name="needs_attention", entity=Entity.INSTALLATION, entity_id="n"),
            "node n could not be terminated yet",
        ),
        (
            event(name="counter_corrected", entity=Entity.INSTALLATION, entity_id="total"),
            "counter total corrected",
        ),
        (
            event(name="webhook_dropped", entity=Entity.INSTALLATION, entity_id="webhook chat"),
            "webhook chat: message given up",
        ),
        (event(entity_id="node-1"), "node node-1 drained"),
        (event(name="condemn", entity_id="node-1"), "node node-1 set to terminate"),
        (
            event(name="cancel_requested", entity=Entity.OPERATION, entity_id="op-1"),
            "operation op-1 cancelled",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_is_told_in_words(told: Event, text: str) -> None:
    (change,) = changes([told])
    assert (change.text, change.who, change.at) == (text, "ada (tok-1)", told.at)


def test_a_change_names_its_template_and_revision() -> None:
    applied, paused = changes(
        [
            event(1, "applied", Entity.TEMPLATE, entity_id="ci"),
            event(2, "paused", Entity.INSTALLATION, changes={"template": "web"}),
        ]
    )
    assert (applied.template, applied.revision) == ("ci", 7)
    assert (paused.template, paused.revision) == ("web", None)


def test_the_same_act_on_many_nodes_is_one_change() -> None:
    (change,) = changes([event(n, "extend") for n in (1, 2, 3)])
    assert (change.count, change.text, change.entity_id, change.id) == (
        3,
        "3 nodes extended",
        "node-1",
        "ev-1",
    )


@pytest.mark.parametrize(("gap", "together"), [(TOGETHER, True), (TOGETHER + SMALLEST, False)])
def test_what_lies_further_apart_is_another_change(gap: float, together: bool) -> None:
    found = changes([event(1, at=NOW), event(2, at=NOW - gap)])
    assert len(found) == (1 if together else 2)


def test_other_acts_other_people_and_settings_are_never_joined() -> None:
    apart = [
        event(1),
        event(2, "condemn"),
        event(3, "condemn", actor="bob (tok-2)"),
        event(4, "token_added", Entity.INSTALLATION),
        event(5, "token_added", Entity.INSTALLATION),
    ]
    assert len(changes(apart)) == len(apart)


def test_the_list_is_bounded() -> None:
    assert len(changes([event(n, "paused", Entity.INSTALLATION) for n in range(SHOWN + 5)])) == SHOWN
