"""The store on DynamoDB, with SQS as the feed of candidates for claims."""

from muster.stores.dynamodb.schema import check, create, policy
from muster.stores.dynamodb.store import BEAT_EVERY, DynamoStore, assembled, open_dynamodb
from muster.stores.dynamodb.wire import SCHEME, Location, Wire

__all__ = [
    "BEAT_EVERY",
    "SCHEME",
    "DynamoStore",
    "Location",
    "Wire",
    "assembled",
    "check",
    "create",
    "open_dynamodb",
    "policy",
]
