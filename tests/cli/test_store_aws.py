"""`muster store` over an emulator of DynamoDB and SQS."""

import json

import pytest
import typer

from muster.cli import store_aws
from muster.cli.store import on_aws
from tests.stores.emulator import REGION, location


def test_a_store_is_made_checked_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    where = location()
    address = f"dynamodb://{where.table}?region={REGION}&endpoint={where.endpoint}"
    assert on_aws(address)
    with pytest.raises(typer.Exit) as ended:
        store_aws.check(address)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().out == f"wrong: table {where.table} is missing\n"
    store_aws.create(address, shards=2)
    told = capsys.readouterr().out
    assert f"made table {where.table}" in told and "made queue" in told and "dynamodb:UpdateItem" in told
    store_aws.check(address)
    assert capsys.readouterr().out == f"the store {where.table} is as it should be\n"
    store_aws.print_policy(address, account="123456789012")
    policy = json.loads(capsys.readouterr().out)
    assert f"arn:aws:dynamodb:{REGION}:123456789012:table/{where.table}" in policy["Statement"][0]["Resource"]
