"""Offer candidates for claims: one SQS queue per resource class, each message the name of an idle node.

This module owns the queues. A message is only a hint: it may be lost, doubled, stale or of another
installation, and the table decides. A message that one claimer holds is invisible to the others, so messages
spread claimers over a pool. Trouble with SQS fails nothing and delays little. A call has a few seconds, and
after a failed call the queues rest for a while. No caller waits for its own announcement. Meanwhile claims
find nodes by the table's index.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.domain.backoff import backoff
from muster.domain.errors import MusterError
from muster.domain.ids import NodeId
from muster.domain.node import Node
from muster.ports.clock import Clock
from muster.stores.dynamodb.aws_client import AwsClient, Missing

logger = logging.getLogger(__name__)
BATCH = 10
"""Messages per call: the most that SQS allows."""
CALLS = 8
HELD_SECONDS = 30
"""A message whose claimer died is visible again after this."""
WAIT_SECONDS = 1
"""A long poll asks all of SQS's servers and answers at once if there is anything."""
MARGIN_SECONDS = 2.0
"""Beyond the wait that was asked for, until a call has failed."""
REST_FIRST, REST_MOST = 5.0, 60.0
"""Seconds without a call after one that failed: twice as long each time, until one succeeds."""
_ALL = ""
"""Stands for all queues where a class is named."""
_HELD = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    receipt: str
    node_id: NodeId | None
    """None: the message is none of ours."""


def queue_name(table: str, resource_class: str) -> str:
    return f"{table}-{resource_class}"


@dataclass(slots=True)
class _Rest:
    """Of a queue, or of all of them, after a failure."""

    until: float = 0.0
    failures: int = 0

    def lasts(self, now: float) -> bool:
        # A clock that was put back doesn't make it longer.
        return now < self.until <= now + REST_MOST

    def begin(self, now: float) -> None:
        self.until = now + backoff(self.failures, first=REST_FIRST, most=REST_MOST)
        self.failures += 1


class Candidates:
    def __init__(self, aws: AwsClient, *, clock: Clock, wait: int = WAIT_SECONDS) -> None:
        self._aws = aws
        self._clock = clock
        self._wait = wait
        self._urls: dict[str, str] = {}
        self._rests: dict[str, _Rest] = {}
        self._announced: dict[str, list[NodeId]] = {}
        self._sending: asyncio.Task[None] | None = None

    def announce(self, resource_class: str, node_id: NodeId) -> None:
        """Offer the node some time soon, together with whatever else is announced meanwhile."""
        self._announced.setdefault(resource_class, []).append(node_id)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while self._announced:
            announced, self._announced = self._announced, {}
            await asyncio.gather(*(self.offer(name, nodes) for name, nodes in announced.items()))

    async def sent(self) -> None:
        """Wait until announcements are sent, or lost."""
        if self._sending is not None:
            await self._sending

    async def offer(self, resource_class: str, nodes: Sequence[NodeId]) -> None:
        entries = [{"MessageBody": json.dumps({"node": node_id})} for node_id in nodes]
        await self._in_batches("send_message_batch", resource_class, entries)

    async def feed(self, idle: Sequence[Node]) -> None:
        """Offer idle nodes again where a queue holds fewer messages than there are nodes: it lost some.

        It is unknown which, so some nodes are then in the queue twice. The claimer that picks up the second
        drops it.
        """
        by_class: dict[str, list[NodeId]] = {}
        for node in idle:
            by_class.setdefault(node.resource_class, []).append(node.id)
        for resource_class, some in by_class.items():
            held = await self._try("get_queue_attributes", resource_class, {"AttributeNames": _HELD})
            if held and sum(int(held["Attributes"][name]) for name in _HELD) < len(some):
                await self.offer(resource_class, some)

    async def pick_up(self, resource_class: str, most: int) -> list[Hint]:
        """Take about so many messages, in several calls at once. Returns nothing if the queue is empty or
        fails."""
        calls = min(CALLS, -(-most // BATCH))
        asked = {
            "MaxNumberOfMessages": min(-(-most // calls), BATCH),
            "VisibilityTimeout": HELD_SECONDS,
            "WaitTimeSeconds": self._wait,
        }
        answers = await asyncio.gather(
            *(self._try("receive_message", resource_class, asked) for _ in range(calls))
        )
        return [_hint(message) for answer in answers for message in answer.get("Messages", ())]

    async def put_back(self, resource_class: str, hints: Sequence[Hint], again: Sequence[Hint]) -> None:
        """Return these messages to the queue for other claimers, and drop the rest of what was picked up."""
        receipts = {hint.receipt for hint in again}
        requeued = [{"ReceiptHandle": receipt, "VisibilityTimeout": 0} for receipt in sorted(receipts)]
        dropped = [{"ReceiptHandle": hint.receipt} for hint in hints if hint.receipt not in receipts]
        await asyncio.gather(
            self._in_batches("change_message_visibility_batch", resource_class, requeued),
            self._in_batches("delete_message_batch", resource_class, dropped),
        )

    async def _in_batches(self, verb: str, resource_class: str, entries: Sequence[Mapping[str, Any]]) -> None:
        named = [{"Id": str(place), **entry} for place, entry in enumerate(entries)]
        parts = [named[start : start + BATCH] for start in range(0, len(named), BATCH)]
        await asyncio.gather(*(self._try(verb, resource_class, {"Entries": part}) for part in parts))

    async def _try(self, verb: str, resource_class: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call SQS; return nothing if it fails, or while the queues rest."""
        now = self._clock.now()
        rests = [self._rests.setdefault(name, _Rest()) for name in (_ALL, resource_class)]
        if any(rest.lasts(now) for rest in rests):
            return {}
        try:
            async with asyncio.timeout(self._wait + MARGIN_SECONDS):
                answer = await self._aws.sqs(verb, QueueUrl=await self._url(resource_class), **given)
        except (MusterError, TimeoutError) as error:
            self._failed(resource_class if isinstance(error, Missing) else _ALL, error)
            return {}
        for rest in rests:
            rest.failures = 0
        return answer

    def _failed(self, name: str, error: Exception) -> None:
        now, rest = self._clock.now(), self._rests[name]
        if rest.lasts(now):
            return  # another call that was on its way failed first
        rest.begin(now)
        said = str(error) or "it gives no answer"
        logger.warning(
            "cannot use the queue of candidates; it is left alone for a while",
            extra={"queue": name or "all", "seconds": rest.until - now, "error": said},
        )

    async def _url(self, resource_class: str) -> str:
        if resource_class not in self._urls:
            name = queue_name(self._aws.location.table, resource_class)
            answer = await self._aws.sqs("get_queue_url", QueueName=name)
            self._urls[resource_class] = answer["QueueUrl"]
        return self._urls[resource_class]


def _hint(message: Mapping[str, Any]) -> Hint:
    try:
        body = json.loads(message["Body"])
        node = body.get("node") if isinstance(body, dict) else None
    except ValueError:
        node = None
    return Hint(
        receipt=message["ReceiptHandle"], node_id=NodeId(node) if isinstance(node, str) and node else None
    )
