"""What an app says next, and what an answer means: without a socket, a clock or a thread."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from muster.domain.health import Health
from muster.sdk.membership import (
    REFUSED_MOST,
    RETRY_MOST,
    Answer,
    Introduction,
    Kind,
    Membership,
    Request,
    Word,
    in_one_line,
)
from muster.wire.base import body_of, encode
from tests.sdk import plane

SAID = Introduction(token="enrolment-token", name="web-1", address="", beat_seconds=4.0)
JOINED = Answer(status=200, body=encode(plane.JOINED))
OK = Answer(status=200, body=b'{"version": 3}')
AWAY = Answer(status=0, detail="ConnectError")
LOST = Answer(status=410, code="lost", detail="node node-1 was given up (heartbeat_lost)")
REMOVED = Answer(status=410, code="removed", detail="node node-1 was removed (operator)")
FORGOTTEN = Answer(status=401, code="unauthenticated", detail="unknown node token: join again")
READY = Word(status=Health.READY)


def said(request: Request) -> dict[str, Any]:
    """What goes over the wire."""
    body: dict[str, Any] = msgspec.json.decode(body_of(request.body))
    return body


class App:
    """One who speaks by the rules, with answers that a test chooses."""

    def __init__(self, *, jitter: float = 1.0) -> None:
        drawn: Iterator[int] = count(1)
        self.membership = Membership(SAID, draw=lambda: f"drawn-{next(drawn)}", jitter=lambda: jitter)
        self.accepts = False
        self.draining = False
        self.leaving = False
        self.word = READY

    def next(self) -> Request | None:
        return self.membership.next(
            accepts=self.accepts,
            draining=self.draining,
            leaving=self.leaving,
            word=self.word,
            activity=7,
        )

    def says(self, kind: Kind, answer: Answer = OK) -> tuple[dict[str, Any], float]:
        request = self.next()
        assert request is not None
        assert request.kind is kind
        return said(request), self.membership.on_answer(request, answer)

    def joins(self) -> "App":
        self.says(Kind.ENROL, JOINED)
        return self

    def serves(self) -> "App":
        self.joins()
        self.accepts = True
        self.says(Kind.REPORT)
        return self


def test_it_is_starting_until_its_server_accepts_and_then_ready() -> None:
    app = App()
    body, pause = app.says(Kind.ENROL, JOINED)
    assert body == {"key": "drawn-1", "boot_id": "drawn-2", "name": "web-1", "beat_seconds": 4.0}
    assert (pause, app.membership.node_id) == (0.0, "node-1")
    body, pause = app.says(Kind.BEAT)
    assert body == {"status": "starting", "activity": 7}
    assert 3.2 < pause <= 4.0
    app.accepts = True
    body, pause = app.says(Kind.REPORT)
    assert (body, pause) == ({"booted": True, "attached": "as-1"}, 0.0)
    assert app.says(Kind.BEAT)[0] == {"status": "ready"}


def test_what_was_not_acknowledged_is_said_again() -> None:
    app = App().joins()
    app.accepts = True
    app.says(Kind.REPORT, AWAY)
    app.says(Kind.REPORT, Answer(status=503, code="not_yet"))
    app.says(Kind.REPORT)
    app.says(Kind.BEAT)


def test_a_lost_reply_to_its_enrolment_is_asked_for_again_with_the_same_key() -> None:
    app = App()
    first, _ = app.says(Kind.ENROL, AWAY)
    again, _ = app.says(Kind.ENROL, JOINED)
    assert first["key"] == again["key"] and first["boot_id"] == again["boot_id"]


def test_its_own_word_is_said_once_it_serves_and_not_before() -> None:
    app = App().joins()
    app.word = Word(status=Health.DEGRADED, reason="db is slow")
    assert app.says(Kind.BEAT)[0]["status"] == "starting"
    app.accepts = True
    app.says(Kind.REPORT)
    assert app.says(Kind.BEAT)[0] == {"status": "degraded", "reason": "db is slow"}


@pytest.mark.parametrize("answer", [FORGOTTEN, Answer(status=404, code="not_found")])
def test_forgotten_it_enrols_again_with_the_same_key_and_serves_again(answer: Answer) -> None:
    app = App().serves()
    app.says(Kind.BEAT, answer)
    assert not app.membership.joined
    assert app.says(Kind.ENROL, JOINED)[0]["key"] == "drawn-1"
    app.says(Kind.REPORT)
    app.says(Kind.BEAT)


def test_given_up_it_says_goodbye_and_enrols_anew_with_a_new_key() -> None:
    app = App().serves()
    app.says(Kind.BEAT, LOST)
    farewell = app.next()
    assert farewell is not None
    assert (farewell.kind, farewell.bearer, said(farewell)) == (Kind.FAREWELL, "node-token", {"left": True})
    app.membership.on_answer(farewell, AWAY)  # it was only politeness
    body, _ = app.says(Kind.ENROL, JOINED)
    assert body["key"] not in ("drawn-1", "drawn-2")
    assert body["boot_id"] == "drawn-2"


def test_a_key_that_was_given_up_while_its_reply_was_lost_is_replaced() -> None:
    app = App()
    first, _ = app.says(Kind.ENROL, AWAY)
    app.says(Kind.ENROL, LOST)
    assert app.says(Kind.ENROL, JOINED)[0]["key"] != first["key"]


def test_taken_out_it_says_goodbye_and_never_speaks_again() -> None:
    app = App().serves()
    app.says(Kind.BEAT, REMOVED)
    app.says(Kind.FAREWELL)
    assert app.membership.over and app.next() is None
    assert "taken out" in (app.membership.problem or "")


def test_taken_out_before_it_joined_it_stays_out() -> None:
    app = App()
    app.says(Kind.ENROL, REMOVED)
    assert app.membership.over and app.next() is None


def test_on_its_way_out_it_is_offline_and_then_leaves() -> None:
    app = App().serves()
    app.draining = True
    assert app.says(Kind.OFFLINE)[0] == {"status": "offline", "reason": "draining"}
    app.leaving = True
    assert app.says(Kind.LEAVE)[0] == {"left": True}
    assert app.membership.over and app.next() is None


def test_without_a_drain_it_still_says_offline_before_it_leaves() -> None:
    app = App().serves()
    app.leaving = True
    app.says(Kind.OFFLINE, AWAY)
    assert app.says(Kind.OFFLINE)[0] == {"status": "offline", "reason": "stopping"}
    app.says(Kind.LEAVE)


def test_who_never_joined_has_nothing_to_leave() -> None:
    app = App()
    app.leaving = True
    assert app.next() is None


@pytest.mark.parametrize("draining", [True, False])
def test_who_is_given_up_on_the_way_out_does_not_come_back(draining: bool) -> None:
    app = App().serves()
    app.draining, app.leaving = draining, not draining
    app.says(Kind.OFFLINE, LOST)
    app.says(Kind.FAREWELL)
    assert app.next() is None


def test_pauses_grow_with_failures_up_to_a_bound_and_start_over_after_a_success() -> None:
    app = App().serves()
    pauses = [app.says(Kind.BEAT, AWAY)[1] for _ in range(12)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1 and pauses[-1] == RETRY_MOST
    assert "no server answers" in (app.membership.problem or "")
    app.says(Kind.BEAT)
    assert not app.membership.problem
    assert app.says(Kind.BEAT, AWAY)[1] == pauses[0]


def test_jitter_spreads_the_pauses() -> None:
    lowest, highest = App(jitter=0.0), App(jitter=1.0)
    assert lowest.says(Kind.ENROL, AWAY)[1] == highest.says(Kind.ENROL, AWAY)[1] / 2


def test_a_server_that_names_a_time_is_given_it_within_reason() -> None:
    assert App().says(Kind.ENROL, Answer(status=503, retry_after=7.0))[1] == 7.0
    assert App().says(Kind.ENROL, Answer(status=503, retry_after=9e9))[1] == RETRY_MOST


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, code="unauthenticated", detail="the token tok-1 has expired"),
        Answer(status=403, code="forbidden", detail="needs the role enrol"),
        Answer(status=409, code="cap_reached", detail="template/web uses 5 of 5"),
        Answer(status=422, code="invalid_request", detail="no such address"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words_and_tried_again_slowly(answer: Answer) -> None:
    app = App()
    pauses = [app.says(Kind.ENROL, answer)[1] for _ in range(10)]
    assert pauses[-1] == REFUSED_MOST
    problem = app.membership.problem or ""
    assert problem.startswith("cannot enrol: ") and answer.detail in problem
    app.says(Kind.ENROL, JOINED)
    assert app.membership.problem is None


def test_an_unknown_token_says_how_to_get_one() -> None:
    app = App()
    app.says(Kind.ENROL, Answer(status=401, code="unauthenticated", detail="it was revoked"))
    assert "muster tokens create --role enrol" in (app.membership.problem or "")


@pytest.mark.parametrize("body", [{}, {"node_id": "n"}, {"node_id": "n", "token": "t", "desired": None}])
def test_an_answer_that_is_not_musters_is_no_answer(body: dict[str, Any]) -> None:
    app = App()
    assert app.says(Kind.ENROL, Answer(status=200, body=msgspec.json.encode(body)))[1] > 0
    assert not app.membership.joined


def test_a_token_that_dies_again_and_again_is_not_renewed_in_a_rush() -> None:
    """Two copies of one process would take the token from each other for ever."""
    app = App().serves()
    pauses = []
    for _ in range(8):
        pauses.append(app.says(Kind.BEAT, FORGOTTEN)[1])
        app.says(Kind.ENROL, JOINED)
        app.says(Kind.REPORT, FORGOTTEN)
        app.says(Kind.ENROL, JOINED)
        app.membership._serving = True
    assert pauses[-1] == RETRY_MOST


def test_secrets_are_not_in_what_is_printed() -> None:
    app = App()
    request = app.next()
    assert request is not None
    shown = repr((request, SAID, JOINED))
    assert "enrolment-token" not in shown and "drawn-1" not in shown and "node-token" not in shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("db\nis  slow ", "db is slow"),
        ("\x00bell\x07", "?bell?"),
        ("x" * 999, "x" * 256),
        ("", ""),
        ("   ", ""),
        ("x" * 255 + " y", "x" * 255),
    ],
)
def test_a_reason_is_made_fit_for_one_line(said: str, shown: str) -> None:
    assert in_one_line(said) == shown
