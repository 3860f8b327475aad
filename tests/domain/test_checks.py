"""Each check on both sides of its limits, which come from `checks`: moving one moves its rows."""

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain import checks
from muster.domain.access import ApiToken, Role
from muster.domain.errors import InvalidRequest
from tests.domain.builders import kind, modest

Check = Callable[[object], object]

INNER = "abcdefghijklmnopqrstuvwxyz0123456789"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def refuses(check: Check, value: object) -> InvalidRequest:
    """The check refuses, and says which field, which value (shortened) and which rule."""
    with pytest.raises(InvalidRequest) as caught:
        check(value)
    error = caught.value
    assert error.field == "field"
    assert error.value is value
    message = str(error)
    assert message.startswith("cannot accept field = ")
    assert message.endswith(f": {error.rule}") and error.rule.startswith("must ")
    assert len(message) < len(error.rule) + 150
    if not isinstance(value, int) and len(repr(value)) < 50:
        assert repr(value) in message
    return error


def name(value: object) -> object:
    return checks.name("field", value)


def text(value: object) -> object:
    return checks.text("field", value)


def whole(value: object) -> object:
    return checks.whole("field", value, least=1, most=checks.COUNT_MAX)


def seconds(value: object) -> object:
    return checks.seconds("field", value)


def seconds_or_zero(value: object) -> object:
    return checks.seconds("field", value, zero=True)


def patterns(value: object) -> object:
    return checks.patterns("field", value)


def script(value: object) -> object:
    return checks.script("field", value)


def known(value: object) -> object:
    return checks.known("field", value, ("small", "large"))


def word(value: object) -> None:
    checks.word("field", value, Colour)


def words(value: object) -> None:
    checks.words("field", value, Colour)


ACCEPTED: list[tuple[Check, Any]] = [
    (name, "a"),
    (name, "0"),
    (name, "a-b--c"),
    (name, "a" * checks.NAME_MAX),
    (text, "a"),
    (text, "a b/ü#1"),
    (text, "x" * checks.RUN_MAX),
    (whole, 1),
    (whole, checks.COUNT_MAX),
    (seconds, math.ulp(0.0)),
    (seconds, 1),
    (seconds, checks.SECONDS_MAX),
    (seconds_or_zero, 0),
    (seconds_or_zero, checks.SECONDS_MAX),
    (patterns, ("*",)),
    (patterns, ("c*", "m5.large", "u-6tb1.metal")),
    (patterns, ("c" * 30,) * checks.NAME_MAX),
    (script, ""),
    (script, "#!/bin/sh\n\techo ü"),
    (script, "x" * checks.SCRIPT_MAX),
    (known, "small"),
    (word, Colour.RED),
    (words, (Colour.RED,)),
    (words, (Colour.BLUE, Colour.RED)),
]

REFUSED: list[tuple[Check, list[Any]]] = [
    (name, ["", "-a", "a-", "A", "a_b", "a b", "a\n", "ä", "٣", "a" * (checks.NAME_MAX + 1)]),
    (text, ["", " a", "a ", "a\n", "a\tb", "a\0b", "\x1b[31m", "\u202eab", "\ud800"]),
    (text, ["x" * (checks.RUN_MAX + 1), "x" * 10**6]),
    (whole, ["3", 0, -1, checks.COUNT_MAX + 1, 10**9, 10**5000, 1.0, math.nan, math.inf]),
    (seconds, [0, 0.0, -0.0, -1, -math.ulp(0.0), math.nextafter(checks.SECONDS_MAX, math.inf)]),
    (seconds, ["3", 10**9, 10**5000, math.nan, math.inf, -math.inf]),
    (seconds_or_zero, [-math.ulp(0.0), -1, math.nan, math.inf, checks.SECONDS_MAX + 1]),
    (patterns, [(), ["c*"], "c*", ("",), ("c?",), ("[c]*",), ("c *",), (".c",), ("-c",), ("c*", 5), (None,)]),
    (patterns, [("c" * 31,), ("c*",) * (checks.NAME_MAX + 1), ("ç*",), ("c*\n",)]),
    (script, ["a\0b", "\ud800", "\udfff", b"echo", "x" * (checks.SCRIPT_MAX + 1)]),
    (known, ["", "Small", "huge", ["small"], ("small",)]),
    (word, ["red", "green", "", ["red"]]),
    (words, [(), "red", ("red",), [Colour.RED], Colour.RED, (Colour.RED, Colour.RED), (Colour.RED, None)]),
]

CHECKS: list[Check] = [name, text, whole, seconds, seconds_or_zero, patterns, script, known, word, words]


@pytest.mark.parametrize(("check", "value"), ACCEPTED, ids=kind)
def test_a_value_inside_the_rule_is_accepted(check: Check, value: object) -> None:
    check(value)


@pytest.mark.parametrize(
    ("check", "value"), [(check, value) for check, row in REFUSED for value in row], ids=kind
)
def test_a_value_outside_the_rule_is_refused_by_name(check: Check, value: object) -> None:
    refuses(check, value)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("value", [None, True, False, b"x", {}, {"a": 1}, object(), 1j, [1]], ids=kind)
def test_a_value_of_a_wrong_type_is_refused(check: Check, value: object) -> None:
    refuses(check, value)


@modest
@given(st.one_of(st.text(), st.binary(), st.dates(), st.lists(st.integers()), st.none(), st.booleans()))
def test_no_check_of_a_number_takes_what_is_not_a_number(value: object) -> None:
    refuses(whole, value)
    refuses(seconds, value)


@modest
@given(st.integers())
def test_a_whole_number_is_accepted_exactly_between_its_bounds(value: int) -> None:
    if 1 <= value <= checks.COUNT_MAX:
        assert whole(value) == value
    else:
        refuses(whole, value)


@modest
@given(st.one_of(st.floats(), st.floats(0, 2 * checks.SECONDS_MAX), st.integers()))
def test_a_duration_is_accepted_exactly_above_zero_and_up_to_the_longest(value: float) -> None:
    if value > 0 and value <= checks.SECONDS_MAX:
        accepted = seconds(value)
        assert accepted == value and type(accepted) is float
    else:
        refuses(seconds, value)


@modest
@given(st.text(alphabet=INNER + "-A_ü\n", max_size=checks.NAME_MAX + 2))
def test_a_name_is_accepted_exactly_if_it_is_a_dns_label(value: str) -> None:
    inner = set(value) <= set(INNER + "-")
    if 0 < len(value) <= checks.NAME_MAX and inner and value[0] != "-" and value[-1] != "-":
        assert name(value) == value
    else:
        refuses(name, value)


@modest
@given(st.text(max_size=checks.RUN_MAX + 5))
def test_an_id_from_outside_is_accepted_exactly_if_it_prints_on_one_line(value: str) -> None:
    printable = all(char.isprintable() for char in value)
    if 0 < len(value) <= checks.RUN_MAX and printable and value[0] != " " and value[-1] != " ":
        assert text(value) == value
    else:
        refuses(text, value)


@modest
@given(st.integers(1, 50), st.integers(0, 60))
def test_the_longest_text_is_the_callers_to_say(longest: int, length: int) -> None:
    if 0 < length <= longest:
        checks.text("field", "x" * length, longest=longest)
    else:
        error = refuses(lambda value: checks.text("field", value, longest=longest), "x" * length)
        assert str(longest) in error.rule


@modest
@given(st.lists(st.text("abcXYZ09.*-?[ ", min_size=1, max_size=8), min_size=1, max_size=4))
def test_patterns_are_lowered_and_hold_nothing_special_but_the_star(value: list[str]) -> None:
    fine = all(set(item) <= set("abcXYZ09.*-") and item[0] not in ".-" for item in value)
    if fine:
        assert patterns(tuple(value)) == tuple(item.lower() for item in value)
    else:
        refuses(patterns, tuple(value))


def test_the_rule_names_the_limits() -> None:
    assert str(checks.COUNT_MAX) in refuses(whole, 0).rule
    assert str(checks.NAME_MAX) in refuses(name, "").rule
    assert str(checks.RUN_MAX) in refuses(text, "").rule
    assert f"{checks.SECONDS_MAX:.0f}" in refuses(seconds, 0).rule
    assert "above 0" in refuses(seconds, 0).rule
    assert "from 0" in refuses(seconds_or_zero, -1).rule
    assert "red, blue" in refuses(word, "green").rule
    assert "red, blue" in refuses(words, ()).rule
    assert "small, large" in refuses(known, "huge").rule


def test_a_long_value_is_shortened_in_the_message() -> None:
    message = str(refuses(text, "x" * 10**6))
    assert "x…" in message
    assert "too long to show" in str(refuses(whole, 10**5000))


def test_what_passes_a_check_comes_out_of_it() -> None:
    assert checks.share("share", 1) == 1.0
    assert checks.flag("flag", True) is True
    assert checks.flag("flag", False) is False
    assert checks.known("colour", "red", ["red", "blue"]) == "red"
    assert checks.script("script", "echo") == "echo"


def test_patterns_are_refused_with_their_rule() -> None:
    with pytest.raises(InvalidRequest) as refused:
        checks.patterns("allowed", ())
    rule = (
        "must be a list of patterns like 'c*' or 'm5.large': "
        "letters, digits, dots, hyphens and *, at most 30 of them each"
    )
    assert str(refused.value).endswith(rule)


def test_a_token_is_refused_by_the_field_that_is_wrong() -> None:
    with pytest.raises(InvalidRequest) as refused:
        ApiToken(id="tok-1", name="", role=Role.ADMIN, created_at=0.0)
    assert refused.value.field == "name"
    with pytest.raises(InvalidRequest) as refused:
        ApiToken(id="tok-1", name="web", role=Role.ENROL, created_at=0.0, template="No Name")
    assert refused.value.field == "template"
