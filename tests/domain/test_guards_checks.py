"""What passes a check comes out of it, and what doesn't is told by its field and its rule."""

import pytest

from muster.domain import checks
from muster.domain.access import ApiToken, Role
from muster.domain.errors import InvalidRequest


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
