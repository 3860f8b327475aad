"""The table and the queues: their shape, their creation, and the check of both.

This module owns the layout that `keys` relies on, its version, and the policy of a server's credentials. The
table itself holds the version. A program refuses a table of another version.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from muster.aws import partition
from muster.domain.errors import Conflict, StoreUnavailable
from muster.domain.ids import InstallationId
from muster.domain.template import RESOURCE_CLASSES
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.store import TOTAL
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.aws_client import AwsClient, Location, Missing, Refused
from muster.stores.dynamodb.candidates import queue_name
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, whole
from muster.stores.records import MAX_NODES

SHARDS = 16
"""Logs of the feed and partitions of the vitals: each takes about 1,000 writes a second."""
GB = 10**9
LOG_BYTES = 10 * GB
"""What DynamoDB lets one partition key of a table with a local index hold, index included."""
TRIES = 120
_INDEXES = {"listed": ("lp", "ls"), "scoped": ("sp", "ss"), "timed": ("tp", "ts")}
TTL = {"Enabled": True, "AttributeName": "expires"}
_BILLING = "PAY_PER_REQUEST"
_USABLE = ("ACTIVE", "UPDATING")
KEPT_SECONDS = 4 * 24 * 3600
"""Seconds for which a queue keeps a hint that no claimer picked up."""


class NotOurs(StoreUnavailable):
    """The table belongs to another program or another version of this one, or to no installation yet."""


async def create(
    aws: AwsClient,
    *,
    ids: Ids,
    clock: Clock,
    shards: int | None = None,
    classes: Sequence[str] = tuple(RESOURCE_CLASSES),
) -> list[str]:
    """Create what is missing; return what was made. Running it again creates nothing.

    Refuses a table that isn't ours, or that has another number of shards than `shards` (None: SHARDS, if
    new).
    """
    made = []
    name = aws.location.table
    table = Table(aws, clock=clock, ids=ids)
    if await _described(aws) is None:
        await aws.dynamodb("create_table", **definition(name))
        made.append(f"table {name}")
    described = await _active(aws, clock)
    installed = await _installed(table, described)
    if installed is not None and shards not in (None, whole(installed, "shards")):
        raise Conflict(
            f"cannot make the store {name} with {shards} shards: it has {whole(installed, 'shards')}, and"
            " they stay; make a new one under another name"
        )
    if await _ttl(aws) != TTL["AttributeName"]:
        await aws.dynamodb("update_time_to_live", TableName=name, TimeToLiveSpecification=TTL)
        made.append("time to live")
    if installed is None:
        await name_installation(aws, ids=ids, shards=shards or SHARDS)
        made.append("installation")
    for queue in (queue_name(name, each) for each in classes):
        if await _queue(aws, queue) is None:
            attributes = {"MessageRetentionPeriod": str(KEPT_SECONDS)}
            await aws.sqs("create_queue", QueueName=queue, Attributes=attributes)
            made.append(f"queue {queue}")
    return made


async def check(aws: AwsClient, *, ids: Ids, clock: Clock) -> list[str]:
    """Return what is wrong with the store. Raises StoreUnavailable if it can't be asked."""
    name = aws.location.table
    described = await _described(aws)
    if described is None:
        return [f"table {name} is missing"]
    table = Table(aws, clock=clock, ids=ids)
    try:
        installed = await _installed(table, described)
    except NotOurs as strange:
        return [str(strange)]
    if installed is None:
        return [f"table {name} is empty: `muster store create` makes a store of it"]
    wrong = [*_dearer(described), *crowded(described, shards=whole(installed, "shards"))]
    if await _ttl(aws) != TTL["AttributeName"]:
        wrong.append("time to live is not enabled on the attribute expires")
    wrong += [
        f"queue {queue} is missing" for queue in _queues(aws.location) if await _queue(aws, queue) is None
    ]
    return wrong


async def opened(table: Table) -> int:
    """Return the number of shards. Refuses a table that is not ours to use."""
    location = table.aws.location
    answer = await table.aws.dynamodb("describe_table", TableName=location.table)
    installed = await _installed(table, answer["Table"])
    if installed is None:
        raise NotOurs(
            f"cannot use the table {location.table}: it holds no installation of Muster;"
            f" run: muster store create --store 'dynamodb://{location.table}?region={location.region}'"
        )
    return whole(installed, "shards")


async def _installed(table: Table, described: Mapping[str, Any]) -> Item | None:
    """Return the item that names the installation, or None for an empty table of ours. Raises NotOurs."""
    if strange := _differences(described):
        raise _anothers(table, "; ".join(strange))
    installed = await table.get(keys.META)
    if installed is None and await table.holds_anything():
        installed = await table.get(keys.META)  # another process may just have made it
        if installed is None:
            raise _anothers(table, "it holds other things")
    version = keys.VERSION if installed is None else whole(installed, "version")
    if version != keys.VERSION:
        raise NotOurs(
            f"cannot use the table {table.name}: it is of version {version}, and this program knows"
            f" {keys.VERSION}; start the version of Muster that wrote it, or name another table"
        )
    return installed


def _anothers(table: Table, why: str) -> NotOurs:
    return NotOurs(
        f"cannot use the table {table.name}: it is none of Muster's ({why}); it is left as it is; name"
        " another table"
    )


def definition(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "BillingMode": _BILLING,
        "AttributeDefinitions": _attributes(),
        "KeySchema": _schema("PK", "SK"),
        "LocalSecondaryIndexes": [
            {"IndexName": "told", "KeySchema": _schema("PK", "es"), "Projection": {"ProjectionType": "ALL"}}
        ],
        "GlobalSecondaryIndexes": [
            {"IndexName": index, "KeySchema": _schema(*pair), "Projection": {"ProjectionType": "KEYS_ONLY"}}
            for index, pair in _INDEXES.items()
        ],
    }


def _attributes() -> list[dict[str, str]]:
    names = ["PK", "SK", "es", *(each for pair in _INDEXES.values() for each in pair)]
    return [{"AttributeName": each, "AttributeType": "S"} for each in names]


def policy(location: Location, *, account: str = "*") -> str:
    """Return the policy of a server: what it may do, and nothing else. Creating the store needs more
    rights."""
    aws = f"arn:{partition(location.region)}"
    table = f"{aws}:dynamodb:{location.region}:{account}:table/{location.table}"
    queues = [f"{aws}:sqs:{location.region}:{account}:{name}" for name in _queues(location)]
    statements = [
        {
            "Sid": "MusterTable",
            "Effect": "Allow",
            "Action": [
                f"dynamodb:{verb}"
                for verb in (
                    "BatchGetItem",
                    "BatchWriteItem",
                    "ConditionCheckItem",
                    "DeleteItem",
                    "DescribeTable",
                    "DescribeTimeToLive",
                    "GetItem",
                    "PutItem",
                    "Query",
                    "Scan",
                    "UpdateItem",
                )
            ],
            "Resource": [table, f"{table}/index/*"],
        },
        {
            "Sid": "MusterQueues",
            "Effect": "Allow",
            "Action": [
                f"sqs:{verb}"
                for verb in (
                    "ChangeMessageVisibility",
                    "DeleteMessage",
                    "GetQueueAttributes",
                    "GetQueueUrl",
                    "ReceiveMessage",
                    "SendMessage",
                )
            ],
            "Resource": queues,
        },
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)


def _schema(one: str, other: str) -> list[dict[str, str]]:
    return [{"AttributeName": one, "KeyType": "HASH"}, {"AttributeName": other, "KeyType": "RANGE"}]


def _queues(location: Location) -> Sequence[str]:
    return [queue_name(location.table, name) for name in sorted(RESOURCE_CLASSES)]


async def _described(aws: AwsClient) -> Mapping[str, Any] | None:
    try:
        answer = await aws.dynamodb("describe_table", TableName=aws.location.table)
    except Missing:
        return None
    found: Mapping[str, Any] = answer["Table"]
    return found


async def _active(aws: AwsClient, clock: Clock) -> Mapping[str, Any]:
    for _ in range(TRIES):
        described = await _described(aws)
        if described is not None and described["TableStatus"] in _USABLE:
            return described
        await clock.sleep(1.0)
    raise StoreUnavailable(f"cannot make the table {aws.location.table}: it is not active after {TRIES} s")


async def name_installation(aws: AwsClient, *, ids: Ids, shards: int) -> None:
    """Name a new store; a name that another replica gave meanwhile stays."""
    installation = InstallationId(ids.new("inst"))
    meta: dict[str, Any] = {
        "PK": {"S": keys.META[0]},
        "SK": {"S": keys.META[1]},
        "version": {"N": str(keys.VERSION)},
        "shards": {"N": str(shards)},
        "installation": {"S": installation},
    }
    scope, name = keys.counter(TOTAL)
    total = {"PK": {"S": scope}, "SK": {"S": name}, "used": {"N": "0"}, "cap": {"N": str(MAX_NODES)}}
    where = "attribute_not_exists(PK)"
    puts = [
        {"Put": {"TableName": aws.location.table, "Item": item, "ConditionExpression": where}}
        for item in (meta, total)
    ]
    with suppress(Refused):
        await aws.dynamodb("transact_write_items", TransactItems=puts)


async def _ttl(aws: AwsClient) -> str | None:
    answer = await aws.dynamodb("describe_time_to_live", TableName=aws.location.table)
    found = answer["TimeToLiveDescription"]
    return found.get("AttributeName") if found["TimeToLiveStatus"] in ("ENABLED", "ENABLING") else None


async def _queue(aws: AwsClient, name: str) -> str | None:
    try:
        answer = await aws.sqs("get_queue_url", QueueName=name)
    except Missing:
        return None
    return str(answer["QueueUrl"])


def crowded(described: Mapping[str, Any], *, shards: int) -> Sequence[str]:
    """Return whether the table is large. Nearly all of it is events, and AWS counts bytes now and then."""
    sizes = [described.get("TableSizeBytes", 0)]
    sizes += [index.get("IndexSizeBytes", 0) for index in described.get("LocalSecondaryIndexes", ())]
    if sum(sizes) < shards * LOG_BYTES / 2:
        return []
    held = f"its {shards} logs hold about {sum(sizes) / GB:.0f} GB of events with their index"
    return [f"{held}, of {LOG_BYTES // GB} GB each: make a new store with more --shards before they are full"]


def _differences(described: Mapping[str, Any]) -> Sequence[str]:
    """Return why a table can't be one of ours."""
    wanted = definition(described["TableName"])
    wrong = []
    if described["KeySchema"] != wanted["KeySchema"]:
        wrong.append("it has other keys than PK and SK")
    for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        found = {index["IndexName"]: index["KeySchema"] for index in described.get(kind, ())}
        wrong += [
            f"index {index['IndexName']} is missing or has other keys"
            for index in wanted[kind]
            if found.get(index["IndexName"]) != index["KeySchema"]
        ]
    types = {each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]}
    if any(each["AttributeType"] != types.get(each["AttributeName"], "S") for each in _attributes()):
        wrong.append("a key is no text")
    return wrong


def _dearer(described: Mapping[str, Any]) -> Sequence[str]:
    billing = described.get("BillingModeSummary", {}).get("BillingMode")
    if billing == _BILLING:
        return []
    return [f"the table is billed as {billing or 'PROVISIONED'}: it may throttle where demand would not"]
