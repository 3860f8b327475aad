"""Shells through the faults of real life: servers and nodes that die, pastes without end, deaf terminals."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.client import calls
from tests.cli.typist import Typist
from tests.e2e.fork_server import ForkServer
from tests.e2e.replicas import Replicas
from tests.e2e.site import Site, until
from tests.stores import postgres

Open = Callable[..., Typist]
HASTY = (
    sys.executable,
    "-c",
    "import muster.cli.shell_session as s; s.LINGER = 2.0; from muster.cli import main; main()",
)
"""The command, with less patience than people have."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Open]:
    opened: list[Typist] = []

    def start(site: Site, *words: str, **more: object) -> Typist:
        token = (site.data / "admin.token").read_text().strip()
        environment = {**os.environ, "MUSTER_SERVER": site.url, "MUSTER_TOKEN": token}
        opened.append(Typist("shell", *words, environment=environment, directory=tmp_path, **more))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for each in opened:
        each.__exit__(None, None, None)


def rss(pid: int) -> int:
    """Kilobytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


def test_a_shell_goes_on_through_a_killed_server_with_no_line_lost_or_doubled(
    site: Site, shell: Open
) -> None:
    site.succeeded(site.provision())
    person = shell(site, "run")
    person.prompted()
    person.line("i=0; while [ $i -lt 4000 ]; do echo n$i; i=$((i+1)); done; echo fin''ished")
    person.sees("n1000\r\n")
    site.restart()
    shown = "n1000\r\n" + person.sees("finished")
    assert [int(each) for each in re.findall(r"n(\d+)\r\n", shown)] == list(range(1000, 4000))
    site.stop()
    person.type("echo typed-while-it-was-away\r")
    site.start()
    person.sees("\rtyped-while-it-was-away\r\n")
    person.line("exit 5")
    assert person.code() == 5
    assert person.settings() == person.before


def test_a_node_that_dies_ends_its_shell_with_the_reason(site: Site, shell: Open) -> None:
    (node,) = site.members(site.succeeded(site.provision()))
    person = shell(site, node.id)
    person.prompted()
    person.asks("printf '\\033[?1049h'; echo full-scr''een", "full-screen")
    os.kill(site.body(node).keeper, signal.SIGKILL)
    shown = person.sees("[muster: the shell ended: its node was terminated")
    assert "\x1b[?1049l" in shown, "the screen of the program that was cut off is left"
    assert person.code() == 125
    assert person.settings() == person.before


def test_an_operator_who_terminates_the_node_ends_the_shell_soon(site: Site, shell: Open) -> None:
    (node,) = site.members(site.succeeded(site.provision()))
    person = shell(site, node.id)
    person.prompted()
    site.ask(calls.terminate(node.id))
    person.sees("[muster: the shell ended: its node was terminated before the command ended (operator")
    assert person.code() == 125


def test_a_server_that_stays_away_is_given_up_and_the_person_is_told(site: Site, shell: Open) -> None:
    site.succeeded(site.provision())
    person = shell(site, "run", program=HASTY)
    person.prompted()
    site.kill()
    person.sees("does not answer")
    person.sees(f"cannot reach the server at {site.url}")
    person.sees("open another one with `muster shell node-")
    assert person.code() == 125
    assert person.settings() == person.before
    site.start()


def test_ten_megabytes_pasted_arrive_and_delay_no_other_request(site: Site, shell: Open) -> None:
    site.succeeded(site.provision())
    person = shell(site, "run")
    person.prompted()
    person.asks("stty -echo; echo re''ady; cat > pasted; wc -c < pasted", "ready")
    line = "x" * 99 + "\n"
    person.type(line * 100_000)
    assert site.client.send(calls.installation()).id == site.installation_id
    person.type(b"\x04")
    person.sees("10000000")


def test_a_person_who_does_not_read_stops_the_program_and_its_output_is_not_kept(
    site: Site, shell: Open
) -> None:
    (node,) = site.members(site.succeeded(site.provision()))
    person = shell(site, "run")
    person.prompted()
    pids = site.pid, site.body(node).agent, person.process.pid
    before = [rss(pid) for pid in pids]
    person.line("yes flood")
    written = f"/proc/{person.process.pid}/io"
    since = {0: time.monotonic()}

    def stands() -> bool:
        """The client writes no more: the terminal isn't read."""
        found = re.search(r"wchar: (\d+)", Path(written).read_text())
        assert found is not None
        now = time.monotonic()
        return now - since.setdefault(int(found[1]), now) > 0.8

    until(stands, "the flood to stand")
    after = [rss(pid) for pid in pids]
    assert all(later - sooner < 16 << 10 for sooner, later in zip(before, after, strict=True)), (
        before,
        after,
    )
    person.type(b"\x03")
    person.asks("echo sto''pped", "stopped")
    person.line("exit")
    assert person.code() == 0


def test_a_person_at_any_server_reaches_a_node_that_listens_to_another(
    tmp_path: Path, fork_server: ForkServer, shell: Open
) -> None:
    replicas = Replicas(tmp_path, fork_server, postgres.empty(), count=2)
    try:
        first, second = replicas.start().sites
        first.succeeded(first.provision())
        here, there = shell(first, "run"), shell(second, "run")
        for person in (here, there):
            person.sees("# ")
            person.asks("echo he''re", "here")
        first.kill()
        there.asks("echo still he''re", "still here")
        first.start()
        here.asks("echo ba''ck", "back")
        for person in (here, there):
            person.line("exit")
            assert person.code() == 0
        replicas.verify()
    finally:
        replicas.close()
