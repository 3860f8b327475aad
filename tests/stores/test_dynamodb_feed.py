"""The feed between writers and readers that meet in one moment. DynamoDB allows it, an emulator never shows
it: the client here is scripted."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from muster.domain.errors import CursorLost
from muster.domain.events import Draft, Entity
from muster.stores.dynamodb import AwsClient, Location, keys
from muster.stores.dynamodb.aws_client import Refused
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import encoded, packed
from muster.stores.dynamodb.writes import Write
from muster.system import SystemClock, SystemIds
from tests.stores.emulator import REGION, made, wired


def stored(number: int, *, entity: str = "node", after: int | None = None) -> dict[str, Any]:
    """An event, after the number before its own unless told otherwise."""
    data = packed([1.0, entity, "node-1", number, "claim", {}, "", ""])
    place = {"PK": keys.feed(0), "SK": f"{number:016d}", "es": f"node-1#{number:016d}"}
    item = encoded({"d": data, "after": number - 1 if after is None else after})
    return {**item, **{name: {"S": value} for name, value in place.items()}}


class Log:
    """The client of a table with one log, as it looks to one reader."""

    def __init__(self) -> None:
        self.head = 0
        self.events: list[dict[str, Any]] = []
        self.on_their_way: list[dict[str, Any]] = []
        """Of transactions that are committed and not yet visible."""
        self.during_query: Callable[[], None] = lambda: None

    async def batch_get_item(self, **_given: Any) -> Mapping[str, Any]:
        head = {"PK": {"S": keys.feed(0)}, "SK": {"S": "HEAD"}, "n": {"N": str(self.head)}}
        return {"Responses": {"muster": [head]}}

    async def query(self, **given: Any) -> Mapping[str, Any]:
        self.during_query()
        values = given["ExpressionAttributeValues"]
        low, high = values[":low"]["S"], values[":high"]["S"]
        assert low <= high, "DynamoDB refuses such bounds"
        by = "es" if "IndexName" in given else "SK"
        found = [each for each in self.events if low <= each[by]["S"] <= high]
        return {"Items": found if given["ScanIndexForward"] else found[::-1]}

    async def transact_get_items(self, **given: Any) -> Mapping[str, Any]:
        asked = [each["Get"]["Key"]["SK"]["S"] for each in given["TransactItems"]]
        if any(each["SK"]["S"] in asked for each in self.on_their_way):
            raise Refused("TransactionCanceledException", (("TransactionConflict", None),))
        held = {each["SK"]["S"]: each for each in self.events} | {"HEAD": {"n": {"N": str(self.head)}}}
        return {"Responses": [{"Item": held[each]} if each in held else {} for each in asked]}

    def arrive(self) -> None:
        self.events = sorted([*self.events, *self.on_their_way], key=lambda each: str(each["SK"]["S"]))
        self.on_their_way = []


class Early(SystemClock):
    """A clock at which the events of these tests are young."""

    def now(self) -> float:
        return 0.0


def feed(client: object, *, shards: int = 1, clock: SystemClock | None = None) -> Feed:
    clock = clock or SystemClock()
    aws = AwsClient(Location(table="muster", region=REGION), AsyncExitStack(), client, None)
    table = Table(aws, clock=clock, ids=SystemIds())
    return Feed(table, shards=shards, clock=clock, after_commit=lambda _written: None)


@pytest.fixture
async def aws() -> AsyncIterator[AwsClient]:
    async with wired() as aws:
        yield await made(aws, shards=1)


def over_one(aws: AwsClient) -> Feed:
    """A writer's feed of the one log in the table."""
    clock = SystemClock()
    table = Table(aws, clock=clock, ids=SystemIds())
    return Feed(table, shards=1, clock=clock, after_commit=lambda _written: None)


@pytest.mark.parametrize("entity_id", [None, "node-1"])
async def test_an_event_that_was_committed_behind_a_query_is_delivered_by_the_next_page(
    entity_id: str | None,
) -> None:
    log = Log()
    log.head, log.events = 4, [stored(3), stored(4)]

    def commit_behind_it() -> None:
        """The query has passed the place of 5, which a transaction writes now, together with 6."""
        log.head, log.events = 6, [stored(3), stored(4), stored(6)]

    log.during_query = commit_behind_it
    reader = feed(log)
    page = await reader.page(after=None, limit=9, entity_id=entity_id)
    seen = [event.version for event in page.items]
    log.during_query = lambda: None
    log.events.insert(2, stored(5))
    page = await reader.page(after=page.next, limit=9, entity_id=entity_id)
    assert seen + [event.version for event in page.items] == [3, 4, 5, 6]
    assert (await reader.page(after=page.next, limit=9, entity_id=entity_id)).items == ()


@pytest.mark.parametrize("entity_id", [None, "node-1"])
@pytest.mark.parametrize(
    ("seen", "unseen", "shown"),
    [
        ([3, 4], [5, 6], [3, 4]),
        ([3, 4, 6], [5], [3, 4]),
        ([4, 5, 6], [3], []),
        ([3, 4, 5], [6], [3, 4, 5]),
        ([], [3, 4, 5, 6], []),
    ],
)
async def test_a_head_that_is_seen_before_its_events_hides_none_of_them(
    entity_id: str | None, seen: list[int], unseen: list[int], shown: list[int]
) -> None:
    """DynamoDB shows the items of a committed transaction one by one."""
    log = Log()
    log.head = 6
    log.events = [stored(number, after=0 if number == 3 else None) for number in seen]
    log.on_their_way = [stored(number, after=0 if number == 3 else None) for number in unseen]
    reader = feed(log, clock=Early())
    page = await reader.page(after=None, limit=9, entity_id=entity_id)
    end = await feed(log, clock=Early()).tail(limit=9, entity_id=entity_id)
    assert [event.version for event in page.items] == [event.version for event in end.items] == shown
    log.arrive()
    rest = [number for number in (3, 4, 5, 6) if number not in shown]
    for place in (page.next, end.next):
        page = await reader.page(after=place, limit=9, entity_id=entity_id)
        assert [event.version for event in page.items] == rest
    assert (await reader.page(after=page.next, limit=9, entity_id=entity_id)).items == ()


@pytest.mark.parametrize("entity_id", [None, "node-1"])
@pytest.mark.parametrize("left", [[3, 6], [4, 6], [6], [3, 4], []])
async def test_what_was_forgotten_holds_up_no_reader(entity_id: str | None, left: list[int]) -> None:
    """By time to live, in any order."""
    log = Log()
    log.head, log.events = 6, [stored(number) for number in left]
    reader = feed(log, clock=Early())
    page = await reader.page(after=None, limit=9, entity_id=entity_id)
    assert [event.version for event in page.items] == left
    assert [event.version for event in (await reader.tail(limit=9, entity_id=entity_id)).items] == left
    log.head, log.events = 7, [stored(7)]
    page = await reader.page(after=page.next, limit=9, entity_id=entity_id)
    assert [event.version for event in page.items] == [7]


async def test_what_is_older_than_any_transaction_is_not_looked_at_once_more() -> None:
    log = Log()
    log.head, log.events = 6, [stored(6)]
    log.on_their_way = [stored(5)]
    clock = Early()
    assert (await feed(log, clock=clock).page(after=None, limit=9, entity_id=None)).items == ()
    page = await feed(log).page(after=None, limit=9, entity_id=None)
    assert [event.version for event in page.items] == [6]


async def test_each_event_names_the_one_before_it_in_its_log(aws: AwsClient) -> None:
    first, second = [over_one(aws) for _ in range(2)]
    await first.commit(told("n-1", "n-2"))
    await second.commit(told("n-3"))
    await first.commit(told("n-4"))
    items = [item for item in await first.table.query(keys.feed(0)) if item["SK"] != "HEAD"]
    numbers = [int(str(item["SK"])) for item in items]
    assert [item["after"] for item in items] == [0, *numbers[:-1]]


async def test_a_place_that_the_log_never_reached_is_refused_also_for_one_entity() -> None:
    log = Log()
    log.head, log.events = 4, [stored(4)]
    place = (await feed(log).page(after=None, limit=9, entity_id="node-1")).next
    log.head = 3
    with pytest.raises(CursorLost):
        await feed(log).page(after=place, limit=9, entity_id="node-1")


@pytest.mark.parametrize("entity_id", [None, "node-1"])
async def test_events_of_what_only_newer_replicas_know_are_left_to_them(entity_id: str | None) -> None:
    log = Log()
    log.head, log.events = 3, [stored(1), stored(2, entity="of_the_future"), stored(3)]
    reader = feed(log)
    page = await reader.page(after=None, limit=9, entity_id=entity_id)
    assert [event.version for event in page.items] == [1, 3]
    assert [event.version for event in (await reader.tail(limit=9, entity_id=entity_id)).items] == [1, 3]
    log.events = log.events[1:2]
    page = await feed(log).page(after=None, limit=1, entity_id=entity_id)
    assert page.items == ()
    assert (await reader.page(after=page.next, limit=1, entity_id=entity_id)).items == ()


class Contended:
    """Takes all transactions but the first, which met another one."""

    def __init__(self) -> None:
        self.head = 0
        self.seen: list[list[str]] = []
        """How far each transaction took its logs to be."""

    async def batch_get_item(self, **given: Any) -> Mapping[str, Any]:
        asked = given["RequestItems"]["muster"]["Keys"]
        return {"Responses": {"muster": [{**key, "n": {"N": str(self.head)}} for key in asked]}}

    async def transact_write_items(self, **given: Any) -> Mapping[str, Any]:
        moved = [each["Update"] for each in given["TransactItems"] if "Update" in each]
        self.seen.append([each["ExpressionAttributeValues"][":seen"]["N"] for each in moved])
        if len(self.seen) == 1:
            raise Refused("TransactionCanceledException", (("TransactionConflict", None),))
        return {}


class Held(SystemClock):
    """A sleep lasts until it is let go."""

    def __init__(self) -> None:
        self.asleep, self.go = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asleep.set()
        await self.go.wait()


def told(*entity_ids: str) -> Write:
    write = Write()
    for each in entity_ids:
        write.tell(Draft(entity=Entity.NODE, entity_id=each, version=1, name="claim", changes={}), at=1.0)
    return write


async def test_a_writer_that_waits_after_a_conflict_delays_no_other_writer() -> None:
    client, clock = Contended(), Held()
    writer = feed(client, shards=2, clock=clock)
    ids = [next(f"n-{n}" for n in range(99) if keys.shard(f"n-{n}", 2) == log) for log in (0, 1)]
    many = asyncio.create_task(writer.commit(told(*ids)))
    await clock.asleep.wait()
    async with asyncio.timeout(60):
        await writer.commit(told(ids[0]))
    assert client.seen == [["0", "0"], ["0"]] and not many.done()
    client.head = 7 * 10**15
    clock.go.set()
    await many
    assert client.seen[2:] == [[str(client.head)] * 2], "how far the logs are was read again"
