"""What is wrong with a request is told in our words, whatever the decoder calls it."""

from typing import Any

import pytest

from tests.api.site import Site

ASKED = {"template": "ci", "count": 1, "run": "run-1"}


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"count": "3"}, 'cannot accept count = "3": must be a whole number, not text or a fraction'),
        ({"count": 1.5}, "cannot accept count = 1.5: must be a whole number, not text or a fraction"),
        ({"count": 10**30}, f"cannot accept count = {10**30}: must be a whole number from 1 to 1000"),
        (
            {"timeout": 10**30},
            "cannot accept timeout = 1e+30: must be a number of seconds above 0, at most 2592000",
        ),
        ({"timeout": [1]}, "cannot accept timeout: must be a number"),
        ({"run": None}, "cannot accept run = null: must be text"),
        ({"usage": ["maybe"]}, 'cannot accept usage.0 = "maybe": must be one of on-demand, spot'),
        ({"usage": "spot"}, 'cannot accept usage = "spot": must be a list'),
        ({"cuont": 1}, "cannot accept cuont = 1: there is no such field; did you mean count?"),
    ],
)
async def test_a_field_is_named_with_its_value_and_what_it_must_be(
    site: Site, change: dict[str, Any], detail: str
) -> None:
    answer = await site.http().post("/api/v1/provisions", json={**ASKED, **change})
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        (f"limit={10**30}", "must be at most 500"),
        ("limit=0", "must be at least 1"),
        ("limit=" + "9" * 5000, "must be a whole number with fewer digits"),
        ("limit=x", "must be a whole number, not text or a fraction"),
        ("state=sleepy", "must be one of created, idle"),
    ],
)
async def test_so_it_is_with_what_stands_in_an_address(site: Site, query: str, rule: str) -> None:
    answer = await site.http().get(f"/api/v1/nodes?{query}")
    assert answer.status_code == 422 and answer.json()["rule"].startswith(rule)
