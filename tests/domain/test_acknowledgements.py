"""How long an acknowledgement holds: until it happens anew, gets worse, or the time of a state is over."""

from dataclasses import replace

import pytest

from muster.domain.findings import Culprit, Finding
from muster.domain.overview import (
    KEPT,
    STATES_FOR,
    Acknowledged,
    Acknowledgement,
    holds,
    split_acknowledged,
)
from muster.domain.progress import Tone
from tests.domain.builders import NOW, SMALLEST

STATE = Finding(code="paused", subject="ci", tone=Tone.WARNING, culprit=Culprit.OPERATOR, text="", advice="")
EVENT = replace(STATE, code="failures", happened_at=NOW)
SEEN = Acknowledgement(finding="paused.ci", tone=Tone.WARNING, at=NOW, actor="ada")


def test_what_happened_before_stays_acknowledged_and_comes_back_when_it_happens_anew() -> None:
    assert holds(SEEN, EVENT, now=NOW + KEPT - 1)
    assert not holds(SEEN, replace(EVENT, happened_at=NOW + SMALLEST), now=NOW + 1)


@pytest.mark.parametrize(("later", "held"), [(0.0, True), (STATES_FOR - 1, True), (STATES_FOR, False)])
def test_a_state_without_a_known_begin_comes_back_after_an_hour(later: float, held: bool) -> None:
    assert holds(SEEN, STATE, now=NOW + later) is held


def test_what_gets_worse_comes_back_and_what_gets_better_does_not() -> None:
    assert not holds(SEEN, replace(EVENT, tone=Tone.DANGER), now=NOW)
    assert holds(replace(SEEN, tone=Tone.DANGER), EVENT, now=NOW)


def test_an_acknowledgement_does_not_hold_for_ever() -> None:
    assert not holds(SEEN, EVENT, now=NOW + KEPT)


def test_findings_are_parted_by_their_id() -> None:
    other = replace(STATE, subject="web")
    told, seen = split_acknowledged([STATE, other], [SEEN], now=NOW)
    assert told == (other,)
    assert seen == (Acknowledged(finding=STATE, actor="ada", at=NOW),)
