"""`muster store` for DynamoDB and SQS: make and check table and queues, print the policy.

A person with the rights makes billed resources; a server needs far fewer rights.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from muster.cli import output
from muster.cli.exits import FAILED
from muster.stores import dynamodb
from muster.stores.dynamodb import AwsClient, Location
from muster.system import SystemClock, SystemIds

T = TypeVar("T")


def create(address: str, *, shards: int | None) -> None:
    location = Location.of(address)
    made = _with(
        location, lambda aws: dynamodb.create(aws, ids=SystemIds(), clock=SystemClock(), shards=shards)
    )
    policy = dynamodb.policy(location)
    output.show(
        {**_where(location), "made": made, "policy": json.loads(policy)},
        *(f"made {each}" for each in made),
        f"the store {location.table} exists; a server needs exactly this policy:",
        policy,
    )


def check(address: str) -> None:
    """Print what is wrong with the store; exit with 1 if something is."""
    location = Location.of(address)
    wrong = _with(location, lambda aws: dynamodb.check(aws, ids=SystemIds(), clock=SystemClock()))
    lines = [f"wrong: {each}" for each in wrong] or [f"the store {location.table} is as it should be"]
    output.show({**_where(location), "wrong": wrong}, *lines)
    if wrong:
        raise typer.Exit(FAILED)


def print_policy(address: str, *, account: str) -> None:
    typer.echo(dynamodb.policy(Location.of(address), account=account))


def _where(location: Location) -> dict[str, str]:
    return {"table": location.table, "region": location.region}


def _with(location: Location, work: Callable[[AwsClient], Awaitable[T]]) -> T:
    async def done() -> T:
        aws = await AwsClient.open(location)
        try:
            return await work(aws)
        finally:
            await aws.close()

    return asyncio.run(done())
