from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.diagnosis import Bundle, Cause, Diagnosis, Section, Source
from muster.domain.diagnosis_rules import (
    ADVICE,
    AFTER_IT,
    NEAR,
    NOT_STARTED,
    UNREACHABLE_AFTER,
    UNREACHABLE_TRIES,
    classify,
    fatal_sign,
    reason_of,
)
from muster.domain.ids import NodeId
from muster.domain.reasons import ADVICE as REASON_ADVICE
from muster.domain.reasons import ENDINGS, Reason
from muster.domain.symptoms import DEPTH, PASSED, TROUBLE, lines_of

CONSOLES = Path(__file__).parent / "consoles"
SERVER = "muster.internal.example"


def bundle(
    console: str = "", *, reason: Reason | None = Reason.BOOT_TIMEOUT, detail: str = "", **others: str
) -> Bundle:
    sections = [Section(name=Source(name), text=text) for name, text in others.items()]
    if console:
        sections.append(Section(name=Source.CONSOLE, text=console))
    return Bundle(
        node_id=NodeId("nd-1"), collected_at=1.0, reason=reason, detail=detail, sections=tuple(sections)
    )


def read(name: str) -> str:
    return (CONSOLES / f"{name}.log").read_text()


def watched_sign(
    console: str, *, joined: bool = False, watched: float = UNREACHABLE_AFTER
) -> Diagnosis | None:
    return fatal_sign(console, joined=joined, watched=watched, control_plane=[SERVER])


@dataclass(frozen=True, slots=True)
class Row:
    fixture: str
    cause: Cause
    proof: str
    """Stands in the line that is the evidence, and in no other of the same kind after it."""
    reason: Reason = Reason.BOOT_TIMEOUT
    says: str = ""
    early: bool = True
    """The boot watcher may say so while the node boots."""
    advice: str = ""
    """Where it isn't the cause's usual one."""


FAILED = [
    Row("al2023_set_e", Cause.SCRIPT_FAILED, "+ jq -r .runtime", says="in `jq -r .runtime.version"),
    Row(
        "ubuntu_command_not_found",
        Cause.SCRIPT_FAILED,
        "line 14: yq",
        says="at line 14 in `yq`: exit status 127",
    ),
    Row("ubuntu_package_missing", Cause.PACKAGE_INSTALL, "Unable to locate package dokcer.io", says="line 6"),
    Row("dnf_no_match", Cause.PACKAGE_INSTALL, "Unable to find a match: python3.13"),
    Row("image_pull_denied", Cause.IMAGE_PULL, "pull access denied"),
    Row("image_pull_disk_full", Cause.DISK_FULL, "no space left on device"),
    Row("apt_dns", Cause.DNS, "resolving 'security.ubuntu.com'"),
    Row("no_route", Cause.NO_ROUTE, "after 3073 ms: No route to host"),
    Row("connection_refused", Cause.NO_ROUTE, "Connection refused", early=False),
    Row("kernel_panic", Cause.KERNEL_PANIC, "Kernel panic - not syncing: VFS"),
    Row(
        "oom_kills_the_script",
        Cause.OUT_OF_MEMORY,
        "Killed process 2210",
        says="line 9 in `make -j16 install`",
    ),
    Row("agent_turned_away", Cause.REGISTRATION_REFUSED, "turned away (403)", Reason.MACHINE_GONE),
    Row("agent_gone_410", Cause.REGISTRATION_REFUSED, "turned away (410)", Reason.MACHINE_GONE),
    Row(
        "agent_pip", Cause.PACKAGE_INSTALL, "No matching distribution", Reason.BOOT_SCRIPT_FAILED, early=False
    ),
    Row(
        "agent_traceback",
        Cause.SCRIPT_FAILED,
        "KeyError: 'region'",
        Reason.BOOT_SCRIPT_FAILED,
        says="""at line 23 in `region = settings["region"]`: exit status 1, KeyError: 'region'""",
        early=False,
    ),
    Row(
        "agent_dash",
        Cause.SCRIPT_FAILED,
        "boot: 7: cannot open",
        Reason.BOOT_SCRIPT_FAILED,
        says="at line 7 in `cannot open /etc/acme/tools.list`: exit status 2, No such file",
        early=False,
    ),
    Row(
        "agent_signal",
        Cause.SCRIPT_FAILED,
        "still warming",
        Reason.BOOT_SCRIPT_FAILED,
        says="killed by signal 15",
        early=False,
        advice=AFTER_IT,
    ),
    Row(
        "agent_unstarted",
        Cause.SCRIPT_FAILED,
        "no interpreter: #!/opt/acme/bin/bash",
        Reason.BOOT_SCRIPT_FAILED,
        says="exit status 127",
        early=False,
        advice=NOT_STARTED,
    ),
    Row(
        "agent_enospc",
        Cause.DISK_FULL,
        "printf: write error",
        Reason.BOOT_SCRIPT_FAILED,
        says="line 5",
        early=False,
    ),
    Row("hung", Cause.STALLED, "waiting for licence server", Reason.BOOT_STALLED, early=False),
    Row("user_data_not_run", Cause.AGENT_NEVER_STARTED, "Unhandled non-multipart"),
    Row("survived_dns_then_failed", Cause.SCRIPT_FAILED, "line 31: TOOLCHAIN", says="unbound variable"),
    Row("tls_proxy", Cause.TLS, "SSL certificate problem", Reason.BOOT_SCRIPT_FAILED, early=False),
]
HEALTHY = sorted(path.stem for path in CONSOLES.glob("healthy_*.log"))


def test_every_console_is_in_the_table() -> None:
    assert sorted([row.fixture for row in FAILED] + HEALTHY) == sorted(
        path.stem for path in CONSOLES.glob("*.log")
    )
    assert len(HEALTHY) >= 5


@pytest.mark.parametrize("row", FAILED, ids=lambda row: row.fixture)
def test_a_failed_boot_is_told_by_its_cause_and_the_line_that_proves_it(row: Row) -> None:
    console = read(row.fixture)
    told = classify(bundle(console, reason=row.reason))
    assert told.cause is row.cause, told
    assert told.evidence is not None and told.evidence.section is Source.CONSOLE
    assert row.proof in told.evidence.text, told.evidence
    assert row.proof in console.split("\n")[told.evidence.line - 1]
    assert row.says in told.summary, told.summary
    assert told.advice == (row.advice or ADVICE[row.cause])


@pytest.mark.parametrize("row", FAILED, ids=lambda row: row.fixture)
def test_the_boot_watcher_hears_only_of_what_cannot_succeed(row: Row) -> None:
    early = watched_sign(read(row.fixture))
    assert (early is not None) is row.early
    if early is not None:
        assert early.cause is row.cause and early.evidence is not None and row.proof in early.evidence.text


@pytest.mark.parametrize("fixture", HEALTHY)
def test_a_healthy_boot_full_of_scary_lines_shows_no_fatal_sign(fixture: str) -> None:
    console = read(fixture)
    for joined in (False, True):
        assert watched_sign(console, joined=joined, watched=1e6) is None


@pytest.mark.parametrize("fixture", HEALTHY)
def test_no_beginning_of_a_healthy_boot_shows_a_fatal_sign(fixture: str) -> None:
    lines = read(fixture).split("\n")
    for count in range(len(lines)):
        early = watched_sign("\n".join(lines[:count]), watched=1e6)
        assert early is None, (count, early)


@pytest.mark.parametrize("fixture", [name for name in HEALTHY if "panic" not in name and "other" not in name])
def test_a_healthy_boot_that_ran_out_of_time_is_not_blamed_on_its_scary_lines(fixture: str) -> None:
    told = classify(bundle(read(fixture), reason=Reason.BOOT_TIMEOUT, phases="launch 9 s\njoined 300 s"))
    assert told.cause is Cause.SLOW and not told.fatal
    assert told.evidence is not None and told.evidence.section is Source.PHASES


# --- without a telling line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "cause", "fatal"),
    [
        *((reason, Cause.MACHINE_GONE, True) for reason in ENDINGS),
        (Reason.BOOT_SCRIPT_FAILED, Cause.SCRIPT_FAILED, True),
        (Reason.BOOT_STALLED, Cause.STALLED, False),
        (Reason.BOOT_TIMEOUT, Cause.AGENT_NEVER_STARTED, False),
        (Reason.OPERATOR, Cause.UNKNOWN, False),
        (None, Cause.UNKNOWN, False),
    ],
)
def test_an_empty_bundle_is_told_by_its_reason_and_no_evidence(
    reason: Reason | None, cause: Cause, fatal: bool
) -> None:
    told = classify(bundle(reason=reason, detail="720 s in created"))
    assert (told.cause, told.fatal, told.evidence) == (cause, fatal, None)
    assert "720 s in created" in told.summary


def test_a_machine_that_its_provider_ended_for_a_reason_comes_with_advice_for_that() -> None:
    assert classify(bundle(reason=Reason.QUOTA)).advice == REASON_ADVICE[Reason.QUOTA]
    assert "manual deletion" in classify(bundle(reason=Reason.MACHINE_GONE)).advice


def test_a_machine_that_is_gone_is_proven_by_its_providers_word() -> None:
    told = classify(bundle("booting", reason=Reason.MACHINE_GONE, provider="id: m-1\nstate: gone"))
    assert told.evidence is not None
    assert (told.evidence.section, told.evidence.line, told.evidence.text) == (
        Source.PROVIDER,
        2,
        "state: gone",
    )


def test_the_agents_own_words_count_when_there_is_no_console() -> None:
    told = classify(bundle(agent=read("agent_pip"), reason=Reason.BOOT_SCRIPT_FAILED))
    assert told.cause is Cause.PACKAGE_INSTALL
    assert told.evidence is not None and told.evidence.section is Source.AGENT


# --- the rules one by one -----------------------------------------------------------------------------------

ENDED = "cloud-init[1]: x - subp.py[WARNING]: Failed running /var/lib/cloud/instance/scripts/part-001 [1]"
MODULE = "cloud-init[1]: x - cc_scripts_user.py[WARNING]: Failed to run module scripts_user (scripts in /var)"
FULL = "cp: error writing 'x': No space left on device"


@pytest.mark.parametrize("cause", [cause for cause in DEPTH if cause is not Cause.OUT_OF_MEMORY])
def test_trouble_that_passed_is_not_blamed(cause: Cause) -> None:
    trouble, passed = SAMPLES[cause]
    assert TROUBLE[cause].search(trouble) and PASSED[cause].search(passed)
    before = classify(bundle(trouble, reason=Reason.BOOT_STALLED))
    after = classify(bundle(f"{trouble}\n{passed}", reason=Reason.BOOT_STALLED))
    assert (before.cause, after.cause) == (cause, Cause.STALLED)


SAMPLES = {
    Cause.KERNEL_PANIC: ("[ 2.0] Kernel panic - not syncing: x", "[ 0.0] Linux version 6.1"),
    Cause.REGISTRATION_REFUSED: ("stopping: turned away (403): x", "2026-01-01T00:00:00Z joined as nd-1"),
    Cause.DISK_FULL: (FULL, "Complete!"),
    Cause.DNS: ("curl: (6) Could not resolve host: a.example", "Fetched 31.2 MB in 5s"),
    Cause.TLS: ("curl: (60) SSL certificate problem: x", "Successfully installed a-1.0"),
    Cause.NO_ROUTE: ("connect: No route to host", "Get:4 http://a.example x"),
    Cause.IMAGE_PULL: ("manifest unknown: manifest unknown", "Status: Downloaded newer image for a:1"),
    Cause.PACKAGE_INSTALL: ("E: Unable to locate package a", "Setting up a (1.0) ..."),
    Cause.AGENT_NEVER_STARTED: ("muster: cannot start the agent: x", "2026-01-01T00:00:00Z joined as nd-1"),
}


def test_a_step_named_after_trouble_shows_that_the_script_went_on() -> None:
    step = "2026-01-01T00:00:00Z step: next"
    assert classify(bundle(f"{FULL}\n{step}", reason=Reason.BOOT_STALLED)).cause is Cause.STALLED
    assert classify(bundle(f"{step}\n{FULL}", reason=Reason.BOOT_STALLED)).cause is Cause.DISK_FULL


def test_a_line_that_only_came_last_is_not_told_to_be_the_wrong_one() -> None:
    told = classify(bundle(f"fetched all\n{ENDED}"))
    assert told.evidence is not None and told.evidence.text == "fetched all"
    assert told.advice.startswith("this is its last output")
    named = classify(bundle(f"/boot.sh: line 3: frob: command not found\n{ENDED}"))
    assert named.advice.startswith("fix that line")


def test_trouble_counts_only_near_the_end() -> None:
    near, far = ["going on"] * (NEAR - 1), ["going on"] * NEAR
    assert classify(bundle("\n".join([FULL, *near]), reason=Reason.BOOT_STALLED)).cause is Cause.DISK_FULL
    assert classify(bundle("\n".join([FULL, *far]), reason=Reason.BOOT_STALLED)).cause is Cause.STALLED
    assert classify(bundle("\n".join([FULL, *near, ENDED]))).cause is Cause.DISK_FULL
    assert classify(bundle("\n".join([FULL, *far, ENDED]))).cause is Cause.SCRIPT_FAILED


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("wget: unable to resolve host address 'mirror.example'", Cause.DNS),
        ("wget: bad address 'mirror.example'", Cause.DNS),
        ("java.net.UnknownHostException: mirror.example", Cause.DNS),
        ("  left-pad (no such package):", Cause.PACKAGE_INSTALL),
        ("No package left-pad available.", Cause.PACKAGE_INSTALL),
        (
            "Error: initializing source docker://x: reading manifest v1 in registry.example/x: unauthorized",
            Cause.IMAGE_PULL,
        ),
    ],
)
def test_each_tool_has_its_own_words_for_the_same_trouble(line: str, cause: Cause) -> None:
    assert classify(bundle(f"{line}\n{ENDED}")).cause is cause


@pytest.mark.parametrize(
    "line",
    [
        "PASSED test_disk::No space left on device handled",
        "--- PASS: TestNoSpace (0.00s) No space left on device",
        "ok 12 - reports No space left on device",
        "+ grep 'No space left on device' /var/log/messages",
        "cloud-init[1]: ++ echo 'No space left on device'",
    ],
)
def test_trouble_that_is_only_spoken_of_is_not_blamed(line: str) -> None:
    assert classify(bundle(f"{line}\nassertion failed\n{ENDED}")).cause is Cause.SCRIPT_FAILED


@pytest.mark.parametrize(
    ("line", "dead"),
    [
        ("systemd[1]: Entering emergency mode. Exit the shell to continue.", True),
        ("You are in emergency mode. After logging in, type journalctl -xb", True),
        ("+ grep 'Entering emergency mode. Exit' /var/log/messages", False),
        ("boot.sh: looking for Entering emergency mode in the log", False),
        ("boot.sh: drill: You are in emergency mode now", False),
    ],
)
def test_an_emergency_counts_in_the_system_s_own_words(line: str, dead: bool) -> None:
    assert (watched_sign(line, joined=True) is not None) == dead


def test_a_deeper_cause_is_blamed_before_what_it_led_to() -> None:
    lines = [SAMPLES[cause][0] for cause in (Cause.DNS, Cause.PACKAGE_INSTALL)]
    for order in (lines, lines[::-1]):
        assert classify(bundle("\n".join([*order, ENDED]))).cause is Cause.DNS


def test_a_failed_script_is_no_sign_until_all_parts_have_run_and_none_once_the_agent_runs() -> None:
    assert watched_sign(f"{FULL}\n{ENDED}") is None
    sign = watched_sign(f"{FULL}\n{ENDED}\n{MODULE}")
    assert sign is not None and sign.cause is Cause.DISK_FULL and sign.fatal
    assert watched_sign(f"Started muster-agent.service\n{FULL}\n{ENDED}\n{MODULE}") is None
    assert watched_sign(f"{FULL}\n{ENDED}\n{MODULE}", joined=True) is None


def test_a_panic_counts_whether_or_not_the_node_joined_but_not_while_the_machine_reboots() -> None:
    panic = SAMPLES[Cause.KERNEL_PANIC][0]
    halted = "[ 2.1] ---[ end Kernel panic - not syncing: x ]---"
    assert watched_sign(f"{panic}\n{halted}", joined=True) is not None
    assert watched_sign(panic) is None
    assert watched_sign(f"{panic}\n[ 2.0] Rebooting in 10 seconds..") is None


def test_memory_that_another_process_wanted_is_blamed_only_if_the_agent_stays_silent() -> None:
    killed = "[ 118.2] Out of memory: Killed process 1811 (node-exporter) total-vm:812004kB"
    system = "[ 118.9] systemd[1]: node-exporter.service: Main process exited, code=killed, status=9/KILL"
    assert classify(bundle(f"x\n{killed}\n{system}", reason=Reason.BOOT_STALLED)).cause is Cause.OUT_OF_MEMORY
    spoke = f"x\n{killed}\n{system}\n[ 119.0] cloud-init[1]: going on"
    assert classify(bundle(spoke, reason=Reason.BOOT_STALLED)).cause is Cause.STALLED
    assert classify(bundle(f"{spoke}\n{ENDED}")).cause is Cause.SCRIPT_FAILED
    assert classify(bundle(f"{spoke}\n{ENDED.replace('[1]', '[137]')}")).cause is Cause.OUT_OF_MEMORY


def test_a_control_plane_out_of_reach_needs_many_tries_and_a_server_that_was_there() -> None:
    one = f"curl: (7) Failed to connect to {SERVER} port 443: No route to host"
    many = "\n".join([one] * UNREACHABLE_TRIES)
    sign = watched_sign(many)
    assert sign is not None and reason_of(sign) is Reason.BOOT_STALLED
    assert watched_sign("\n".join([one] * (UNREACHABLE_TRIES - 1))) is None
    assert watched_sign(many, watched=UNREACHABLE_AFTER - 1) is None
    for other in ("elsewhere.example", f"{SERVER}.mirror", f"not-{SERVER}", f"x.{SERVER}"):
        assert watched_sign(many.replace(SERVER, other)) is None
    for spelled in (f"https://{SERVER}/api", f"{SERVER}:443", f"'{SERVER}'", f"{SERVER}."):
        assert watched_sign(many.replace(SERVER, spelled)) is not None
    assert watched_sign(many + "\nHTTP/1.1 200 OK") is None


def test_the_reason_fits_the_sign() -> None:
    def reason(console: str) -> Reason:
        sign = watched_sign(console)
        assert sign is not None
        return reason_of(sign)

    assert reason(read("kernel_panic")) is Reason.MACHINE_GONE
    assert reason(read("dnf_no_match")) is Reason.BOOT_SCRIPT_FAILED
    assert reason(read("apt_dns")) is Reason.BOOT_SCRIPT_FAILED


def test_colours_and_progress_bars_hide_nothing() -> None:
    (line,) = lines_of(Source.CONSOLE, "10%\r50%\r\x1b[31mE: Unable to locate package a\x1b[0m\r")
    assert line.text == "E: Unable to locate package a"


def test_every_cause_has_advice_and_every_trouble_a_way_to_pass() -> None:
    assert set(ADVICE) == set(Cause)
    assert set(TROUBLE) == set(PASSED) == set(DEPTH)


fragments = st.sampled_from(
    [line for row in FAILED for line in read(row.fixture).split("\n")]
    + ["", "x" * 50, "\x1b[", '"', "line 3: "]
)


@given(st.lists(fragments, max_size=30), st.sampled_from([None, *Reason]))
def test_whatever_was_collected_there_is_a_diagnosis_and_its_evidence_is_there(
    lines: list[str], reason: Reason | None
) -> None:
    console = "\n".join(lines)
    told = classify(bundle(console, reason=reason))
    assert told.summary.endswith(".") and "\n" not in told.summary
    if told.evidence is not None:
        assert told.evidence.text in console.split("\n")[told.evidence.line - 1]
    assert watched_sign(console, joined=True) is None or "anic" in console


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    classify(bundle(text))
    watched_sign(text)
