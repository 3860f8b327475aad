"""Nodes made by an executable, the whole way, with the example that users are told to copy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.e2e.site import Site, until
from tests.integrations.command.place import EXAMPLES, end_processes, script

KILLS_ITS_SERVER = """#!/bin/bash
# Makes the machines, then kills the server before it can answer: once.
answer=$({example} "$@")
if [ "$1" = launch ] && mkdir {once} 2>/dev/null; then kill -9 $PPID; sleep 30; fi
echo "$answer"
"""
LIES_ABOUT_IDS = """#!/bin/bash
# Answers its second launch with the id of the machine that its first launch made.
answer=$({example} "$@")
if [ "$1" = launch ] && ! mkdir {once} 2>/dev/null; then
  answer=$(sed "s/\\"id\\": *\\"[^\\"]*\\"/\\"id\\": \\"$(cat {once}/id)\\"/" <<<"$answer")
elif [ "$1" = launch ]; then
  sed 's/.*"id": *"\\([^"]*\\)".*/\\1/' <<<"$answer" >{once}/id
fi
echo "$answer"
"""


def config(executable: Path, machines: Path) -> str:
    return (
        f"[limits]\nstale_after = 16\n[process]\ncapacity = 0\n[command.local]\nexecutable = '{executable}'\n"
        f"[command.local.config]\ndirectory = '{machines}'\ncapacity = 4\n"
    )


@pytest.fixture(params=["processes.py", "processes.sh"])
def site(request: pytest.FixtureRequest, make_site: Callable[..., Site], tmp_path: Path) -> Site:
    machines = tmp_path / "machines"
    made = make_site(config=config(EXAMPLES / request.param, machines), machines=machines).start()
    made.template(provider="command-local")
    return made


def test_machines_of_an_executable_are_made_used_kept_warm_and_ended(site: Site) -> None:
    cold = site.succeeded(site.provision(2, run="cold"))
    assert {each.provider for each in site.nodes("running")} == {"command-local"}
    site.succeeded(site.release(cold))
    until(lambda: len(site.nodes("idle")) == 2, "both nodes to be warm")
    run = site.succeeded(site.run("sh", "-c", "echo I am $MUSTER_INDEX", count=2, run="warm"))
    said = sorted(site.output(each) for each in site.commands(run))
    assert said == [b"I am 0\n", b"I am 1\n"]
    assert sorted(each.id for each in site.nodes()) == sorted(member.node_id for member in cold.members)


def test_a_launch_whose_answer_was_lost_with_the_server_makes_no_second_machine(
    make_site: Callable[..., Site], tmp_path: Path
) -> None:
    machines = tmp_path / "machines"
    text = KILLS_ITS_SERVER.format(example=EXAMPLES / "processes.py", once=tmp_path / "once")
    site = make_site(config=config(script(tmp_path / "mean", text), machines), machines=machines).start()
    site.template(provider="command-local")
    site.soon(site.provision, 2)
    assert site.gone() == -9
    site.start()
    until(lambda: len(site.nodes("running")) == 2, "the provision to go on")
    assert len(list(machines.glob("*/pid"))) == 2


def test_files_come_and_go_a_broken_executable_costs_no_job_and_a_killed_machine_is_noticed(
    make_site: Callable[..., Site], tmp_path: Path
) -> None:
    machines = tmp_path / "machines"
    executable = script(tmp_path / "exe", f'#!/bin/bash\nexec {EXAMPLES / "processes.py"} "$@"\n')
    site = make_site(config=config(executable, machines), machines=machines).start()
    site.template(provider="command-local")
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "input.txt").write_text("from here")
    terminal = Terminal(tmp_path, {"MUSTER_DATA_DIR": str(site.data)})
    words = ("run", "-t", "ci", "--sync", "sent", "--get", "result.txt", "--results", "results")
    leave = "cat input.txt >result.txt; echo mine >left; echo mine >$HOME/left; echo mine >$TMPDIR/left"
    done = terminal.muster(*words, "--", "sh", "-c", leave)
    assert done.code == 0, done.err
    (result,) = (tmp_path / "results").rglob("result.txt")
    assert result.read_text() == "from here"
    seen = site.succeeded(site.run("sh", "-c", "ls -A . $HOME $TMPDIR", run="next"))
    assert b"left" not in site.output(site.commands(seen)[0])

    run = site.run("sh", "-c", "sleep 3; echo done", run="long")
    site.commands_in("running", run)
    executable.rename(tmp_path / "away")
    assert site.output(site.commands(site.succeeded(run))[0]) == b"done\n"
    (tmp_path / "away").rename(executable)

    (node,) = site.nodes("idle")
    end_processes(machines)
    assert site.node_in("terminated", node.id).reason == "machine_gone"


def test_an_executable_that_names_a_machine_twice_gets_no_machine_handed_out_twice(
    make_site: Callable[..., Site], tmp_path: Path
) -> None:
    machines = tmp_path / "machines"
    text = LIES_ABOUT_IDS.format(example=EXAMPLES / "processes.py", once=tmp_path / "once")
    site = make_site(config=config(script(tmp_path / "liar", text), machines), machines=machines).start()
    site.template(provider="command-local")
    first = site.succeeded(site.provision(1, run="first"))
    second = site.provision(1, run="second")
    assert second.status == "failed"
    assert [node.id for node in site.nodes("running")] == [member.node_id for member in first.members]


def test_a_template_of_an_executable_that_the_server_lacks_is_refused_with_what_to_do(site: Site) -> None:
    with site.http() as http:
        answer = http.put("/api/v1/templates/other", json={"provider": "command-other"})
    assert answer.status_code == 422, answer.text
    assert "name its executable under [command.NAME]" in answer.text
