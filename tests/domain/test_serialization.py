import json
from dataclasses import dataclass, fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.domain import serialization
from muster.domain.launch import Launch, LaunchState
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.progress import Progress
from muster.domain.requests import ProvisionRequest, RefillRequest, ReleaseRequest
from muster.domain.template import Template, TemplateSpec
from tests.domain import strategies
from tests.domain.builders import NOW, launch, modest, node, operation, template

RECORDS = {
    Node: strategies.nodes,
    Launch: strategies.launches,
    Operation: strategies.operations,
    TemplateSpec: strategies.specs,
    Template: strategies.templates,
    Progress: strategies.progresses,
    ProvisionRequest: strategies.provision_requests,
    ReleaseRequest: strategies.release_requests,
    RefillRequest: strategies.refill_requests,
}


@pytest.mark.parametrize("cls", RECORDS)
@settings(modest, max_examples=25)
@given(data=st.data())
def test_a_record_survives_json_and_back(cls: type, data: st.DataObject) -> None:
    record = data.draw(RECORDS[cls])
    encoded = serialization.fields_to_plain(record)
    assert list(encoded) == [field.name for field in fields(cls) if not field.metadata.get("flat")]
    assert serialization.to_plain(record) == encoded
    again: object = serialization.from_plain(cls, json.loads(json.dumps(encoded)))
    assert again == record
    assert type(again) is cls
    assert [type(getattr(again, name)) for name in encoded] == [
        type(getattr(record, name)) for name in encoded
    ]


@settings(modest, max_examples=30)
@given(strategies.nodes, strategies.nodes)
def test_what_changed_is_what_differs_and_nothing_else(before: Node, after: Node) -> None:
    changes = serialization.changed(before, after)
    for field in fields(Node):
        was, now = getattr(before, field.name), getattr(after, field.name)
        assert (field.name in changes) is (was != now)
    rebuilt = serialization.from_plain(Node, {**serialization.fields_to_plain(before), **changes})
    assert rebuilt == after


def test_nothing_changed_is_an_empty_change() -> None:
    assert serialization.changed(node(), node()) == {}
    assert serialization.changed(node(), replace(node(), drain=True)) == {"drain": True}


def test_without_a_before_everything_is_new() -> None:
    assert serialization.changed(None, launch()) == serialization.fields_to_plain(launch())


def test_words_numbers_and_lists_look_as_they_should() -> None:
    encoded = serialization.fields_to_plain(launch(LaunchState.CALLING, instance_types=("c*", "m*")))
    assert type(encoded["state"]) is str and encoded["state"] == "calling"
    assert encoded["instance_types"] == ["c*", "m*"]
    assert encoded["reason"] is None
    assert serialization.to_plain(True) is True
    nested = serialization.fields_to_plain(operation())["request"]
    assert isinstance(nested, dict) and nested["count"] == 2
    assert serialization.fields_to_plain(template())["spec"] == serialization.to_plain(template().spec)


def test_whole_numbers_of_seconds_come_back_as_the_floats_they_are() -> None:
    stored = serialization.fields_to_plain(node(deadline_at=int(NOW))) | {"created_at": int(NOW)}
    again = serialization.from_plain(Node, stored)
    assert type(again.created_at) is float and type(again.deadline_at) is float


def test_fields_that_a_stored_record_lacks_take_their_defaults() -> None:
    stored = serialization.fields_to_plain(node(drain=True))
    del stored["drain"]
    assert serialization.from_plain(Node, stored) == node()


def test_fields_that_are_unknown_are_left_aside() -> None:
    assert serialization.from_plain(Node, serialization.fields_to_plain(node()) | {"colour": "red"}) == node()


@pytest.mark.parametrize("value", [{1}, object(), b"bytes"])
def test_what_has_no_plain_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=f"cannot encode {type(value).__name__}"):
        serialization.to_plain(value)


@dataclass(frozen=True)
class _Unlucky:
    value: object


def test_what_has_no_plain_form_is_refused_inside_a_record_too() -> None:
    with pytest.raises(TypeError, match="cannot encode set"):
        serialization.to_plain((_Unlucky(value={1}),))


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(KeyError, match="asleep"):
        serialization.from_plain(Node, serialization.fields_to_plain(node()) | {"state": "asleep"})
