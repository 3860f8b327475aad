"""The store on DynamoDB, with SQS as the feed of candidates for claims."""

from muster.stores.dynamodb.aws_client import SCHEME, AwsClient, Location
from muster.stores.dynamodb.schema import check, create, policy
from muster.stores.dynamodb.store import BEAT_EVERY, DynamoStore, assembled, open_dynamodb

__all__ = [
    "BEAT_EVERY",
    "SCHEME",
    "AwsClient",
    "DynamoStore",
    "Location",
    "assembled",
    "check",
    "create",
    "open_dynamodb",
    "policy",
]
