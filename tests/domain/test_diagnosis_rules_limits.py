"""The words and the weighing of a diagnosis, rule by rule."""

import pytest

from muster.domain.diagnosis import Cause, Diagnosis, Source
from muster.domain.diagnosis_rules import UNREACHABLE_AFTER, UNREACHABLE_TRIES, classify, fatal_sign
from muster.domain.reasons import Reason
from tests.domain.test_diagnosis_rules import FULL, MODULE, SERVER, bundle, watched_sign

STAMP = "2026-01-01T00:00:00Z"
KERNEL = "[ 9.0] oom-kill:constraint=CONSTRAINT_NONE,task=node-exporter,pid=1811"
MEMORY = "bash: fork: Cannot allocate memory"
PACKAGE = "E: Unable to locate package jq"


def ended(code: int = 1) -> str:
    return f"cloud-init[1]: Failed running /var/lib/cloud/instance/scripts/part-001 [{code}]"


def told(*lines: str, reason: Reason = Reason.BOOT_SCRIPT_FAILED, detail: str = "") -> Diagnosis:
    return classify(bundle("\n".join(lines), reason=reason, detail=detail))


def proof(diagnosis: Diagnosis | None) -> str | None:
    return None if diagnosis is None or diagnosis.evidence is None else diagnosis.evidence.text


# --- how a failed script is told ------------------------------------------------------------------


def test_a_script_that_says_where_is_told_with_line_command_and_words() -> None:
    found = told("setting up", "/opt/part-001: line 7: jqq: command not found.", ended(127))
    assert found.summary == ("The boot script failed at line 7 in `jqq`: exit status 127, command not found.")
    assert (found.cause, found.fatal) == (Cause.SCRIPT_FAILED, True)


def test_a_script_that_says_nothing_is_told_by_its_status_and_its_last_line() -> None:
    found = told("setting up", "one more", "going on", " ", ended())
    assert (found.summary, proof(found)) == ("The boot script failed: exit status 1.", "going on")


def test_a_script_without_any_words_is_proven_by_the_line_that_ended_it() -> None:
    assert proof(told(ended())) == ended()


def test_a_traced_command_has_no_number_and_no_words() -> None:
    assert told("+ make all", ended()).summary == "The boot script failed in `make all`: exit status 1."


def test_an_error_of_python_without_a_frame_has_words_alone() -> None:
    found = told("ValueError: no such thing", ended())
    assert found.summary == "The boot script failed: exit status 1, ValueError: no such thing."


def test_long_commands_and_words_are_cut() -> None:
    found = told(f"/opt/part-001: line 7: {'c' * 121}: {'w' * 201}", ended())
    assert found.summary == (
        f"The boot script failed at line 7 in `{'c' * 120}`: exit status 1, {'w' * 200}."
    )


def test_words_that_end_like_a_sentence_are_not_ended_twice() -> None:
    assert told("/opt/x: line 7: cp: no X..", ended()).summary.endswith("exit status 1, no X.")


# --- what ended it --------------------------------------------------------------------------------


def test_a_process_that_was_killed_for_memory_is_the_machine_s_want_of_it() -> None:
    said = "/opt/part-001: line 7:  1234 Killed                  make all"
    found = told(KERNEL, said, ended())
    assert found.cause is Cause.OUT_OF_MEMORY
    assert found.summary == (
        "The machine ran out of memory; the boot script ended at line 7 in `make all`: exit status 1."
    )


def test_a_process_that_failed_beside_a_killed_one_failed_by_itself() -> None:
    found = told(KERNEL, "/opt/part-001: line 7: jqq: command not found", ended())
    assert found.cause is Cause.SCRIPT_FAILED


def test_the_script_s_own_want_of_memory_is_its_trouble_and_the_kernel_s_word_is_not() -> None:
    assert told(MEMORY, ended()).cause is Cause.OUT_OF_MEMORY
    assert told(KERNEL, "going on", ended()).cause is Cause.SCRIPT_FAILED
    assert told(KERNEL, PACKAGE, ended()).cause is Cause.PACKAGE_INSTALL


def test_trouble_before_a_place_without_words_counts() -> None:
    assert told(PACKAGE, "+ make all", ended()).cause is Cause.PACKAGE_INSTALL


def test_an_agent_that_speaks_right_after_a_kill_shows_that_it_was_another_process() -> None:
    assert told(KERNEL, "going on", reason=Reason.BOOT_STALLED).cause is Cause.STALLED
    assert told(KERNEL, "", reason=Reason.BOOT_STALLED).cause is Cause.OUT_OF_MEMORY


def test_what_the_line_of_the_end_itself_says_is_not_among_the_last_words() -> None:
    assert told("going on", f"{ended()} {FULL}").cause is Cause.SCRIPT_FAILED


def test_trouble_without_an_end_is_told_alone_and_may_pass() -> None:
    found = told(FULL, reason=Reason.BOOT_STALLED)
    assert (found.summary, found.fatal) == ("The disk is full.", False)


# --- signs while it boots -------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["Started Muster agent.", "Started muster-agent.service"])
def test_a_script_that_failed_under_a_running_agent_is_no_sign(agent: str) -> None:
    lines = [FULL, ended(), MODULE]
    assert watched_sign("\n".join(lines)) is not None
    assert watched_sign("\n".join([agent, *lines])) is None


def test_a_console_that_tells_of_the_join_counts_as_joined() -> None:
    lines = [f"{STAMP} joined as nd-1", FULL, ended(), MODULE]
    assert watched_sign("\n".join(lines)) is None
    assert watched_sign("\n".join(lines[1:])) is not None


@pytest.mark.parametrize(
    "one",
    [
        f"curl: (6) Could not resolve host: {SERVER}",
        f"connect to {SERVER}: No route to host",
        f"connect to {SERVER}: Connection timed out",
    ],
)
def test_no_name_and_no_way_are_both_out_of_reach(one: str) -> None:
    many = "\n".join([one] * UNREACHABLE_TRIES)
    others = (SERVER, "other.example")
    sign = fatal_sign(many, joined=False, watched=UNREACHABLE_AFTER, control_plane=others)
    assert sign is not None
    assert not sign.fatal


@pytest.mark.parametrize(
    "one", [f"connect to {SERVER}: Connection refused", f"{SERVER}: SSL certificate problem: expired"]
)
def test_a_server_that_answers_badly_is_not_out_of_reach(one: str) -> None:
    assert watched_sign("\n".join([one] * UNREACHABLE_TRIES)) is None


# --- by its reason --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "summary"),
    [
        (Reason.MACHINE_GONE, "The machine is gone"),
        (Reason.BOOT_SCRIPT_FAILED, "The boot script failed"),
        (Reason.BOOT_STALLED, "The boot stopped advancing"),
        (Reason.BOOT_TIMEOUT, "The agent never reached the control plane"),
        (Reason.OPERATOR, "The collected evidence shows no cause"),
    ],
)
@pytest.mark.parametrize("detail", ["", "720 s in created"])
def test_a_reason_is_told_with_its_detail_if_there_is_one(reason: Reason, summary: str, detail: str) -> None:
    found = classify(bundle("going on", reason=reason, detail=detail))
    assert found.summary == (f"{summary}: {detail}." if detail else f"{summary}.")
    assert proof(found) == "going on"


def test_a_boot_that_joined_and_took_too_long_was_slow_whatever_tells_of_the_join() -> None:
    joined = f"{STAMP} joined as nd-1"
    assert classify(bundle(f"{joined}\ngoing on")).cause is Cause.SLOW
    assert classify(bundle("going on", phases="joined 3 s")).cause is Cause.SLOW
    assert classify(bundle("going on", phases="launch 3 s")).cause is Cause.AGENT_NEVER_STARTED


@pytest.mark.parametrize("section", [Source.CONSOLE, Source.AGENT, Source.PHASES])
def test_the_last_words_of_any_section_are_evidence(section: Source) -> None:
    texts = {str(section): "one\ntwo\n \n"}
    found = classify(bundle(texts.pop("console", ""), reason=Reason.BOOT_STALLED, **texts))
    assert found.evidence is not None
    assert (found.evidence.section, found.evidence.line, found.evidence.text) == (section, 2, "two")
