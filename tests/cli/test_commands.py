import json
import re
import signal
from pathlib import Path

import pytest

from muster.integrations.process.demo_site import Site
from tests.cli.terminal import Terminal
from tests.e2e.site import until

CONTROL = "\033"
CODES = re.compile("\033\\[[0-9;?]*[A-Za-z]")


def test_provision_exec_logs_extend_release(terminal: Terminal) -> None:
    ready = terminal.typed("provision", "--template", "small", "--count", "2", "--run", "ci-42")
    assert ready.code == 0, ready.err
    assert "Step 5/5 · Nodes ready" in ready.out and "✔ 2 nodes ready for ci-42 in" in ready.out
    assert CONTROL not in ready.out + ready.err

    program = 'echo "$MUSTER_RUN $MUSTER_INDEX of $MUSTER_COUNT"; exit "$MUSTER_INDEX"'
    done = terminal.typed("exec", "ci-42", "--", "sh", "-c", program)
    assert sorted(done.out.splitlines()) == ["[0] ci-42 0 of 2", "[1] ci-42 1 of 2"]
    assert done.code == 1
    assert done.err.startswith("[1] exit 1 on node-")

    assert sorted(terminal.muster("logs", "ci-42").out.splitlines()) == sorted(done.out.splitlines())
    assert "2 nodes of ci-42: 30m 00s more" in terminal.muster("extend", "ci-42", "--by", "30m").out

    back = terminal.muster("release", "ci-42")
    assert back.code == 0 and "✔ all nodes are back" in back.out
    again = terminal.muster("release", "ci-42")
    assert again.code == 0 and "✔ already released: no nodes are held any more" in again.out
    assert terminal.muster("exec", "ci-42", "--", "true").code == 2


def test_json_is_one_document_with_the_same_names_as_the_api(terminal: Terminal) -> None:
    ready = terminal.muster("provision", "-t", "small", "--run", "as-json", "--output", "json")
    assert ready.code == 0
    operation = ready.json
    assert (operation["status"], operation["run"], len(operation["members"])) == ("succeeded", "as-json", 1)
    name = operation["operation_id"]

    done = terminal.muster("exec", name, "-o", "json", "--", "sh", "-c", "echo out; exit 7")
    assert done.code == 7
    assert (done.json["exit_code"], done.json["commands"][0]["output"]) == (7, "out\n")

    nodes = terminal.muster("nodes", "-o", "json").json["items"]
    node = next(each for each in nodes if each["run"] == "as-json")
    assert terminal.muster("nodes", "show", node["id"], "-o", "json").json["state"] == "running"
    assert terminal.muster("--version").code == 0
    for words in (("pools",), ("templates",), ("templates", "show", "small"), ("operations",), ("tokens",)):
        assert terminal.muster(*words, "--output", "json").json
    assert terminal.muster("operations", "show", name, "-o", "json").json["operation_id"] == name
    assert terminal.muster("operations", "why", "as-json", "-o", "json").json["waits_for"]
    watched = terminal.muster("operations", "watch", name, "-o", "json")
    assert [line["status"] for line in watched.lines][-1] == "succeeded"
    percents = [line["percent"] for line in watched.lines if line["percent"] is not None]
    assert percents == sorted(percents)
    events = terminal.muster("events", "--of", node["id"], "-o", "json").lines
    assert events[0]["name"] == "adopt"
    assert terminal.muster("release", "as-json", "-o", "json").json["kind"] == "release"


def test_text_of_everything_that_can_be_looked_at(terminal: Terminal) -> None:
    for words in (
        ("nodes",),
        ("nodes", "list"),
        ("pools",),
        ("templates",),
        ("templates", "show", "small"),
        ("operations",),
        ("operations", "list", "--kind", "provision"),
        ("commands",),
        ("events", "--last", "3"),
        ("tokens", "list"),
    ):
        said = terminal.muster(*words)
        assert (said.code, said.err) == (0, ""), words
        assert said.out and CONTROL not in said.out


def test_run_sends_a_tree_streams_output_and_brings_results_back(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("sent\n")
    words = ("run", "-t", "small", "--count", "2", "--sync", str(tmp_path), "--get", "result.txt")
    done = terminal.muster(*words, "--", "sh", "-c", "cat input.txt; echo $MUSTER_INDEX > result.txt")
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()) == ["[0] sent", "[1] sent"]
    assert "✔ 2 of 2 succeeded" in done.err
    results = terminal.directory / "muster-results"
    assert [(results / str(n) / "result.txt").read_text() for n in (0, 1)] == ["0\n", "1\n"]


def test_output_of_a_run_comes_while_its_command_runs_and_after_its_step(terminal: Terminal) -> None:
    words = ("run", "-t", "small", "--run", "streamed", "--", "sh", "-c", "echo first; sleep 4; echo last")
    with terminal.started(words) as client:
        assert client.stdout is not None and client.stderr is not None
        assert client.stdout.readline() == "[0] first\n"
        (command,) = terminal.muster("commands", "--run", "streamed", "-o", "json").json["items"]
        assert command["state"] == "running"
        assert client.stdout.read() == "[0] last\n"
        told = client.stderr.read()
    assert "Step 5/7 · Running the commands · 0m 0" in told and "Step 6/7" in told
    run = command["id"].rpartition(".")[0]
    steps = terminal.muster("events", "--of", run, "-o", "json").lines
    began = [each["at"] for each in steps if each["changes"].get("step") == 5]
    assert min(began) <= command["started_at"]


def test_run_exits_with_the_worst_code_and_gives_the_nodes_back(terminal: Terminal) -> None:
    words = ("run", "-t", "small", "-n", "2", "--run", "worst", "-o", "json", "--")
    done = terminal.muster(*words, "sh", "-c", "exit $((MUSTER_INDEX * 5))")
    assert done.code == 5 == done.json["exit_code"]
    ended = done.json["operation"]
    assert (ended["status"], ended["result"], ended["error"]["reason"]) == (
        "failed",
        "exit 5",
        "command_failed",
    )
    assert ended["error"]["message"] == "1 of 2 commands failed: exit 5 on [1]"
    failed = terminal.muster("operations", "list", "--status", "failed", "-o", "json").json["items"]
    assert ended["operation_id"] in [each["operation_id"] for each in failed]
    nodes = terminal.muster("nodes", "-o", "json").json["items"]
    assert not [node for node in nodes if node["run"] == "worst" and node["state"] == "running"]


def test_what_is_missing_on_a_node_is_named_and_the_rest_comes_back(terminal: Terminal) -> None:
    words = (
        "run",
        "-t",
        "small",
        "-n",
        "2",
        "--get",
        "a",
        "--get",
        "b",
        "--get",
        "out/c",
        "--results",
        "partly",
    )
    done = terminal.muster(
        *words, "--", "sh", "-c", "echo 1 > a; [ $MUSTER_INDEX = 0 ] || echo 2 > b; echo said"
    )
    assert done.code == 1
    assert sorted(done.out.splitlines()) == ["[0] said", "[1] said"]
    assert [line for line in done.err.splitlines() if "did not bring back" in line] == [
        "[0] did not bring back b: there is no such path in its workspace",
        "[0] did not bring back out/c: there is no such path in its workspace",
        "[1] did not bring back out/c: there is no such path in its workspace",
    ]
    place = terminal.directory / "partly"
    assert sorted(str(each.relative_to(place)) for each in place.rglob("*")) == [
        "0",
        "0/a",
        "1",
        "1/a",
        "1/b",
    ]

    told = terminal.muster(
        "run", "-t", "small", "--get", "b", "--results", "none", "-o", "json", "--", "true"
    )
    assert told.code == 1 == told.json["exit_code"]
    assert told.json["missing"] == [{"ordinal": 0, "path": "b"}] and told.json["results"] == []
    assert not (terminal.directory / "none").exists()


def test_results_of_an_earlier_run_never_pass_for_new_ones(terminal: Terminal) -> None:
    words = ("run", "-t", "small", "--get", "out.xml", "--results", "again")
    place = terminal.directory / "again"
    assert terminal.muster(*words, "-n", "2", "--", "touch", "out.xml").code == 0
    assert (place / "0" / "out.xml").exists()
    done = terminal.muster(*words, "--", "true")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("✖ 1 of 1 succeeded in ")
    assert done.err.splitlines()[-1].endswith("s, but results are missing")
    assert "again/1 is not of this run" in done.err
    assert [str(each.relative_to(place)) for each in place.rglob("*")] == ["1", "1/out.xml"]


def test_a_run_that_is_watched_ends_as_it_would_have_for_its_starter(terminal: Terminal) -> None:
    left = terminal.muster(
        "run", "-t", "small", "-n", "2", "-d", "--", "sh", "-c", "exit $((MUSTER_INDEX * 7))"
    )
    name = left.out.splitlines()[0]
    watched = terminal.muster("operations", "watch", name)
    assert watched.code == 7
    assert watched.out.splitlines()[-1].startswith("✖ ") and watched.err.startswith("[1] exit 7 on node-")
    assert terminal.muster("operations", "watch", name, "-o", "json").code == 7


def test_output_beyond_the_cap_is_marked_in_text_record_and_json(terminal: Terminal) -> None:
    words = ("run", "-t", "small", "--run", "loud", "--", "sh", "-c", "yes '' | head -c 17000000")
    assert "cut here: 16 MiB of output are kept per command" in terminal.muster(*words).out
    told = terminal.muster("logs", "loud", "-o", "json").json
    assert (told["truncated"], told["kept"], len(told["output"])) == (True, 16 * 2**20, 16 * 2**20)
    assert "cut: 16 MiB of it are kept" in terminal.muster("commands", "show", told["id"]).out
    done = terminal.muster("run", "-t", "small", "-o", "json", "--", "true").json
    quiet = done["commands"][0]
    assert (quiet["truncated"], quiet["kept"]) == (False, None)


def test_exec_passes_standard_input_on_or_refuses_it_and_says_that_it_timed_out(terminal: Terminal) -> None:
    assert terminal.muster("provision", "-t", "small", "-n", "2", "--run", "fed").code == 0
    fed = terminal.typed("exec", "fed", "--stdin", "--", "wc", "-c", given="x" * 300_000)
    assert (fed.code, sorted(fed.out.split())) == (0, ["300000", "300000", "[0]", "[1]"])
    ran = terminal.typed("run", "-t", "small", "-i", "--", "cat", given="one\ntwo\n")
    assert (ran.code, ran.out) == (0, "[0] one\n[0] two\n")

    for words in (("exec", "fed"), ("run", "-t", "small")):
        refused = terminal.typed(*words, "--", "cat", given="lost?")
        assert (
            refused.code == 2
            and "data on standard input would be lost: pass it on with --stdin" in refused.err
        )
        assert "--sync DIRECTORY" in refused.err
    assert terminal.typed("exec", "fed", "--", "cat", given="").code == 0

    late = terminal.muster("exec", "fed", "--index", "1", "--timeout", "1", "--", "sleep", "600")
    assert late.code == 124
    assert late.err.startswith("[1] timed out after 1 s and was killed on node-")
    told = terminal.muster("commands", "--run", "fed", "-o", "json").json["items"][0]
    assert (told["exit_status"], told["signal"], told["reason"]) == (124, 15, "deadline_exceeded")
    assert terminal.muster("release", "fed").code == 0


def test_one_command_is_cancelled_and_the_other_goes_on(terminal: Terminal) -> None:
    assert terminal.muster("provision", "-t", "small", "-n", "2", "--run", "two").code == 0
    made = terminal.muster(
        "exec", "two", "-d", "-o", "json", "--", "sh", "-c", "echo up; exec sleep 600"
    ).json
    first, second = (each["id"] for each in made)
    for each in (first, second):
        until(lambda: "up" in terminal.muster("logs", each).out, "its start")  # noqa: B023 — asked at once
    assert "is asked to stop" in terminal.muster("commands", "cancel", first).out
    assert terminal.muster("logs", "-f", first).code == 0
    ended = terminal.muster("commands", "show", first, "-o", "json").json
    assert (ended["exit_status"], ended["cancel_requested_at"] is not None) == (143, True)
    assert "had ended already (exited 143)" in terminal.muster("commands", "cancel", first).out
    assert "ended by signal 15" in terminal.muster("commands", "show", first).out

    rows = terminal.muster("commands", "--run", "two").out.splitlines()
    assert len(rows) == 3 and rows[1].split()[1] in ("running", "exited")
    assert [
        each["id"] for each in terminal.muster("commands", "cancel", "two", "-o", "json").json["items"]
    ] == [second]
    assert terminal.muster("logs", "-f", second).code == 0
    assert (
        "nothing to stop: 2 commands of two, none still running"
        in terminal.muster("commands", "cancel", "two").out
    )
    refused = terminal.muster("commands", "cancel", "nope")
    assert refused.code == 2 and "cannot find commands of 'nope'" in refused.err
    assert terminal.muster("release", "two").code == 0


def test_a_detached_run_is_watched_and_read_later(terminal: Terminal) -> None:
    left = terminal.muster("run", "-t", "small", "--detach", "--", "echo", "still here")
    name = left.out.splitlines()[0]
    assert terminal.muster("operations", "watch", name).code == 0
    assert terminal.muster("logs", "-f", name).out == "[0] still here\n"


def test_ctrl_c_detaches_says_how_to_come_back_and_stops_nothing(terminal: Terminal) -> None:
    client = terminal.started(("provision", "-t", "endless", "--run", "left-alone"))
    assert client.stdout is not None
    for line in client.stdout:
        if line.startswith("Step 3/5"):
            break
    client.send_signal(signal.SIGINT)
    _, err = client.communicate(timeout=30)
    assert client.returncode == 130
    assert err.startswith("detached; the work continues: watch it with `muster operations watch op-")
    name = err.split("`")[1].rpartition(" ")[2]
    assert terminal.muster("operations", "show", name, "-o", "json").json["status"] == "running"

    assert terminal.muster("operations", "watch", name, "--wait", "0").code == 124
    waiting = terminal.muster("operations", "why", name).out
    assert "node" in waiting and "until" in waiting
    assert "asked to stop" in terminal.muster("operations", "cancel", name).out
    ended = terminal.muster("operations", "watch", name)
    assert ended.code == 1 and "cancelled" in ended.err
    over = terminal.muster("operations", "why", name).out
    assert "because    cancelled" in over and "until" not in over


def test_a_terminal_shows_it_live_and_gets_its_cursor_back(terminal: Terminal) -> None:
    left = terminal.live("provision", "-t", "endless", "--run", "live", until="booting", sign=signal.SIGINT)
    assert left.code == 130
    assert "Step 3/5 · Booting and attaching" in left.out and " %" in left.out and "◐" in left.out
    assert left.out.rindex("\033[?25h") > left.out.rindex("\033[?25l")
    assert "muster operations watch op-" in left.out
    assert terminal.muster("release", "live").code == 0
    assert "\033[36m[0] " in terminal.live("run", "-t", "small", "--", "echo", "x", until="").out
    terminal.environment["NO_COLOR"] = "1"
    plain = terminal.live("run", "-t", "small", "--", "echo", "x", until="").out
    del terminal.environment["NO_COLOR"]
    assert "[0] x" in plain and "\033[36m[0] " not in plain
    table = terminal.live("operations", until="").out
    assert all(len(CODES.sub("", line)) <= 80 for line in table.splitlines())


def test_exit_codes_say_how_it_ended(terminal: Terminal, site: Site) -> None:
    patience = terminal.muster("provision", "-t", "endless", "--run", "patient", "--wait", "0.2")
    assert patience.code == 124 and "muster operations watch op-" in patience.err
    assert terminal.muster("release", "patient").code == 0
    late = terminal.muster("provision", "-t", "endless", "--timeout", "1")
    assert late.code == 124 and "deadline_exceeded" in late.err
    broken = terminal.muster("provision", "-t", "broken")
    assert broken.code == 1 and "boot_script_failed" in broken.err
    full = terminal.muster("provision", "-t", "small", "--count", "500")
    assert full.code == 3 and "failed (provision_failed: above_cap): " in full.err
    assert full.err.splitlines()[-1] == f"  see {site.url}/codes#above_cap"
    told = terminal.muster("provision", "-t", "small", "-n", "500", "-o", "json")
    assert told.json["error"]["reason"] == told.error["reason"] == "above_cap"
    assert told.json["error"]["code"] == told.error["code"] == "provision_failed"
    assert told.error["help"] == f"{site.url}/codes#above_cap"


def test_the_same_key_is_the_same_operation(terminal: Terminal) -> None:
    words = ("provision", "-t", "small", "--run", "keyed", "--idempotency-key", "once", "-o", "json")
    first, again = terminal.muster(*words), terminal.muster(*words)
    assert first.json["operation_id"] == again.json["operation_id"]
    other = terminal.muster(*words, "--count", "2")
    assert other.code == 2 and "choose a new key" in other.err
    assert terminal.muster("release", "keyed").code == 0


def test_a_run_with_two_provisions_must_be_named_exactly(terminal: Terminal) -> None:
    for _ in range(2):
        assert terminal.muster("provision", "-t", "small", "--run", "twice").code == 0
    unclear = terminal.muster("release", "twice")
    assert unclear.code == 2 and unclear.err.count("op-") == 2 and "--latest" in unclear.err
    assert terminal.muster("extend", "twice", "--by", "5m").code == 2
    latest = terminal.muster("release", "twice", "--latest")
    assert latest.code == 0
    first = re.findall(r"op-\w+", unclear.err)[-1]
    assert terminal.muster("release", first).code == 0


def test_brakes_and_hands_on_nodes(terminal: Terminal) -> None:
    assert terminal.muster("pause", "small").out == "✔ paused: small\n"
    assert terminal.muster("resume", "small", "-o", "json").json == {"all": False, "templates": []}
    ready = terminal.muster("provision", "-t", "small", "-n", "2", "--run", "by-hand", "-o", "json").json
    first, second = (member["node_id"] for member in ready["members"])
    assert "drained: it ends once by-hand gives it back" in terminal.muster("drain", first).out
    assert "is terminating" in terminal.muster("nodes", "terminate", second).out
    looks = (terminal.muster("nodes", "show", second).out for _ in range(500))
    gone = next(shown for shown in looks if "terminated" in shown)
    assert "not kept any more" in gone and "never" not in gone, "it was seen, but it is unknown when"
    assert terminal.muster("release", "by-hand").code == 0


def test_everything_is_paused_only_after_a_question(terminal: Terminal) -> None:
    refused = terminal.typed("pause")
    assert refused.code == 2 and "every template" in refused.err and "repeat with --yes" in refused.err
    asked = terminal.live("pause", until="Go on? [y/N]", answer=b"n\n")
    assert asked.code == 130 and "every template" in asked.out
    assert terminal.muster("pools", "-o", "json").json["paused"] is False
    assert terminal.muster("pause", "--yes").out == "✔ paused: everything\n"
    assert terminal.muster("resume").out == "✔ nothing is paused\n"


def test_a_finding_is_acknowledged_and_told_again(terminal: Terminal) -> None:
    terminal.muster("pause", "small")
    assert "[paused.small]" in terminal.muster("status").out
    seen = terminal.muster("acknowledge", "paused.small")
    assert seen.code == 0 and seen.out == "✔ paused.small is acknowledged\n"
    told = terminal.muster("status").out
    assert "[paused.small]" not in told and "Paused: small. (paused.small, by first admin" in told
    again = terminal.muster("acknowledge", "--all", "--undo", "-o", "json").json
    assert "paused.small" in [each["id"] for each in again["findings"]]
    for wrong in (("acknowledge",), ("acknowledge", "paused.small", "--all"), ("acknowledge", "nothing")):
        assert terminal.muster(*wrong).code == 2
    terminal.muster("resume", "small")


def test_why_an_operation_ended_is_told(terminal: Terminal) -> None:
    failed = terminal.muster("provision", "-t", "broken", "--run", "ends-badly")
    assert failed.code == 1
    why = terminal.muster("operations", "why", "ends-badly").out
    assert "failed" in why and "boot_script_failed" in why and "muster nodes diagnosis node-" in why
    seen = terminal.muster("operations", "why", "ends-badly", "-o", "json").json
    assert seen["because"].startswith("boot_script_failed: ") and seen["advice"]


def test_a_token_works_until_it_is_revoked(terminal: Terminal, site: Site) -> None:
    made = terminal.muster(
        "tokens", "create", "ci", "--role", "viewer", "--expires-in", "1h", "-o", "json"
    ).json
    elsewhere = {"MUSTER_SERVER": site.url, "MUSTER_TOKEN": made["secret"]}
    assert terminal.muster("nodes", **elsewhere).code == 0
    refused = terminal.muster("pause", "--yes", **elsewhere)
    assert refused.code == 2 and "it needs the role operator" in refused.err
    assert terminal.muster("tokens", "revoke", made["id"]).code == 0
    refused = terminal.muster("nodes", **elsewhere)
    assert refused.code == 2 and "was revoked" in refused.err


def test_the_only_admin_can_not_be_revoked(terminal: Terminal) -> None:
    tokens = terminal.muster("tokens", "-o", "json").json["items"]
    (admin,) = [each for each in tokens if each["role"] == "admin"]
    refused = terminal.muster("tokens", "revoke", admin["id"])
    assert refused.code == 2 and "it is the only valid admin token; make another one first" in refused.err
    assert "muster serve --new-admin" in refused.err
    words = ("tokens", "create", "second", "--role", "admin", "--expires-in", "1h", "-o", "json")
    second = terminal.muster(*words).json
    assert terminal.muster("tokens", "revoke", second["id"]).code == 0


def test_an_enrolment_token_is_for_the_apps_of_one_template(terminal: Terminal, site: Site) -> None:
    (terminal.directory / "web.toml").write_text(
        '[templates.web]\nprovider = "external"\nruntime = "service"\n'
    )
    assert terminal.muster("apply", "-f", "web.toml").code == 0
    said = terminal.muster("tokens", "create", "apps", "--role", "enrol", "--template", "web", "--ttl", "1h")
    assert said.code == 0 and "enrol (web)" in said.out
    assert "Use it as MUSTER_ENROL_TOKEN" in said.out + said.err
    missing = terminal.muster("tokens", "create", "apps", "--role", "enrol")
    assert missing.code == 2 and "must name the template" in missing.err
    misplaced = terminal.muster("tokens", "create", "ops", "--role", "viewer", "--template", "web")
    assert misplaced.code == 2 and "must be left out" in misplaced.err
    refused = terminal.muster("provision", "-t", "web")
    assert refused.code == 2 and "apps that enrol themselves" in refused.err
    wrong = terminal.directory / "wrong.toml"
    wrong.write_text('[templates.web]\nprovider = "external"\n')
    said = terminal.muster("apply", "-f", "wrong.toml")
    assert said.code == 2 and "runtime must be service for the provider external" in said.err


def test_apply_keeps_the_revision_of_what_is_the_same(terminal: Terminal) -> None:
    file = terminal.directory / "more.toml"
    file.write_text('[templates.more]\nresource_class = "small"\n')
    assert terminal.muster("apply", "-f", "more.toml").out == "✔ more: new, revision 1\n"
    assert terminal.muster("apply", "-f", "more.toml").out == "✔ more: unchanged, revision 1\n"
    file.write_text('[templates.more]\nresource_class = "small"\nmax_nodes = 3\n')
    assert terminal.muster("apply", "-f", "more.toml", "-o", "json").json["changed"] == ["more"]


def test_apply_says_what_it_costs_and_keeps_warm_nodes_that_would_be_made_the_same(
    terminal: Terminal,
) -> None:
    file = terminal.directory / "kept.toml"

    def written(min_idle: int, script: str = "true") -> None:
        text = f'resource_class = "small"\nmin_idle = {min_idle}\nboot_script = "{script}"\n'
        file.write_text(f"[templates.kept]\n{text}")

    def warm(expected: int) -> set[str]:
        def as_many() -> set[str]:
            found = terminal.muster("nodes", "--template", "kept", "--state", "idle", "-o", "json").json
            ids = {each["id"] for each in found["items"]}
            return ids if len(ids) == expected else set()

        return until(as_many, f"{expected} warm nodes")

    written(1)
    assert terminal.muster("apply", "-f", "kept.toml").out == "✔ kept: new, revision 1\n"
    first = warm(1)
    written(2)
    dry = terminal.muster("apply", "-f", "kept.toml", "--dry-run")
    assert dry.out.splitlines() == [
        "~ kept: adjusted, still revision 1; no node is replaced",
        "    min_idle: 1 → 2",
        "nothing was changed: apply it with `muster apply -f kept.toml`",
    ]
    applied = terminal.muster("apply", "-f", "kept.toml")
    assert applied.out == "✔ kept: adjusted, still revision 1; no node is replaced\n"
    assert first < warm(2)
    written(2, "true # another")
    dry = terminal.muster("apply", "-f", "kept.toml", "--dry-run")
    assert "~ kept: revision 1 → 2; 2 warm nodes replaced, 2 learned boots forgotten\n" in dry.out
    plan = terminal.muster("apply", "-f", "kept.toml", "--dry-run", "-o", "json").json["plan"]
    assert [(each["effect"], each["warm_nodes_replaced"]) for each in plan] == [("revision", 2)]
    assert terminal.muster("templates", "show", "kept", "-o", "json").json["revision"] == 1
    written(0)
    assert terminal.muster("apply", "-f", "kept.toml").code == 0


def test_apply_names_all_that_is_wrong_at_once_and_changes_nothing(terminal: Terminal) -> None:
    file = terminal.directory / "wrong-twice.toml"
    fine = '[templates.fine]\nresource_class = "small"\n'
    file.write_text(f"{fine}[templates.a]\nmax_node = 1\n[templates.b]\nmin_idle = 99\n")
    for words in (("apply", "-f", file.name), ("apply", "-f", file.name, "--dry-run")):
        said = terminal.muster(*words)
        assert said.code == 2 and "did you mean max_nodes?" in said.err and "must not exceed" in said.err
    for wrong, other in (('provider = "clud"', 'runtime = "githib"'), ('runtime = "github"',) * 2):
        file.write_text(f"{fine}[templates.a]\n{wrong}\n[templates.b]\n{other}\n")
        said = terminal.muster("apply", "-f", file.name)
        assert said.code == 2 and "templates.a." in said.err and "templates.b.runtime" in said.err
    assert terminal.muster("templates", "show", "fine").code == 2, "nothing of the file was applied"


def test_doctor_finds_server_store_and_what_is_in_force(terminal: Terminal) -> None:
    said = terminal.muster("doctor", "-o", "json")
    assert said.code == 0
    subjects = {check["subject"] for check in said.json["checks"]}
    assert {"python", "server", "version", "data", "isolation", "rlimits", "cgroup"} <= subjects
    assert "is ready: its store answers" in terminal.muster("doctor").out


@pytest.mark.parametrize("words", [("events",), ("events", "-o", "json"), ("nodes",), ("events", "--follow")])
def test_a_pipe_that_is_not_read_any_more_ends_it_quietly(terminal: Terminal, words: tuple[str, ...]) -> None:
    assert terminal.unread(*words) == (0, "")


def test_events_are_followed_as_they_happen(terminal: Terminal) -> None:
    terminal.muster("pause", "small")
    client = terminal.started(("events", "--follow", "--last", "1", "-o", "json"))
    assert client.stdout is not None
    try:
        # The last event of the past tells that the end of the feed was read: what comes now must come.
        assert json.loads(client.stdout.readline())["id"]
        terminal.muster("resume", "small")
        # Nodes of other tests may still be on their way out.
        assert any(json.loads(line)["entity"] == "installation" for line in client.stdout)
    finally:
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=30)
    assert client.returncode == 130


def test_status_says_what_is_wrong_first_in_every_form(terminal: Terminal) -> None:
    plain = terminal.muster("status")
    assert plain.code == 0, plain.err
    assert plain.out.splitlines()[0][0] in "✔▲✖"
    assert "\nNodes\n" in plain.out and "in all" in plain.out and CONTROL not in plain.out
    seen = terminal.muster("status", "--output", "json").json
    assert seen["verdict"]["text"] and seen["verdict"]["tone"] in ("success", "warning", "danger")
    assert {"waiting", "runs", "failures", "leftovers", "changes", "warmth", "pools", "duties"} <= set(seen)
    assert "by first admin (tok-" in plain.out or "the server" in plain.out or "configuration" in plain.out
    report = terminal.muster("status", "--report")
    assert report.out.startswith("# Muster at ") and "## Nodes" in report.out


STUBBORN = ("sh", "-c", "trap '' TERM; echo begun; sleep 100; true")


def test_a_run_ends_at_its_timeout_with_124_and_the_reason(terminal: Terminal) -> None:
    late = terminal.muster("run", "-t", "small", "--run", "late", "--timeout", "6s", "--", *STUBBORN)
    assert (late.code, late.out) == (124, "[0] begun\n")
    assert "failed (run_failed: deadline_exceeded): the run did not end within its timeout of 6 s" in late.err
    assert terminal.muster("operations", "watch", "late").code == 124
    said = terminal.muster("run", "-t", "small", "--timeout", "6s", "-o", "json", "--", *STUBBORN)
    assert (said.code, said.json["exit_code"], said.json["operation"]["status"]) == (124, 124, "failed")


def test_what_outlives_max_runtime_ends_with_124_and_the_reason(terminal: Terminal) -> None:
    late = terminal.muster("run", "-t", "small", "--run", "long", "--max-runtime", "2s", "--", *STUBBORN)
    assert (late.code, late.out) == (124, "[0] begun\n")
    assert (
        "failed (run_failed: max_runtime): 1 of 1 command did not end in time: the run passed its" in late.err
    )
    assert late.err.count("`muster extend`") == 1
    assert terminal.muster("operations", "watch", "long").code == 124

    assert terminal.muster("provision", "-t", "small", "--run", "mr", "--max-runtime", "3s").code == 0
    late = terminal.muster("exec", "mr", "--", "sleep", "60")
    assert late.code == 124
    assert "[0] lost: the run passed its max_runtime" in late.err, late.err
