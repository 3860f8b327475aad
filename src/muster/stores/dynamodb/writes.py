"""Build one transaction: what is written, on which conditions, and which events it appends.

Each action carries the error that its refusal means. The first refused one, in the order of adding, is
raised. DynamoDB lets a transaction touch an item once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.domain.errors import Conflict
from muster.domain.events import Draft
from muster.domain.ids import OperationId
from muster.ports.commits import Record, Written
from muster.stores import records
from muster.stores.dynamodb.table import Again, expressed
from muster.stores.dynamodb.values import Item, Key, Refusal, Value, encoded, named, record

MOST = 100
"""Items of one transaction."""
ABSENT = "attribute_not_exists(#PK)"
THERE = "attribute_exists(#PK)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    draft: Draft
    at: float
    operations: tuple[OperationId, ...]
    by: OperationId | None
    record: Record | None


@dataclass(slots=True)
class Write:
    actions: list[tuple[str, dict[str, Any], Refusal | None]] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    by: OperationId | None = None
    """The operation whose driver writes this, under its fence."""

    def put(
        self,
        key: Key,
        item: Item,
        *,
        where: str | None = None,
        values: Mapping[str, Value] | None = None,
        refused: Refusal | None = None,
    ) -> None:
        body = {"Item": {**encoded(item), **named(key)}}
        self._add("Put", body, where=where, values=values or {}, refused=refused)

    def update(
        self,
        key: Key,
        change: str,
        values: Mapping[str, Value],
        *,
        where: str | None = None,
        refused: Refusal | None = None,
    ) -> None:
        self._add("Update", {"Key": named(key)}, change=change, where=where, values=values, refused=refused)

    def replace(self, key: Key, item: Item, after: object, refused: Refusal) -> None:
        """Replace the record of an item that is as it was read."""
        values: dict[str, Value] = {"after": record(after), "before": item["d"]}
        self.update(key, "SET #d = :after", values, where="#d = :before", refused=refused)

    def delete(
        self,
        key: Key,
        *,
        where: str | None = None,
        values: Mapping[str, Value] | None = None,
        refused: Refusal | None = None,
    ) -> None:
        self._add("Delete", {"Key": named(key)}, where=where, values=values or {}, refused=refused)

    def check(self, key: Key, where: str, values: Mapping[str, Value], refused: Refusal) -> None:
        self._add("ConditionCheck", {"Key": named(key)}, where=where, values=values, refused=refused)

    def tell(
        self,
        draft: Draft,
        *,
        at: float,
        operations: Sequence[OperationId] = (),
        by: OperationId | None = None,
        record: Record | None = None,
    ) -> None:
        """Append an event. `by`: the operation whose driver writes this, if several do.

        `record`: the entity after this write, for those who keep it in memory.
        """
        self.told.append(Told(draft=draft, at=at, operations=tuple(operations), by=by, record=record))

    @property
    def written(self) -> list[Written]:
        return [
            Written(
                draft=each.draft, operation_ids=each.operations, by=each.by or self.by, record=each.record
            )
            for each in self.told
        ]

    def _add(
        self,
        kind: str,
        body: dict[str, Any],
        *,
        change: str | None = None,
        where: str | None,
        values: Mapping[str, Value],
        refused: Refusal | None,
    ) -> None:
        given = {} if change is None else {"UpdateExpression": change}
        if where is not None:
            given["ConditionExpression"] = where
            body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        self.actions.append((kind, {**body, **expressed(given, values)}, refused))


def again(name: str = "") -> Refusal:
    """Let the verb read and decide once more."""
    return lambda _item: Again(name)


def conflict(message: str) -> Refusal:
    return lambda _item: Conflict(message)


def version_conflict(name: str, version: int) -> Refusal:
    return lambda _item: records.version_conflict(name, version)


def setting(values: Mapping[str, Value], *, bump: str | None = None) -> str:
    """Return an update that sets the values, removes those that are None, and counts itself."""
    sets = ", ".join(f"#{name} = :{name}" for name, value in values.items() if value is not None)
    removes = ", ".join(f"#{name}" for name, value in values.items() if value is None)
    parts = [f"SET {sets}" if sets else "", f"REMOVE {removes}" if removes else ""]
    if bump is not None:
        parts.append(f"ADD #{bump} :one")
    return " ".join(part for part in parts if part)


def given(values: Mapping[str, Value], *, bump: str | None = None) -> dict[str, Value]:
    """Return the values that `setting` uses."""
    kept: dict[str, Value] = {name: value for name, value in values.items() if value is not None}
    return {**kept, "one": 1} if bump is not None else kept
