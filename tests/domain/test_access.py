"""Roles, and how long a token is good for."""

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings

from muster.domain import checks, serialization
from muster.domain.access import ApiToken, DeviceRequest, Role, displaced, may
from muster.domain.errors import InvalidRequest
from tests.domain import strategies
from tests.domain.builders import NOW, SMALLEST, modest

RANKS = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


def token(*, expires_at: float | None = None, revoked_at: float | None = None) -> ApiToken:
    return ApiToken(
        id="tok-1",
        name="laptop",
        role=Role.VIEWER,
        created_at=NOW - 9,
        expires_at=expires_at,
        revoked_at=revoked_at,
    )


@pytest.mark.parametrize("held", RANKS)
@pytest.mark.parametrize("needed", RANKS)
def test_a_role_may_do_what_lower_ones_may(held: Role, needed: Role) -> None:
    assert may(held, needed) is (RANKS.index(held) >= RANKS.index(needed))


def test_every_role_has_a_rank_but_the_one_beside_them() -> None:
    assert set(RANKS) == set(Role) - {Role.ENROL}


@pytest.mark.parametrize("other", RANKS)
def test_the_role_that_may_enrol_may_do_nothing_else_and_no_other_role_may_enrol(other: Role) -> None:
    assert may(Role.ENROL, Role.ENROL)
    assert not may(Role.ENROL, other)
    assert not may(other, Role.ENROL)


def test_an_enrolment_token_is_for_one_template() -> None:
    def made(role: Role, template: str | None) -> ApiToken:
        return ApiToken(id="tok-1", name="web", role=role, created_at=NOW, template=template)

    assert made(Role.ENROL, "web").template == "web"
    for template in (None, "", "No Name"):
        with pytest.raises(InvalidRequest, match="template"):
            made(Role.ENROL, template)
    for role in RANKS:
        with pytest.raises(InvalidRequest, match="template"):
            made(role, "web")


def test_a_token_without_an_end_is_good_for_ever() -> None:
    assert token().valid(now=1e12)


def test_a_token_is_good_until_its_end_and_not_at_it() -> None:
    assert token(expires_at=NOW).valid(now=NOW - SMALLEST)
    assert not token(expires_at=NOW).valid(now=NOW)
    assert not token(expires_at=NOW).valid(now=NOW + 1)


def test_a_revoked_token_is_worth_nothing_whatever_its_end() -> None:
    assert not token(revoked_at=NOW).valid(now=NOW - 1)
    assert not token(revoked_at=NOW, expires_at=NOW + 99).valid(now=NOW + 1)


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * (checks.NAME_MAX + 1)])
def test_a_token_without_a_proper_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        ApiToken(id="tok-1", name=name, role=Role.ADMIN, created_at=NOW)


def test_a_token_has_no_place_for_its_secret() -> None:
    assert {field.name for field in fields(ApiToken)} == {
        "id",
        "name",
        "role",
        "created_at",
        "expires_at",
        "revoked_at",
        "template",
        "kind",
        "idle_timeout",
        "seen_at",
        "claims",
    }


@settings(modest, max_examples=30)
@given(strategies.tokens)
def test_a_token_survives_json_and_back(drawn: ApiToken) -> None:
    assert (
        serialization.from_plain(ApiToken, json.loads(json.dumps(serialization.fields_to_plain(drawn))))
        == drawn
    )


# --- terminals that make room -----------------------------------------------------------------------


def _terminal(number: int, address: str) -> DeviceRequest:
    return DeviceRequest(
        user_code=f"code-{number}", machine="m", created_at=float(number), expires_at=900.0, address=address
    )


@pytest.mark.parametrize(
    ("waiting", "asks", "most", "gone"),
    [
        (["a", "a", "b"], "b", 4, []),
        (["a", "b", "b"], "c", 3, [1]),
        (["a", "b"], "b", 2, [1]),
        (["a", "b"], "c", 2, [0]),
        (["a", "b", "b", "b"], "c", 3, [1, 2]),
        (["10.0.0.9", "2001:db8::1", "2001:db8::2"], "10.0.0.8", 3, [1]),
        (["2001:db8:0:1::1", "2001:db8:0:2::1", "10.0.0.9"], "::ffff:10.0.0.9", 3, [2]),
        (["10.0.0.9", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"], "2001:db8:0:4::1", 4, [1]),
        (["2001:db8:0:9::1", "2001:db8:0:1::1", "2001:db8:0:1::2"], "2001:db8:0:1::3", 3, [1]),
        (["fe80::1%eth0", "b", "fe80::2%eth1"], "c", 3, [0]),
        ([], "a", 0, []),
    ],
)
def test_the_oldest_terminal_of_the_network_that_asks_most_makes_room(
    waiting: list[str], asks: str, most: int, gone: list[int]
) -> None:
    known = [_terminal(number, address) for number, address in enumerate(waiting)]
    found = displaced(known[::-1], _terminal(99, asks), most=most)
    assert [each.user_code for each in found] == [f"code-{number}" for number in gone]


def test_a_flood_from_all_networks_of_one_site_displaces_no_terminal_of_another() -> None:
    waiting = [_terminal(0, "2001:db8:ffff::1")]
    for number in range(1, 60):
        asks = _terminal(number, f"2001:db8:0:{number:x}::1")
        gone = displaced(waiting, asks, most=20)
        waiting = [each for each in waiting if each not in gone] + [asks]
    assert len(waiting) == 20 and waiting[0].user_code == "code-0"
