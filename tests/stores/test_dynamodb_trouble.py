"""DynamoDB and SQS on a bad day: what is throttled, lost, doubled, stale or another owner's."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore import exceptions as sdk
from botocore.exceptions import ClientError

from muster.domain import node as lifecycle
from muster.domain import operation as operations
from muster.domain.errors import Conflict, CursorLost, InvalidRequest, LeaseLost, Paused, StoreUnavailable
from muster.domain.health import Health
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Member, Operation, Status
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.ports.store import Beat
from muster.stores.dynamodb import (
    AwsClient,
    DynamoStore,
    Location,
    assembled,
    check,
    create,
    keys,
    policy,
    schema,
)
from muster.stores.dynamodb import aws_client as wiring
from muster.stores.dynamodb import claims as claiming
from muster.stores.dynamodb.aws_client import (
    CONNECTIONS,
    READ_SECONDS,
    SPARE,
    Malformed,
    Refused,
    translate_error,
)
from muster.stores.dynamodb.candidates import REST_FIRST, queue_name
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, packed, unpacked
from muster.system import SystemClock, SystemIds
from tests.aws_calls import named
from tests.contracts.store_contract.bookkeeping import assert_books_balance, whole_feed
from tests.contracts.store_contract.records import Records
from tests.stores.emulator import REGION, location, made, wired
from tests.stores.faults import Faults, conflicting, faulty, refusing, throttled
from tests.stores.ids import CountingIds

PROGRESS = Progress(step=3, total_steps=5, phase="booting", label="booting", percent=44.5, parts=())


@pytest.fixture
async def aws() -> AsyncIterator[AwsClient]:
    async with wired() as aws:
        yield await made(aws)


@pytest.fixture
async def store(aws: AwsClient) -> DynamoStore:
    return await opened(aws)


async def opened(
    aws: AwsClient,
    *,
    beat_every: float = 0.0,
    keep: float | None = None,
    clock: SystemClock | None = None,
    settle: float = 0.0,
) -> DynamoStore:
    return await assembled(
        aws,
        ids=CountingIds(),
        clock=clock or SystemClock(),
        wait=0,
        beat_every=beat_every,
        keep=keep,
        settle=settle,
    )


@pytest.fixture
async def faults() -> AsyncIterator[Faults]:
    async with faulty() as faults:
        yield faults


@pytest.fixture
async def shaky(aws: AwsClient, faults: Faults) -> AsyncIterator[DynamoStore]:
    """The same table, through the proxy."""
    where = replace(aws.location, endpoint=faults.url)
    between = await AwsClient.open(where, attempts=2)
    yield await opened(between)
    await between.close()


async def joined(store: DynamoStore, node: Node, boot: str = "boot-1") -> Node:
    return await store.apply(lifecycle.joined(node, boot_id=boot, now=5.0))


# --- lost and refused calls ------------------------------------------------------------------------


async def test_a_write_whose_answer_was_lost_happened_once(
    store: DynamoStore, shaky: DynamoStore, faults: Faults
) -> None:
    records = Records(store)
    (node,) = await records.created(await records.leased(), 1)
    await shaky.events(after=None, limit=1)  # it knows how far the feed is
    faults.strike("TransactWriteItems")
    after = await joined(shaky, node)
    assert faults.calls.count("TransactWriteItems") == 2, "it was sent again"
    assert await store.node(node.id) == after
    assert [event.name for event in await whole_feed(store, entity_id=node.id)] == ["adopt", "joined"]
    await assert_books_balance(store)


async def test_a_store_that_never_answers_is_unavailable_in_time_however_often_it_is_tried(
    aws: AwsClient, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wiring.ANSWER_SECONDS == 15.0
    monkeypatch.setattr(wiring, "ANSWER_SECONDS", 0.5)
    faults.silent = True
    between = await AwsClient.open(replace(aws.location, dynamodb_endpoint=faults.url))
    began = asyncio.get_running_loop().time()
    for verb in ("get_item", "update_item"):
        with pytest.raises(StoreUnavailable, match=rf"{faults.url} gave no answer \(none within 0.5 s\)"):
            await between.dynamodb(verb, TableName="t", Key={"PK": {"S": "a"}, "SK": {"S": "b"}})
    assert asyncio.get_running_loop().time() - began < 2 * READ_SECONDS
    await between.close()


async def test_each_service_may_have_an_endpoint_of_its_own(aws: AwsClient, faults: Faults) -> None:
    nowhere = "http://127.0.0.1:1"
    where = replace(aws.location, endpoint=nowhere, sqs_endpoint=aws.location.endpoint)
    between = await AwsClient.open(replace(where, dynamodb_endpoint=faults.url), attempts=1)
    await between.dynamodb("describe_table", TableName=aws.location.table)
    await between.sqs("list_queues")
    assert faults.calls == ["DescribeTable"]
    await between.close()


def test_an_address_is_the_same_after_it_was_read() -> None:
    for url in (
        "dynamodb://muster?region=eu-central-1",
        "dynamodb://muster?region=eu-central-1&endpoint=http://127.0.0.1:8000",
        "dynamodb://muster?region=cn-north-1&dynamodb_endpoint=https://a.vpce/&sqs_endpoint=https://b.vpce",
    ):
        assert Location.of(url).url == url
    with pytest.raises(InvalidRequest, match="it knows region, endpoint, dynamodb_endpoint and sqs_endpoint"):
        Location.of("dynamodb://muster?region=x&sns_endpoint=http://a")
    with pytest.raises(InvalidRequest, match="sqs_endpoint begins with"):
        Location.of("dynamodb://muster?region=x&sqs_endpoint=a")


def test_a_missing_table_is_made_where_it_was_looked_for() -> None:
    where = Location.of("dynamodb://muster?region=x&endpoint=http://127.0.0.1:8000")
    missing = ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetItem")
    assert f"muster store create --store '{where.url}'" in str(translate_error(missing, where))


@pytest.mark.parametrize(
    ("region", "part"), [("eu-central-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_the_policy_names_the_partition_of_the_region(region: str, part: str) -> None:
    for statement in json.loads(policy(Location(table="muster", region=region)))["Statement"]:
        for arn in statement["Resource"]:
            assert arn.startswith(f"arn:{part}:")


async def test_a_store_that_throttles_for_long_is_unavailable_and_comes_back_by_itself(
    store: DynamoStore, shaky: DynamoStore, faults: Faults
) -> None:
    records = Records(store)
    (node,) = await records.created(await records.leased(), 1)
    faults.strike("*", throttled, times=1000)
    for call in (
        lambda: shaky.node(node.id),
        lambda: joined(shaky, node),
        lambda: shaky.record_beats([Beat(node_id=node.id, seen_at=9.0)]),
        lambda: shaky.events(after=None, limit=9),
    ):
        with pytest.raises(StoreUnavailable, match="ProvisionedThroughputExceeded"):
            await call()
    assert await store.node(node.id) == node
    faults.clear()
    assert (await joined(shaky, node)).joined_at == 5.0


async def test_a_call_that_is_throttled_for_a_moment_is_only_slower(
    shaky: DynamoStore, faults: Faults
) -> None:
    faults.strike("BatchGetItem", throttled)
    assert (await shaky.installation()).max_nodes == 100


async def test_a_transaction_that_met_another_is_tried_again(
    store: DynamoStore, shaky: DynamoStore, faults: Faults
) -> None:
    records = Records(store)
    (node,) = await records.created(await records.leased(), 1)
    faults.strike("TransactWriteItems", conflicting, times=3)
    assert await joined(shaky, node) == await store.node(node.id)


async def test_credentials_that_are_refused_are_named_as_the_trouble(
    shaky: DynamoStore, faults: Faults
) -> None:
    faults.strike("*", refusing, times=9)
    with pytest.raises(StoreUnavailable, match=r"refused the credentials.*muster store policy"):
        await shaky.installation()


async def test_an_endpoint_that_does_not_answer_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    where = Location(table="muster", region=REGION, endpoint="http://127.0.0.1:9")
    aws = await AwsClient.open(where, attempts=1)
    try:
        with pytest.raises(StoreUnavailable, match=r"cannot reach the store muster: http://127\.0\.0\.1:9"):
            await opened(aws)
    finally:
        await aws.close()


def answered(code: str, *reasons: str) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    response["CancellationReasons"] = [{"Code": reason} for reason in reasons]
    return ClientError(response, "TransactWriteItems")


WHERE = Location(table="muster", region=REGION)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("TransactionInProgressException", "answered TransactionInProgressException"),
        ("TooManyRequestsException", "answered TooManyRequestsException"),
        ("LimitExceededException", "answered LimitExceededException"),
        ("KMS.DisabledException", "answered KMS.DisabledException"),
        ("SomethingNew", "answered SomethingNew"),
        ("RequestExpired", "refused the credentials"),
        ("IncompleteSignature", "refused the credentials"),
        ("InvalidAccessKeyId", "refused the credentials"),
    ],
)
def test_whatever_aws_answers_is_told_as_trouble_of_the_store(code: str, told: str) -> None:
    error = translate_error(answered(code), WHERE)
    assert isinstance(error, StoreUnavailable) and told in str(error)


@pytest.mark.parametrize(
    "error",
    [answered("ValidationException"), answered("TransactionCanceledException", "None", "ValidationError")],
    ids=["a call", "an item of a transaction"],
)
def test_a_call_that_makes_no_sense_is_a_bug_and_not_tried_again(error: ClientError) -> None:
    assert isinstance(translate_error(error, WHERE), Malformed)
    assert isinstance(
        translate_error(answered("TransactionCanceledException", "TransactionConflict"), WHERE), Refused
    )


@pytest.mark.parametrize(
    "error",
    [
        sdk.NoCredentialsError(),
        sdk.PartialCredentialsError(provider="env", cred_var="aws_secret_access_key"),
        sdk.ProfileNotFound(profile="ci"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_credentials_that_are_missing_are_named_as_the_trouble(error: Exception) -> None:
    assert "there are no AWS credentials to use" in str(translate_error(error, WHERE))


# --- transactions of which a part can't be read yet ------------------------------------------------


class Bootstrap(SystemClock):
    """After each sleep all is applied."""

    slept = False

    async def sleep(self, seconds: float) -> None:
        self.slept = True


class Torn(AwsClient):
    """Hides items from every read of many until a caller slept: they are committed and not yet applied."""

    clock: Bootstrap
    hidden: tuple[str, ...]

    @classmethod
    def of(cls, aws: AwsClient, clock: Bootstrap, *hidden: str) -> "Torn":
        torn = cls(aws.location, AsyncExitStack(), aws._dynamodb, aws._sqs)
        torn.clock, torn.hidden = clock, hidden
        return torn

    async def dynamodb(self, verb: str, **given: Any) -> Mapping[str, Any]:
        answer = await super().dynamodb(verb, **given)
        if self.clock.slept:
            return answer
        if given.get("Select") == "COUNT":
            return {**answer, "Count": 0}
        items = [
            each
            for each in answer.get("Items", ())
            if not any(each["PK"]["S"].startswith(name) or each["SK"]["S"] == name for name in self.hidden)
        ]
        return {**answer, "Items": items}


async def test_the_auditor_corrects_no_counter_for_a_machine_that_is_yet_to_be_seen(
    aws: AwsClient, store: DynamoStore
) -> None:
    records = Records(store)
    await records.created(await records.leased(), 1)
    clock = Bootstrap()
    auditor = await opened(Torn.of(aws, clock, "MACHINE#"), clock=clock)
    assert list(await auditor.audit(now=9.0)) == []
    assert clock.slept
    await assert_books_balance(store)


async def test_who_takes_an_operation_over_sees_what_was_bound_in_its_last_moment(
    aws: AwsClient, store: DynamoStore
) -> None:
    records = Records(store)
    operation = await records.leased(until=5.0)
    await records.idle(1)
    (node,) = await records.claim(operation, 1)
    clock = Bootstrap()
    other = await opened(Torn.of(aws, clock, f"NODE#{node.id}"), clock=clock)
    assert (await other.view(operation.id)).nodes == ()
    taken = await other.lease("replica-b", now=6.0, until=1e6, limit=9)
    assert [each.id for each in taken if each.id == operation.id] == [operation.id]
    assert [each.id for each in (await other.view(operation.id)).nodes] == [node.id]


async def test_a_commit_is_refused_whose_version_was_read_with_a_node_as_it_was_before(
    store: DynamoStore,
) -> None:
    records = Records(store)
    operation = await records.leased()
    node, lost = await records.created(operation, 2)
    await store.record_beats([Beat(node_id=each.id, seen_at=100.0) for each in (node, lost)])
    await store.apply(lifecycle.condemn(lost, now=100.0, reason=Reason.OPERATOR))
    moved = await store.operation(operation.id)
    assert moved.version > operation.version
    members = tuple(
        Member(node_id=each.id, assignment_id=AssignmentId(str(each.assignment_id))) for each in (node, lost)
    )

    async def committed(some: tuple[Member, ...]) -> Operation:
        change = operations.committed(moved, some, PROGRESS, now=101.0, fresh_for=20.0)
        return await store.write_operation(change, fence=moved.fence, clock=lambda: 101.0)

    with pytest.raises(Conflict, match=f"{lost.id} is terminating"):
        await committed(members)
    assert (await committed(members[:1])).committed


# --- two replicas ----------------------------------------------------------------------------------


async def test_two_replicas_write_one_feed_that_misses_and_repeats_nothing(
    aws: AwsClient, store: DynamoStore
) -> None:
    other = await opened(aws)
    records = Records(store)
    nodes = await records.created(await records.leased(), 6)

    async def write(node: Node) -> None:
        for number in range(6):
            node = await joined((store, other)[number % 2], node, f"boot-{number}")

    await asyncio.gather(*(write(node) for node in nodes))
    feeds = [await whole_feed(each, page=4) for each in (store, other)]
    assert feeds[0] == feeds[1]
    assert len(dict.fromkeys(event.id for event in feeds[0])) == len(feeds[0])
    for node in nodes:
        assert [event.version for event in feeds[0] if event.entity_id == node.id] == list(range(1, 8))


async def test_a_place_in_the_feed_that_this_table_never_reached_is_refused(
    aws: AwsClient, store: DynamoStore
) -> None:
    await store.note("x", "seen", reason=None, detail="", now=1.0)
    restored = await opened(await made(aws.at(location())))
    place = (await store.last_events(limit=1)).next
    with pytest.raises(CursorLost, match="restored or replaced"):
        await restored.events(after=place, limit=10)
    await restored.note("x", "after the restore", reason=None, detail="", now=2.0)
    # Numbers are times: what comes after a restore comes after all that was lost by it.
    assert [event.name for event in (await restored.events(after=place, limit=10)).items] == [
        "after the restore"
    ]


async def test_an_operation_of_a_kind_that_only_newer_replicas_know_is_left_to_them(
    store: DynamoStore,
) -> None:
    records = Records(store)
    newer, own = records.draft(), records.draft()
    for each in (newer, own):
        await store.submit(each)
    key = keys.operation(newer.id)
    item = await store._table.get(key)
    assert item is not None
    data = packed({**unpacked(item["d"]), "kind": "of_the_future"})
    await store._table.update(key, "SET #d = :d", where="attribute_exists(#PK)", values={"d": data})
    page = await store.operations(statuses=tuple(Status), kind=None, run=None, after=None, limit=9)
    assert [each.id for each in page.items] == [own.id]
    assert [each.id for each in await store.overview.unfinished(limit=9)] == [own.id]
    assert [each.id for each in await store.lease("replica-a", now=1e6, until=2e6, limit=9)] == [own.id]
    with pytest.raises(StoreUnavailable, match="ask a replica that was upgraded"):
        await store.operation(newer.id)


async def test_an_operation_that_an_index_names_under_two_statuses_is_listed_once(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = await Records(store).submitted()
    item = await store._table.get(keys.operation(operation.id))

    async def moving(_table: Table, _partition: str, **_given: object) -> AsyncIterator[Item]:
        assert item is not None
        yield item

    monkeypatch.setattr(Table, "walk", moving)
    page = await store.operations(statuses=tuple(Status), kind=None, run=None, after=None, limit=9)
    assert [each.id for each in page.items] == [operation.id]


# --- the queue of candidates -----------------------------------------------------------------------


async def sent(aws: AwsClient, *bodies: str) -> str:
    answer = await aws.sqs("get_queue_url", QueueName=queue_name(aws.location.table, "large"))
    url = str(answer["QueueUrl"])
    for body in bodies:
        await aws.sqs("send_message", QueueUrl=url, MessageBody=body)
    return url


async def left(aws: AwsClient, url: str, *stores: DynamoStore) -> int:
    """Messages in the queue, with those that these stores have yet to send."""
    for store in stores:
        await store._candidates.sent()
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = await aws.sqs("get_queue_attributes", QueueUrl=url, AttributeNames=names)
    return sum(int(answer["Attributes"][name]) for name in names)


async def test_foreign_doubled_and_stale_messages_are_dropped_and_claim_nothing(
    aws: AwsClient, store: DynamoStore
) -> None:
    records = Records(store)
    gone, idle = await records.idle(2)
    await store.apply(lifecycle.condemn(gone, now=6.0, reason=Reason.OPERATOR))
    hint = json.dumps({"node": idle.id})
    url = await sent(aws, "hello", "[]", '{"node": 7}', '{"node": "node-x"}', hint, hint, hint)
    operation = await records.leased()
    assert [node.id for node in await records.claim(operation, 9)] == [idle.id]
    assert list(await records.claim(operation, 9)) == []
    await records.idle(1)
    assert len(await records.claim(operation, 9)) == 1
    assert await left(aws, url, store) == 0


async def test_what_the_queue_lost_is_found_in_the_table(aws: AwsClient, store: DynamoStore) -> None:
    records = Records(store)
    idle = await records.idle(3)
    await aws.sqs("purge_queue", QueueUrl=await sent(aws))
    (taken,) = await records.claim(await records.leased(), 1)
    assert taken.id in [node.id for node in idle]


async def test_what_the_queue_lost_is_offered_again_once_and_claims_are_led_to_it(
    aws: AwsClient, store: DynamoStore
) -> None:
    records = Records(store)
    idle = await records.idle(3)
    url = await sent(aws)
    await store.offer(idle)
    assert await left(aws, url, store) == 3, "nothing was lost"
    await aws.sqs("purge_queue", QueueUrl=url)
    for _ in range(2):
        await store.offer(idle)
        assert await left(aws, url, store) == 3
    hints = await store._candidates.pick_up("large", 9)
    assert sorted(str(hint.node_id) for hint in hints) == sorted(node.id for node in idle)
    await store._candidates.put_back("large", hints, hints)
    assert len(await records.claim(await records.leased(), 3)) == 3
    assert await left(aws, url, store) == 0


async def test_a_node_that_suits_another_request_is_left_in_the_queue_for_it(
    aws: AwsClient, store: DynamoStore
) -> None:
    records = Records(store)
    served = await records.served("other")
    await records.idle(1)
    url = await sent(aws)
    assert len(await records.claim(await records.leased(), 2)) == 1
    assert await left(aws, url, store) == 1
    assert (await store.node(served.id)).state is NodeState.IDLE


async def test_a_pause_amid_claims_that_wait_together_takes_back_none_that_was_made(
    aws: AwsClient, store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(store)
    await records.idle(4)
    await aws.sqs("purge_queue", QueueUrl=await sent(aws))
    demanded = [await records.leased() for _ in range(2)]
    take = claiming._Group._take

    async def take_and_pause(group: claiming._Group, some: Any) -> Any:
        taken = await take(group, some)
        if taken:
            await store.access.pause("web", paused=True, now=1.0)
        return taken

    monkeypatch.setattr(claiming, "LOOKED_AT_ONCE", 2)
    monkeypatch.setattr(claiming._Group, "_take", take_and_pause)
    ends = await asyncio.gather(*(records.claim(each, 2) for each in demanded), return_exceptions=True)
    served, refused = ends
    assert not isinstance(served, BaseException) and len(served) == 2
    assert isinstance(refused, Paused)


async def test_claims_that_wait_together_share_their_calls_and_get_each_their_own(
    store: DynamoStore, shaky: DynamoStore, faults: Faults
) -> None:
    records = Records(store)
    await records.idle(7)
    taken, fence = await records.taken_over()
    operations = [await records.leased() for _ in range(3)]
    operations.insert(1, replace(taken, epoch=fence.epoch))
    before = faults.calls.count("TransactWriteItems")
    crowd = Records(shaky, numbers=count(1000))
    found = await asyncio.gather(*(crowd.claim(each, 3) for each in operations), return_exceptions=True)
    assert isinstance(found[1], LeaseLost)
    got = [each for each in found if not isinstance(each, BaseException)]
    assert [len(each) for each in got] == [3, 3, 1]
    assert [{node.operation_id for node in each} for each in got] == [
        {operations[place].id} for place in (0, 2, 3)
    ]
    refused_and_done = faults.calls.count("TransactWriteItems") - before
    assert refused_and_done <= 4, "one that is refused, and one or two that hold the heads of all logs"


async def test_claims_go_on_without_any_queue(aws: AwsClient, store: DynamoStore) -> None:
    records = Records(store)
    url = await sent(aws)
    await records.idle(1)
    await aws.sqs("delete_queue", QueueUrl=url)
    await store.offer(await records.idle(1))
    assert len(await records.claim(await records.leased(), 2)) == 2


class Hanging:
    """An SQS that takes calls and answers none of them until it is let go."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.sent: list[list[str]] = []
        self.go = asyncio.Event()

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Mapping[str, Any]]]:
        async def call(**given: Any) -> Mapping[str, Any]:
            self.calls.append(verb)
            if verb == "get_queue_url":
                return {"QueueUrl": given["QueueName"]}
            if verb == "send_message_batch":
                self.sent.append([json.loads(each["MessageBody"])["node"] for each in given["Entries"]])
            await self.go.wait()
            return {}

        return call


class Answering(Hanging):
    """An SQS that refuses whatever it is asked."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Mapping[str, Any]]]:
        async def call(**_given: Any) -> Mapping[str, Any]:
            self.calls.append(verb)
            raise answered(self._code)

        return call


class Moved(SystemClock):
    """A clock that stands, and is put forward by hand."""

    def __init__(self) -> None:
        self.at = super().now()

    def now(self) -> float:
        return self.at


def with_sqs(aws: AwsClient, sqs: Hanging) -> AwsClient:
    return AwsClient(aws.location, AsyncExitStack(), aws._dynamodb, sqs)


@pytest.mark.parametrize(
    "code", [None, "OverLimit", "KmsAccessDenied", "InvalidParameterValue", "InternalError"]
)
async def test_trouble_with_sqs_fails_no_claim_and_holds_up_the_first_alone(
    aws: AwsClient, monkeypatch: pytest.MonkeyPatch, code: str | None
) -> None:
    monkeypatch.setattr("muster.stores.dynamodb.candidates.MARGIN_SECONDS", 0.05)
    sqs, clock = Hanging() if code is None else Answering(code), Moved()
    store = await opened(with_sqs(aws, sqs), clock=clock)
    records = Records(store)
    operation = await records.leased()
    async with asyncio.timeout(60):
        await records.idle(9)
        await store._candidates.sent()
        tried = len(sqs.calls)
        assert tried <= 2, "a look for the queue, and one call"
        for _ in range(2):
            assert len(await records.claim(operation, 1)) == 1
        await store.offer(await records.idle(1))
        assert len(sqs.calls) == tried, "it is left alone for a while"
        for pause in (REST_FIRST, 2 * REST_FIRST, 4 * REST_FIRST):
            clock.at += pause + 1
            assert len(await records.claim(operation, 1)) == 1
            assert len(sqs.calls) > tried, "it is tried again"
            tried = len(sqs.calls)
            clock.at += pause
            assert len(await records.claim(operation, 1)) == 1
            assert len(sqs.calls) == tried, "and left alone for longer"


async def test_a_queue_that_answers_again_is_used_again_at_once(aws: AwsClient) -> None:
    broken, clock = Answering("OverLimit"), Moved()
    store = await opened(with_sqs(aws, broken), clock=clock)
    records = Records(store)
    await records.idle(1)
    await store._candidates.sent()
    store._candidates._aws = aws
    clock.at += REST_FIRST + 1
    await records.idle(1)
    assert await left(aws, await sent(aws), store) == 1


async def test_one_queue_that_is_missing_leaves_the_others_in_use(aws: AwsClient, store: DynamoStore) -> None:
    candidates = store._candidates
    await candidates.offer("xlarge", [NodeId("node-1")])
    await candidates.offer("large", [NodeId("node-1")])
    assert await left(aws, await sent(aws)) == 1


async def test_no_writer_waits_for_its_announcements_and_they_are_sent_together(
    aws: AwsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.stores.dynamodb.candidates.MARGIN_SECONDS", 600.0)
    sqs = Hanging()
    store = await opened(with_sqs(aws, sqs))
    async with asyncio.timeout(120):
        idle = await Records(store).idle(5)
    assert sqs.sent == [[idle[0].id]]
    sqs.go.set()
    await store._candidates.sent()
    assert sqs.sent == [[idle[0].id], [node.id for node in idle[1:]]]


# --- floods ----------------------------------------------------------------------------------------


class Slow:
    """A client whose reads take until they are let go."""

    def __init__(self) -> None:
        self.reading = 0
        self.go = asyncio.Event()

    async def get_item(self) -> dict[str, str]:
        self.reading += 1
        await self.go.wait()
        return {}

    async def update_item(self) -> dict[str, str]:
        return {}


async def test_leases_and_beats_wait_for_no_flood_of_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    aws = AwsClient(Location(table="muster", region=REGION), AsyncExitStack(), slow, None)
    flood = [asyncio.create_task(aws.dynamodb("get_item")) for _ in range(2 * CONNECTIONS)]
    await asyncio.sleep(0)
    assert slow.reading == CONNECTIONS - SPARE
    await aws.dynamodb("update_item")
    monkeypatch.setattr("muster.stores.dynamodb.aws_client.WAITING_SECONDS", 0.0)
    with pytest.raises(StoreUnavailable, match="all 56 connections have been busy for 0 s"):
        await aws.dynamodb("get_item")
    slow.go.set()
    await asyncio.gather(*flood)


# --- heartbeats ------------------------------------------------------------------------------------


async def test_heartbeats_cost_one_write_per_node_in_fifteen_seconds_unless_they_say_something(
    aws: AwsClient, store: DynamoStore
) -> None:
    records = Records(store)
    (node,) = await records.created(await records.leased(), 1)
    priced = await opened(aws, beat_every=15.0)

    async def seen(at: float, said: Health | None = None) -> float:
        await priced.record_beats([Beat(node_id=node.id, seen_at=at, said=said)])
        return (await store.last_seen([node.id]))[node.id]

    assert [await seen(at) for at in (100.0, 105.0, 110.0, 114.9, 115.0)] == [100.0] * 4 + [115.0]
    assert await seen(116.0, Health.DEGRADED) == 116.0
    assert await seen(117.0, Health.DEGRADED) == 116.0


# --- the table -------------------------------------------------------------------------------------


async def state(aws: AwsClient) -> tuple[Any, Any, Any]:
    """All that making a store could change."""
    name = aws.location.table
    items = await aws.dynamodb("scan", TableName=name)
    ttl = await aws.dynamodb("describe_time_to_live", TableName=name)
    queues = await aws.sqs("list_queues", QueueNamePrefix=name)
    return items["Items"], ttl["TimeToLiveDescription"], queues.get("QueueUrls")


def text_keys(*names: str) -> dict[str, Any]:
    kinds = zip(names, ("HASH", "RANGE"), strict=False)
    return {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in names],
        "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in kinds],
    }


ORDER = {"PK": {"S": "ORDER#1"}, "SK": {"S": "ORDER"}, "id": {"S": "1"}, "expires": {"N": "1700000000"}}


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (text_keys("id"), "it has other keys than PK and SK"),
        (text_keys("PK", "SK"), "index listed is missing"),
        (schema.definition("orders"), "it holds other things"),
    ],
    ids=["other keys", "the commonest keys", "our own keys and indexes"],
)
async def test_a_table_of_another_owner_is_refused_and_left_as_it_is(
    definition: dict[str, Any], why: str
) -> None:
    async with wired() as aws:
        name = aws.location.table
        await aws.dynamodb("create_table", **{**definition, "TableName": name})
        await aws.dynamodb("put_item", TableName=name, Item=ORDER)
        before = await state(aws)
        for refused in (
            lambda: create(aws, ids=SystemIds(), clock=SystemClock()),
            lambda: opened(aws),
        ):
            with pytest.raises(StoreUnavailable, match=f"{name}: it is none of Muster's.*{why}"):
                await refused()
        (wrong,) = await check(aws, ids=SystemIds(), clock=SystemClock())
        assert "none of Muster's" in wrong and why in wrong
        assert await state(aws) == before


async def test_making_a_store_that_was_cut_off_is_taken_up_again() -> None:
    async with wired() as aws:
        await aws.dynamodb("create_table", **schema.definition(aws.location.table))
        ids, clock = SystemIds(), SystemClock()
        assert await check(aws, ids=ids, clock=clock) == [
            f"table {aws.location.table} is empty: `muster store create` makes a store of it"
        ]
        with pytest.raises(StoreUnavailable, match=r"no installation of Muster; run: muster store create"):
            await opened(aws)
        assert (await create(aws, ids=ids, clock=clock))[:2] == ["time to live", "installation"]
        assert await check(aws, ids=ids, clock=clock) == []


async def test_a_table_of_another_version_is_refused(aws: AwsClient, store: DynamoStore) -> None:
    await store._table.update(
        ("META", "META"), "SET #version = :one", where="attribute_exists(#PK)", values={"one": 1}
    )
    before = await state(aws)
    for refused in (lambda: opened(aws), lambda: create(aws, ids=SystemIds(), clock=SystemClock())):
        with pytest.raises(StoreUnavailable, match="version 1, and this program knows 2"):
            await refused()
    assert any("version 1" in wrong for wrong in await check(aws, ids=SystemIds(), clock=SystemClock()))
    assert await state(aws) == before


async def test_a_store_keeps_its_number_of_shards_whatever_is_asked_of_it_later() -> None:
    async with wired() as aws:
        ids, clock = SystemIds(), SystemClock()
        await create(aws, ids=ids, clock=clock, shards=2)
        for asked in (None, 2):
            assert await create(aws, ids=ids, clock=clock, shards=asked) == []
        with pytest.raises(Conflict, match="with 64 shards: it has 2, and they stay"):
            await create(aws, ids=ids, clock=clock, shards=64)


async def test_a_store_that_was_not_made_says_how_to_make_it() -> None:
    async with wired() as aws:
        with pytest.raises(StoreUnavailable, match="muster store create --store 'dynamodb://"):
            await opened(aws)


async def test_making_a_store_twice_makes_nothing_and_checking_finds_what_is_missing() -> None:
    async with wired() as aws:
        ids, clock = SystemIds(), SystemClock()
        assert await check(aws, ids=ids, clock=clock) == [f"table {aws.location.table} is missing"]
        made = await create(aws, ids=ids, clock=clock)
        assert made[0] == f"table {aws.location.table}" and len(made) == 11
        assert await create(aws, ids=ids, clock=clock) == []
        assert await check(aws, ids=ids, clock=clock) == []
        url = await sent(aws)
        await aws.sqs("delete_queue", QueueUrl=url)
        missing = f"queue {queue_name(aws.location.table, 'large')} is missing"
        assert await check(aws, ids=ids, clock=clock) == [missing]


async def test_replicas_agree_on_where_process_nodes_are(aws: AwsClient, store: DynamoStore) -> None:
    assert await store.process_home("/one") == "/one"
    assert await (await opened(aws)).process_home("/other") == "/one"


async def test_events_carry_the_time_at_which_dynamodb_forgets_them(aws: AwsClient) -> None:
    store = await opened(aws, keep=3600.0)
    await store.note("m-1", "seen", reason=None, detail="", now=100.0)
    events = [item for shard in range(3) for item in await store._table.query(f"FEED#{shard:04d}")]
    assert [item["expires"] for item in events if item.get("expires")] == [3700]
    assert (await store.prune(before=1e6, limit=10)).events == 0


@pytest.mark.parametrize(
    "address",
    [
        "dynamodb://",
        "dynamodb://muster",
        "dynamodb://muster?region=",
        "dynamodb://muster/x?region=eu-central-1",
        "dynamodb://mu?region=eu-central-1",
        "dynamodb://my.table?region=eu-central-1",
        "dynamodb://me@muster?region=eu-central-1",
        f"dynamodb://{'x' * 65}?region=eu-central-1",
        "dynamodb://muster?region=eu-central-1&endpoint=localhost:8000",
        "dynamodb://muster?region=eu-central-1&zone=b",
        "postgresql://muster?region=eu-central-1",
    ],
)
def test_an_address_that_makes_no_sense_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="dynamodb://TABLE"):
        Location.of(address)


VERBS = {
    "TransactGetItems": ["GetItem"],
    "TransactWriteItems": ["PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"],
}
TO_CREATE = {"CreateQueue", "CreateTable", "UpdateTimeToLive"}


async def test_the_policy_allows_what_a_server_does_and_no_more(
    shaky: DynamoStore, aws: AwsClient, faults: Faults
) -> None:
    records = Records(shaky)
    await records.idle(2)
    await records.claim(await records.leased(), 1)
    await shaky.audit(now=9.0)
    await shaky.prune(before=1.0, limit=9)
    await shaky.offer(await records.idle(1))
    await shaky.renew("replica-a", [(await records.leased()).fence], until=9.0)
    statements = json.loads(policy(aws.location, account="123456789012"))["Statement"]
    allowed = {action.partition(":")[2] for each in statements for action in each["Action"]}
    calls = {*faults.calls, *named(Path(schema.__file__).parent, "dynamodb", "sqs")} - TO_CREATE
    done = {verb for call in calls for verb in VERBS.get(call, [call])}
    assert {verb.removesuffix("Batch") for verb in done} == allowed
    assert all("*" not in resource.partition("/")[0] for each in statements for resource in each["Resource"])
