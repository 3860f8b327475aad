"""The counters behind the caps: one item for each template and one for all, with the stored cap in it.

This module alone changes them. They move in the transaction that reserves, adopts, closes a launch or
terminates a node. The audit recounts by an index, which may lag. It corrects only what a consistent scan of
the table confirms, and only if the counter hasn't moved since before the scan.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from muster.domain.errors import CapReached
from muster.domain.events import of_correction
from muster.domain.launch import Launch
from muster.ports.store import TOTAL, Drift, Usage
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import Item, Refusal, Value, restored, whole
from muster.stores.dynamodb.writes import Write, again

_PREFIX = "template/"


def scope_of(template: str) -> str:
    return f"{_PREFIX}{template}"


def live(template: str) -> str:
    """Return where the index lists the live machines of a template."""
    return f"LIVE#{template}"


def add(write: Write, template: str, change: int) -> None:
    """Move both counters by what is really written, caps or no caps."""
    if change:
        for scope in (scope_of(template), TOTAL):
            write.update(keys.counter(scope), "ADD #used :change, #c :one", {"change": change, "one": 1})


async def caps(table: Table, template: str) -> tuple[int | None, int]:
    """Return the caps as stored now: of the template (None: there is none) and over all."""
    found = await table.get_many([keys.counter(scope_of(template)), keys.counter(TOTAL)])
    own = found.get(keys.counter(scope_of(template)), {}).get("cap")
    total = found.get(keys.counter(TOTAL), {})
    return None if own is None else int(own), whole(total, "cap")


def take(
    write: Write, template: str, count: int, *, stored: tuple[int | None, int], cap: int, total_cap: int
) -> None:
    """Take room under both caps; `stored` is what was read, and is asked to be still so."""
    own, total = stored
    limits = (
        (scope_of(template), own, cap if own is None else min(cap, own)),
        (TOTAL, total, min(total_cap, total)),
    )
    for scope, known, most in limits:
        same = "attribute_not_exists(#cap)" if known is None else "#cap = :cap"
        room = "#used <= :room" if count > most else "(attribute_not_exists(#used) OR #used <= :room)"
        values: dict[str, Value] = {"room": most - count, "change": count, "one": 1}
        if known is not None:
            values["cap"] = known
        write.update(
            keys.counter(scope),
            "ADD #used :change, #c :one",
            values,
            where=f"{same} AND {room}",
            refused=_full(scope, known, most, count),
        )


def _full(scope: str, known: int | None, most: int, count: int) -> Refusal:
    def refused(item: Item | None) -> Exception:
        found = item or {}
        cap = found.get("cap")
        if cap != known:
            return Again(f"the cap of {scope} was changed")
        return CapReached(scope=scope, used=whole(found, "used"), cap=most, wanted=count)

    return refused


async def usage(table: Table, template: str) -> Usage:
    own, total = keys.counter(scope_of(template)), keys.counter(TOTAL)
    found = await table.get_many([own, total])
    return Usage(template=whole(found.get(own, {}), "used"), total=whole(found.get(total, {}), "used"))


async def audit(feed: Feed, *, now: float) -> Sequence[Drift]:
    table = feed.table
    before = {str(item["SK"]): item for item in await table.query(keys.COUNTERS)}
    if _agree(before, await _by_index(table, before)):
        return []
    before = {str(item["SK"]): item for item in await table.query(keys.COUNTERS)}
    # A counter may be seen to have moved before the machine that moved it is seen.
    await table.settled()
    counted = await _by_table(table)
    drifts = [
        Drift(scope=scope, counted=counted[scope], stored=whole(before.get(scope, {}), "used"))
        for scope in sorted({*before, *counted})
        if counted[scope] != whole(before.get(scope, {}), "used")
    ]
    corrected = []
    for drift in drifts:
        try:
            await feed.commit(_correction(drift, before.get(drift.scope, {}), now))
        except Again:
            continue  # it moved while we counted: the next audit looks again
        corrected.append(drift)
    return corrected


def _correction(drift: Drift, before: Item, now: float) -> Write:
    write = Write()
    unmoved = "attribute_not_exists(#c)" if before.get("c") is None else "#c = :c"
    values: dict[str, Value] = {"used": drift.counted, "one": 1}
    if before.get("c") is not None:
        values["c"] = before["c"]
    write.update(
        keys.counter(drift.scope),
        "SET #used = :used ADD #c :one",
        values,
        where=unmoved,
        refused=again(drift.scope),
    )
    write.tell(of_correction(drift.scope, counted=drift.counted, stored=drift.stored), at=now)
    return write


def _agree(stored: Mapping[str, Item], counted: Mapping[str, int]) -> bool:
    return all(whole(item, "used") == counted[scope] for scope, item in stored.items()) and all(
        scope in stored for scope in counted
    )


async def _by_index(table: Table, scopes: Mapping[str, Item]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for scope in scopes:
        if scope != TOTAL:
            counted[scope] = await table.count(live(scope.removeprefix(_PREFIX)), index="scoped")
    async for item in table.walk(keys.OPEN, index="timed"):
        launch = restored(Launch, item)
        counted[scope_of(launch.template)] += launch.held
    counted[TOTAL] = sum(counted.values())
    return counted


async def _by_table(table: Table) -> Counter[str]:
    counted: Counter[str] = Counter()
    where = "(begins_with(#SK, :machine) AND #live = :yes) OR (begins_with(#SK, :launch) AND #tp = :open)"
    values: dict[str, Value] = {"machine": "MACHINE", "yes": True, "launch": "LAUNCH#", "open": keys.OPEN}
    async for item in table.scan(where, values):
        if item["SK"] == "MACHINE":
            counted[scope_of(str(item["sp"]).removeprefix(live("")))] += 1
        else:
            launch = restored(Launch, item)
            counted[scope_of(launch.template)] += launch.held
    counted[TOTAL] = sum(counted.values())
    return counted
