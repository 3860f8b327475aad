"""The agent's core, driven by hand: no clock, no network, no processes."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from muster.agent import agent as a

ANSWER = {"version": 1, "directive": "stay", "dead_man": 100}
JOINED = {"node_id": "node-1", "token": "t", "beat_seconds": 5, "desired": ANSWER}


def want(version: int, directive: str, **more: Any) -> dict[str, Any]:
    return {"version": version, "directive": directive, "dead_man": 100, "assignment_id": "as-1", **more}


def order(key: str, **more: Any) -> dict[str, Any]:
    return {"id": key, "argv": ["true"], **more}


class Drive:
    """Feeds events, keeps the state and all effects. Requests wait in `open` until they are answered."""

    def __init__(self, **more: Any) -> None:
        self.state, self.now, self.chance = a.State(), 0.0, 0.5
        self.all: list[a.Effect] = []
        self.open: dict[str, a.Send] = {}
        self.feed(a.Started("key", "boot", 1740.0, **more))

    def feed(self, event: a.Event) -> list[a.Effect]:
        self.state, effects = a.step(self.state, event, self.now, self.chance)
        for effect in effects:
            if isinstance(effect, a.Send):
                assert effect.line not in self.open or self.open[effect.line].epoch != effect.epoch
                self.open[effect.line] = effect
        self.all += effects
        if not self.state.over:
            assert a.wake(self.state) > self.now, "a busy loop"
        return effects

    def answer(self, line: str, status: int, body: Any = None, retry_after: float = 0.0) -> list[a.Effect]:
        send = self.open.pop(line)
        return self.feed(a.Answered(line, send.what, send.epoch, status, body or {}, retry_after))

    def pass_time(self, seconds: float) -> list[a.Effect]:
        self.now += seconds
        return self.feed(a.Tick())

    def to_wake(self) -> list[a.Effect]:
        return self.pass_time(a.wake(self.state) - self.now)

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.all if isinstance(effect, kind)]

    def over(self) -> str:
        return self.state.over


def streaming(**more: Any) -> Drive:
    drive = Drive()
    drive.answer("join", 200, {**JOINED, **more})
    return drive


def joined(**more: Any) -> Drive:
    """With a server that knows no stream: it polls."""
    drive = streaming(**more)
    drive.answer("poll", 404)
    return drive


def attached(commands: list[dict[str, Any]] | None = None) -> Drive:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach", run="r", commands=commands or []))
    drive.feed(a.Moved("as-1"))
    drive.answer("report", 200, want(2, "attach", run="r", commands=commands or []))
    return drive


# --- the stream -------------------------------------------------------------------------------------------


def line(desired: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"desired": desired, "beat_seconds": 5, "spread": 8.0, **more}


def heard(drive: Drive, body: dict[str, Any]) -> list[a.Effect]:
    return drive.feed(a.Heard(drive.state.epoch, body))


def test_it_opens_a_stream_once_and_does_what_each_line_says() -> None:
    drive = streaming()
    assert drive.open["poll"].what == "stream"
    drive.answer("report", 200, ANSWER)
    assert heard(drive, line(want(2, "attach", run="r")))[-1] == a.Attach("as-1")
    drive.feed(a.Moved("as-1"))
    drive.answer("report", 200, want(3, "attach", run="r"))
    assert heard(drive, line(want(4, "detach")))[-1] == a.Detach("as-1")
    assert [send.what for send in drive.of(a.Send) if send.line == "poll"] == ["stream"]


def test_a_line_puts_the_dead_man_off_and_says_how_often_to_beat() -> None:
    drive = streaming()
    drive.now = 90.0
    heard(drive, line(ANSWER, beat_seconds=20))
    assert drive.state.dead_at == 190.0 and drive.state.beat_seconds == 20.0


@pytest.mark.parametrize(("told", "kept"), [(20, 5.0), (2, 2.0)])
def test_without_a_stream_it_beats_as_often_as_one_that_was_told_nothing(told: int, kept: float) -> None:
    drive = streaming()
    heard(drive, line(ANSWER, beat_seconds=told))
    drive.answer("poll", 404, {})
    assert drive.state.beat_seconds == told, "a stream that worked may work again"
    drive.now += 60.0
    drive.feed(a.Tick())
    drive.answer("poll", 404, {})
    assert drive.state.beat_seconds == kept


@pytest.mark.parametrize("body", [{}, {"desired": {}}, line({**ANSWER, "directive": "dance"}), line({})])
def test_a_line_that_makes_no_sense_is_silence(body: dict[str, Any]) -> None:
    drive = streaming()
    before = drive.state
    heard(drive, body)
    assert drive.state.desired == before.desired and not drive.state.streams


def test_a_line_for_an_earlier_token_is_ignored() -> None:
    drive = streaming()
    drive.feed(a.Heard(drive.state.epoch - 1, line(want(9, "stop"))))
    assert not drive.over()


@pytest.mark.parametrize(("chance", "pause"), [(0.25, 2.0), (1.0, 8.0)])
def test_a_stream_that_breaks_is_opened_anew_after_a_part_of_the_spread(chance: float, pause: float) -> None:
    drive = streaming()
    heard(drive, line(ANSWER))
    drive.chance = chance
    drive.now = 4.0
    drive.answer("poll", 0)
    assert drive.state.lines["poll"].due == drive.now + pause
    drive.pass_time(pause)
    assert drive.open["poll"].what == "stream"


def test_a_server_that_is_away_is_asked_again_with_growing_pauses_and_for_the_stream() -> None:
    drive, pauses = streaming(), []
    for _ in range(4):
        drive.answer("poll", 0)
        pauses.append(drive.state.lines["poll"].due - drive.now)
        drive.now = drive.state.lines["poll"].due
        drive.feed(a.Tick())
        assert drive.open["poll"].what == "stream"
    assert pauses == sorted(set(pauses))


@pytest.mark.parametrize("spread", [1.0, 10.0, 60.0])
def test_the_agents_of_a_server_that_is_away_stay_spread(spread: float) -> None:
    pauses = []
    for chance in (0.0, 0.5, 1.0):
        drive = streaming()
        heard(drive, line(ANSWER, spread=spread))
        drive.chance = chance
        drive.answer("poll", 0)
        drive.pass_time(spread)
        drive.answer("poll", 0)
        pauses.append(drive.state.lines["poll"].due - drive.now)
    assert pauses[2] - pauses[0] >= spread
    assert pauses[2] <= spread + 2.0, "a small fleet comes back as soon as ever"


def test_a_stream_on_which_no_line_comes_is_given_up_for_polls_and_tried_again_later() -> None:
    drive = streaming()
    drive.now = a.SILENCE
    drive.answer("poll", 0)
    for version in range(2, a.POLLS + 2):
        assert drive.open["poll"].what == "desired"
        drive.answer("poll", 200, {**ANSWER, "version": version})
    assert drive.open["poll"].what == "stream"


@pytest.mark.parametrize("status", [404, 405])
def test_an_older_server_is_polled_at_once_without_joining_anew(status: int) -> None:
    drive = streaming()
    drive.answer("poll", status)
    assert drive.open["poll"].what == "desired" and drive.state.joined


def test_a_token_that_died_ends_the_stream_and_means_joining_anew() -> None:
    drive = streaming()
    drive.answer("poll", 401)
    assert not drive.state.joined


# --- joining ------------------------------------------------------------------------------------------------


def test_the_first_thing_it_wants_is_to_join_with_its_key() -> None:
    assert Drive().open["join"].body == {"key": "key", "boot_id": "boot"}


@pytest.mark.parametrize("status", [0, 500, 502, 503, 429, 400])
def test_a_join_that_got_no_good_answer_is_repeated_with_growing_pauses_of_1_to_30_seconds(
    status: int,
) -> None:
    drive, pauses = Drive(), []
    for _ in range(10):
        drive.answer("join", status)
        pauses.append(a.wake(drive.state) - drive.now)
        drive.to_wake()
        assert drive.open["join"].body["key"] == "key"
    assert pauses == sorted(pauses) and pauses[0] >= 1 and pauses[-1] <= 30 and pauses[-1] > pauses[0]


def test_jitter_comes_from_outside() -> None:
    assert a.backoff(0, 0.0) == 1 and a.backoff(0, 1.0) == 2
    assert a.backoff(50, 0.0) == 15 and a.backoff(50, 1.0) == 30


def test_a_join_answered_with_retry_after_waits_that_long() -> None:
    drive = Drive()
    drive.answer("join", 503, retry_after=2.0)
    assert a.wake(drive.state) == 2.0


@pytest.mark.parametrize("status", [403, 410])
def test_a_machine_that_is_turned_away_powers_off(status: int) -> None:
    drive = Drive()
    effects = drive.answer("join", status, {"detail": "not wanted"})
    assert effects[-1] == a.PowerOff(f"turned away ({status}): not wanted")
    assert drive.feed(a.Tick()) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"node_id": "n"},
        {**JOINED, "desired": {}},
        {**JOINED, "node_id": "../n"},
        {**JOINED, "node_id": ""},
        {**JOINED, "beat_seconds": "often"},
        {**JOINED, "desired": {**ANSWER, "directive": "dance"}},
        {**JOINED, "desired": {**ANSWER, "dead_man": float("nan")}},
        {**JOINED, "desired": want(1, "attach", assignment_id="../../etc")},
        {**JOINED, "desired": want(1, "attach", commands=[{"id": "a/b"}])},
    ],
)
def test_a_join_answer_that_makes_no_sense_is_no_answer(body: dict[str, Any]) -> None:
    drive = Drive()
    drive.answer("join", 200, body)
    assert not drive.state.joined and not drive.over()
    drive.to_wake()
    assert "join" in drive.open


def test_after_joining_it_beats_polls_and_runs_the_boot_script() -> None:
    drive = joined(boot={"script": "echo", "env": {"A": "b"}})
    assert drive.of(a.StartBoot) == [a.StartBoot("echo", {"A": "b"})]
    assert drive.open["poll"].body == {"known": 1, "timeout": a.POLL}
    drive.pass_time(5)
    assert "beat" in drive.open


def test_without_a_script_it_is_booted_at_once() -> None:
    assert joined().open["report"].body == {"booted": True}


@pytest.mark.parametrize("line", ["beat", "poll", "report"])
@pytest.mark.parametrize("status", [401, 404])
def test_a_forgotten_token_means_joining_anew_with_the_same_key_and_no_second_boot(
    line: str, status: int
) -> None:
    drive = joined(boot={"script": "echo"})
    drive.pass_time(5)
    drive.answer(line, status)
    drive.pass_time(1)
    assert drive.open["join"].body["key"] == "key"
    drive.answer("join", 200, {**JOINED, "token": "t2", "boot": {"script": "echo"}})
    assert len(drive.of(a.StartBoot)) == 1 and drive.open["poll"].token == "t2"


def test_answers_to_requests_of_an_earlier_join_mean_nothing() -> None:
    drive = joined()
    drive.pass_time(5)
    old = drive.open["poll"]
    drive.answer("beat", 401)
    drive.answer("join", 200, JOINED)
    for status in (401, 410, 200):
        drive.feed(a.Answered("poll", "desired", old.epoch, status, want(9, "stop")))
    assert drive.state.joined and not drive.over() and drive.state.desired.version == 1


def test_facts_are_said_again_after_joining_anew() -> None:
    drive = attached()
    drive.pass_time(5)
    drive.answer("beat", 404)
    drive.answer("join", 200, {**JOINED, "desired": want(2, "attach")})
    assert drive.open["report"].body == {"booted": True}
    drive.answer("report", 200, want(2, "attach"))
    assert drive.open["report"].body == {"attached": "as-1"}
    assert len(drive.of(a.Attach)) == 1


@pytest.mark.parametrize("line", ["beat", "poll", "report"])
def test_gone_powers_off(line: str) -> None:
    drive = joined()
    drive.pass_time(5)
    drive.answer(line, 410)
    assert isinstance(drive.all[-1], a.PowerOff)


# --- beats, polls, the dead man -----------------------------------------------------------------------------


def test_beats_keep_their_rhythm_however_long_an_answer_takes() -> None:
    drive, times = joined(), []
    for _ in range(5):
        drive.to_wake() if "beat" not in drive.open else None
        while "beat" not in drive.open:
            drive.to_wake()
        times.append(drive.now)
        drive.now += 2
        drive.answer("beat", 200, {"version": 1})
    assert [y - x for x, y in pairwise(times)] == [5.0] * 4


def test_a_beat_that_fails_is_repeated_no_later_than_the_next_beat_would_be() -> None:
    drive = joined()
    for _ in range(8):
        while "beat" not in drive.open:
            drive.to_wake()
        drive.answer("beat", 0)
        assert a.wake(drive.state) - drive.now <= 5


def test_when_the_server_is_back_everything_that_waits_is_sent_at_once() -> None:
    drive = joined()
    for _ in range(6):
        drive.answer("report", 0)
        while "report" not in drive.open:
            drive.to_wake()
    drive.answer("report", 0)
    drive.answer("beat", 0) if "beat" in drive.open else None
    while "beat" not in drive.open:
        drive.to_wake()
    assert "report" not in drive.open
    drive.answer("beat", 200, {"version": 1})
    assert drive.open["report"].body == {"booted": True}


def test_a_poll_that_the_server_doesnt_hold_is_repeated_once_a_second() -> None:
    drive = joined()
    drive.answer("poll", 200, ANSWER)
    assert "poll" not in drive.open
    drive.pass_time(1)
    assert "poll" in drive.open


def test_news_is_followed_by_the_next_poll_at_once() -> None:
    drive = joined()
    drive.answer("poll", 200, {**ANSWER, "version": 7})
    assert drive.open["poll"].body["known"] == 7


def test_news_that_a_report_brought_first_does_not_delay_the_next_poll() -> None:
    drive = joined()
    drive.answer("report", 200, want(7, "stay"))
    drive.answer("poll", 200, want(7, "stay"))
    assert drive.open["poll"].body["known"] == 7


def test_an_answer_with_a_lower_version_is_ignored_but_renews_the_dead_man() -> None:
    drive = joined()
    drive.answer("report", 200, want(5, "stay"))
    drive.pass_time(10)
    drive.answer("poll", 200, {**want(4, "stop"), "dead_man": 1})
    assert not drive.over() and drive.state.desired.version == 5 and drive.state.dead_at == 110


def test_a_beat_that_hears_of_news_asks_for_them_although_the_poll_hangs() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.pass_time(5)
    drive.answer("beat", 200, {"version": 3})
    assert drive.open["report"].what == "desired" and drive.open["report"].body == {"known": 1, "timeout": 0}


def test_the_dead_man_fires_before_the_server_was_ever_reached() -> None:
    drive = Drive()
    drive.pass_time(1739.9)
    assert not drive.over()
    drive.pass_time(0.1)
    assert "dead man" in drive.over()


def test_the_dead_man_is_renewed_by_every_desired_answer_and_fires_without_them() -> None:
    drive = joined()
    drive.now = 90
    drive.answer("report", 200, {**ANSWER, "dead_man": 50})
    assert drive.all[-1] == a.Arm(50) or a.Arm(50) in drive.all
    drive.pass_time(49)
    assert not drive.over()
    drive.pass_time(1)
    assert "dead man" in drive.over()


def test_a_beat_alone_doesnt_renew_the_dead_man() -> None:
    drive = joined()
    while not drive.over():
        if "beat" in drive.open:
            drive.answer("beat", 200, {"version": 1})
        drive.to_wake()
    assert drive.now == 100


def test_told_to_stop_it_powers_off_and_then_does_nothing() -> None:
    drive = joined()
    drive.answer("poll", 200, want(2, "stop"))
    assert drive.all[-1] == a.PowerOff("told to stop")
    assert drive.feed(a.ScriptEnded(0, "")) == []


def test_a_signal_powers_off() -> None:
    drive = joined()
    assert drive.feed(a.Signalled("SIGTERM")) == [a.PowerOff("got SIGTERM")]


# --- booting ------------------------------------------------------------------------------------------------


def test_steps_are_reported_in_their_order_then_the_end() -> None:
    drive = joined(boot={"script": "x"})
    said = []
    drive.feed(a.StepNamed("one"))
    drive.feed(a.StepNamed("two"))
    drive.feed(a.ScriptEnded(0, ""))
    while "report" in drive.open:
        said.append(drive.open["report"].body)
        drive.answer("report", 200, ANSWER)
    phase = {"phase": "boot_script"}
    assert said == [phase, {**phase, "step": "one"}, {**phase, "step": "two"}, {"booted": True}]


def test_a_step_that_the_server_refuses_is_dropped_and_doesnt_block_the_rest() -> None:
    drive = joined(boot={"script": "x"})
    drive.answer("report", 422)
    drive.feed(a.ScriptEnded(0, ""))
    drive.to_wake()
    while "report" not in drive.open:
        drive.to_wake()
    assert drive.open["report"].body == {"booted": True}


def test_steps_that_wait_are_bounded() -> None:
    drive = joined(boot={"script": "x"})
    for number in range(1000):
        drive.feed(a.StepNamed(str(number)))
    assert len(drive.state.steps) == 100


@pytest.mark.parametrize(("code", "how"), [(3, "ended with 3"), (-9, "was killed by signal 9")])
def test_a_failed_script_is_reported_with_its_tail_until_acknowledged_and_nothing_is_attached(
    code: int, how: str
) -> None:
    drive = joined(boot={"script": "x"}, desired=want(1, "attach"))
    drive.answer("report", 200, want(1, "attach"))
    drive.feed(a.ScriptEnded(code, "the tail"))
    for status in (0, 503, 200):
        while "report" not in drive.open:
            drive.to_wake()
        assert drive.open["report"].body == {"failed": f"the boot script {how}\nthe tail"}
        drive.answer("report", status, want(1, "attach"))
    assert "report" not in drive.open and not drive.of(a.Attach)


def test_nothing_is_attached_before_the_boot_is_done() -> None:
    drive = joined(boot={"script": "x"}, desired=want(1, "attach"))
    assert not drive.of(a.Attach)
    drive.feed(a.ScriptEnded(0, ""))
    assert drive.of(a.Attach) == [a.Attach("as-1")]


# --- assignments --------------------------------------------------------------------------------------------


def test_attached_is_reported_until_acknowledged_and_then_no_more() -> None:
    drive = joined(desired=want(1, "attach"))
    drive.answer("report", 200, want(1, "attach"))
    assert "report" not in drive.open
    drive.feed(a.Moved("as-1"))
    for status in (0, 500, 200):
        while "report" not in drive.open:
            drive.to_wake()
        assert drive.open["report"].body == {"attached": "as-1"}
        drive.answer("report", status, want(1, "attach"))
    drive.pass_time(60)
    assert "report" not in drive.open


def test_while_it_attaches_it_leaves_the_next_poll_to_the_answer_of_its_report() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach"))
    assert drive.of(a.Attach) and "poll" not in drive.open
    drive.feed(a.Moved("as-1"))
    assert drive.open["report"].body == {"attached": "as-1"} and "poll" not in drive.open
    drive.answer("report", 200, want(3, "attach"))
    assert drive.open["poll"].body["known"] == 3


def test_a_report_that_gets_no_answer_holds_up_no_poll() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach"))
    drive.feed(a.Moved("as-1"))
    drive.answer("report", 503)
    assert drive.open["poll"].body["known"] == 2


def test_an_attempt_to_attach_that_hangs_is_not_deaf() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach"))
    drive.pass_time(5.0)
    drive.answer("beat", 200, {"version": 3})
    drive.answer("report", 200, want(3, "stop"))
    assert drive.over() == "told to stop"


def test_a_workspace_that_cant_be_made_is_a_failure() -> None:
    drive = joined(desired=want(1, "attach"))
    drive.answer("report", 200, want(1, "attach"))
    drive.feed(a.Ended("as-1", 126, "no space"))
    drive.feed(a.Moved(""))
    failed = {"failed": "attaching ended with 126\nno space", "failed_assignment": "as-1"}
    assert drive.open["report"].body == {"detached": "as-1", **failed}
    assert len(drive.of(a.Attach)) == 1


def test_detached_is_reported_after_the_proof_and_again_while_the_server_still_wants_it() -> None:
    drive = attached()
    drive.answer("poll", 200, want(3, "detach"))
    assert drive.of(a.Detach) == [a.Detach("as-1")] and "report" not in drive.open
    drive.feed(a.Moved(""))
    assert drive.open["report"].body == {"detached": "as-1"}
    drive.answer("report", 200, want(3, "detach"))
    assert "report" not in drive.open
    drive.pass_time(a.GRACE)
    assert drive.open["report"].body == {"detached": "as-1"}
    drive.answer("report", 200, want(4, "stay"))
    assert "report" not in drive.open and len(drive.of(a.Detach)) == 1


def test_asked_to_detach_what_it_never_held_it_says_so() -> None:
    drive = joined(desired=want(1, "detach"))
    drive.answer("report", 200, want(1, "detach"))
    assert drive.open["report"].body == {"detached": "as-1"} and not drive.of(a.Detach)


def test_another_assignment_is_attached_only_after_the_first_is_gone() -> None:
    drive = attached()
    drive.answer("poll", 200, want(3, "attach", assignment_id="as-2"))
    assert drive.of(a.Attach) == [a.Attach("as-1")] and drive.of(a.Detach) == [a.Detach("as-1")]
    drive.feed(a.Moved(""))
    assert drive.of(a.Attach)[1:] == [a.Attach("as-2")]


# --- commands -----------------------------------------------------------------------------------------------


def test_a_replayed_answer_starts_nothing_twice() -> None:
    drive = attached([order("c1")])
    for version in (2, 2, 3, 4):
        drive.pass_time(1)
        drive.answer("poll", 200, want(version, "attach", run="r", commands=[order("c1")]))
    assert [start.order["id"] for start in drive.of(a.StartCommand)] == ["c1"]


def test_not_even_after_its_end_was_acknowledged() -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "exited", 0, False, 0, None))
    drive.answer("/c1", 200)
    assert a.Forget("c1") in drive.all and not drive.state.commands
    drive.answer("poll", 200, want(3, "attach", run="r", commands=[order("c1")]))
    assert len(drive.of(a.StartCommand)) == 1


def test_commands_wait_for_their_assignment() -> None:
    drive = joined(desired=want(1, "attach", commands=[order("c1")]))
    assert not drive.of(a.StartCommand)
    drive.feed(a.Moved("as-1"))
    assert drive.of(a.StartCommand) == [a.StartCommand(order("c1"), "as-1", "")]


def test_output_goes_out_before_the_end_and_the_end_is_repeated_until_acknowledged() -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "running"))
    assert drive.open["/c1"].body == {"state": "running"}
    drive.feed(a.CommandIs("c1", "running", 10))
    drive.answer("/c1", 200)
    assert drive.open["/c1"].body == {"offset": 0}
    drive.feed(a.CommandIs("c1", "exited", 30, False, None, 9))
    drive.answer("/c1", 200, {"offset": 10})
    assert drive.open["/c1"].body == {"offset": 10}
    drive.answer("/c1", 409, {"offset": 4})
    assert drive.open["/c1"].body == {"offset": 4}
    drive.answer("/c1", 200, {"offset": 30})
    for status in (0, 500, 200):
        while "/c1" not in drive.open:
            drive.to_wake()
        assert drive.open["/c1"].body == {"state": "exited", "exit_code": None, "signal": 9, "size": 30}
        drive.answer("/c1", status)
    assert a.Forget("c1") in drive.all


def test_when_the_server_is_full_the_end_follows_at_once() -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "exited", 1000, False, 0, None))
    drive.answer("/c1", 200, {"offset": 100, "full": True})
    assert drive.open["/c1"].body["state"] == "exited"


def test_an_offset_that_doesnt_move_is_asked_for_again_but_not_at_once() -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "exited", 1000, False, 0, None))
    for status in (409, 200):
        drive.answer("/c1", status, {"offset": 0})
        assert "/c1" not in drive.open
        while "/c1" not in drive.open:
            drive.to_wake()


@pytest.mark.parametrize("status", [400, 404, 410, 413])
def test_a_command_that_the_server_wont_hear_of_is_forgotten(status: int) -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "exited", 5, True, 0, None))
    for _ in range(3):
        while "/c1" not in drive.open:
            drive.to_wake()
        drive.answer("/c1", status)
    assert a.Forget("c1") in drive.all and not drive.over() and drive.state.joined


def test_the_artifact_follows_the_output_and_precedes_the_end() -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "exited", 5, True, 0, None))
    said = []
    for body in ({"offset": 5}, {}, {}):
        said.append(drive.open["/c1"].what)
        drive.answer("/c1", 200, body)
    assert said == ["output", "artifact", "state"]


@pytest.mark.parametrize("status", [413, 507])
def test_an_artifact_that_is_not_taken_keeps_no_end_from_being_told(status: int) -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "exited", 0, True, 0, None))
    while "/c1" not in drive.open:
        drive.to_wake()
    assert drive.open["/c1"].what == "artifact"
    drive.answer("/c1", status, {})
    while "/c1" not in drive.open:
        drive.to_wake()
    assert drive.open["/c1"].what == "state"


def test_a_cancel_kills_once_softly_then_hard_until_it_ended() -> None:
    drive = attached([order("c1")])
    drive.feed(a.CommandIs("c1", "running"))
    for version in (3, 4):
        drive.answer("poll", 200, want(version, "attach", run="r", commands=[order("c1", cancel=True)]))
    assert drive.of(a.KillCommand) == [a.KillCommand("c1", hard=False)]
    drive.pass_time(a.GRACE)
    drive.pass_time(a.GRACE)
    assert drive.of(a.KillCommand)[1:] == [a.KillCommand("c1", hard=True)] * 2
    drive.feed(a.CommandIs("c1", "exited", 0, False, None, 9))
    drive.pass_time(60)
    assert len(drive.of(a.KillCommand)) == 3


def test_what_is_cancelled_before_it_began_never_starts_and_ends_as_if_killed() -> None:
    drive = attached([order("c1", cancel=True)])
    assert not drive.of(a.StartCommand)
    assert drive.open["/c1"].body == {"state": "exited", "exit_code": None, "signal": 15, "size": 0}


def test_a_timeout_counts_from_the_start_of_the_process() -> None:
    drive = attached([order("c1", timeout=10)])
    drive.pass_time(20)
    assert not drive.of(a.KillCommand)
    drive.feed(a.CommandIs("c1", "running"))
    drive.pass_time(9)
    assert not drive.of(a.KillCommand)
    drive.pass_time(1)
    assert drive.of(a.KillCommand) == [a.KillCommand("c1", hard=False)]


def test_commands_of_an_earlier_life_are_reported_and_never_started() -> None:
    drive = Drive(commands=(a.Command("c0", told="all"), a.Command("c1", phase="lost", size=3)))
    desired = want(1, "attach", commands=[order("c0"), order("c1")])
    drive.answer("join", 200, {**JOINED, "desired": desired})
    drive.feed(a.Moved("as-1"))
    assert not drive.of(a.StartCommand)
    drive.answer("/c1", 200, {"offset": 3})
    assert drive.open["/c1"].body["state"] == "lost"


def test_a_step_changes_nothing_in_the_state_it_was_given() -> None:
    drive = attached([order("c1")])
    before = drive.state
    copy = replace(before, lines=dict(before.lines), commands=dict(before.commands))
    a.step(before, a.CommandIs("c1", "exited", 5, False, 0, None), drive.now, 0.5)
    assert before == copy


# --- kits ---------------------------------------------------------------------------------------------------


def kitted(program: str = "a program") -> Drive:
    """Its program was started, and has said nothing yet."""
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach", run="r", kit=True))
    drive.answer("report", 200, {"program": program})
    drive.feed(a.Moved("as-1"))
    return drive


def test_attaching_with_a_kit_asks_for_it_and_starts_its_program() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach", run="r", kit=True))
    assert not drive.of(a.Attach)
    assert (drive.open["report"].what, drive.open["report"].body) == ("kit", {"assignment": "as-1"})
    drive.answer("report", 200, {"program": "a program"})
    assert drive.of(a.Attach) == [a.Attach("as-1", "r", "a program")]


def test_a_kit_is_asked_for_only_after_the_boot() -> None:
    boot = {"script": "true", "env": {}}
    drive = joined(boot=boot, desired=want(1, "attach", kit=True))
    assert drive.open["report"].what == "report"
    drive.answer("report", 200, want(1, "attach", kit=True))
    assert "report" not in drive.open
    drive.feed(a.ScriptEnded(0, ""))
    drive.answer("report", 200, want(2, "attach", kit=True))
    assert drive.open["report"].what == "kit"


def test_a_kit_that_cant_be_had_is_asked_for_again_while_the_poll_goes_on() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach", kit=True))
    assert drive.open["poll"].what == "desired"
    for status in (0, 409, 502, 503):
        drive.answer("report", status)
        drive.to_wake()
        while "report" not in drive.open:
            drive.answer("beat", 200, {"version": 2})
            drive.to_wake()
        assert drive.open["report"].what == "kit"
    drive.answer("poll", 200, want(3, "detach"))
    drive.answer("report", 503)
    drive.pass_time(60.0)
    assert drive.open["report"].body == {"detached": "as-1"}


def test_a_kit_that_comes_when_something_else_is_wanted_is_thrown_away() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 200, want(2, "attach", kit=True))
    drive.answer("poll", 200, want(3, "detach"))
    drive.answer("report", 200, {"program": "too late"})
    assert not drive.of(a.Attach)


def test_a_node_with_a_kit_is_attached_when_its_program_says_its_first_word() -> None:
    drive = kitted()
    assert "report" not in drive.open
    drive.feed(a.CommandIs("as-1", "running", 10))
    assert drive.open["report"].body == {"attached": "as-1"}
    drive.answer("report", 200, want(2, "attach", kit=True))
    drive.feed(a.CommandIs("as-1", "running", 20))
    assert "report" not in drive.open


def test_a_program_that_ends_by_itself_gives_the_node_back_after_the_proof() -> None:
    drive = kitted()
    drive.feed(a.CommandIs("as-1", "running", 10))
    drive.answer("report", 200, want(2, "attach", kit=True))
    drive.feed(a.Ended("as-1", 0, ""))
    assert drive.of(a.Detach) == [a.Detach("as-1")] and "report" not in drive.open
    drive.feed(a.Moved(""))
    assert drive.open["report"].body == {"detached": "as-1"}
    drive.answer("report", 200, want(3, "detach"))
    drive.pass_time(a.GRACE)
    assert drive.open["report"].body == {"detached": "as-1"}
    assert len(drive.of(a.Attach)) == 1, "what has ended is never begun again"


def test_a_program_that_fails_is_told_with_its_last_words() -> None:
    drive = kitted()
    drive.feed(a.Ended("as-1", 1, "no such runner"))
    drive.feed(a.Moved(""))
    failed = {"failed": "attaching ended with 1\nno such runner", "failed_assignment": "as-1"}
    assert drive.open["report"].body == {"detached": "as-1", **failed}


def test_a_failure_is_told_of_its_own_assignment_only() -> None:
    drive = kitted()
    drive.feed(a.Ended("as-1", 1, "no such runner"))
    drive.feed(a.Moved(""))
    drive.answer("report", 200, want(4, "attach", kit=True, assignment_id="as-2"))
    drive.answer("report", 200, {"program": "another"})
    drive.feed(a.Moved("as-2"))
    drive.answer("poll", 200, want(5, "detach", assignment_id="as-2"))
    drive.feed(a.Moved(""))
    assert drive.open["report"].body == {"detached": "as-2"}


def test_the_agent_keeps_no_kit() -> None:
    drive = kitted(program="a secret")
    assert "a secret" not in repr(drive.state)
