"""`muster demo`: everything once, on this machine, in under a minute: cold, used, returned, warm, gone."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from muster.cli import command_output, output, progress_views
from muster.cli.connection import calls
from muster.cli.durations import format_taken
from muster.cli.exits import OperationFailed
from muster.cli.operation_watch import Patience, progress_of
from muster.domain.command import Execution
from muster.domain.operation import Status
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec
from muster.domain.text import counted
from muster.integrations.process.demo_site import DemoFailed, Site
from muster.integrations.process.doctor import in_force
from muster.integrations.process.tables import ProcessConfig

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.operations import Operation

COUNT = 3
TEMPLATE = "demo"
TIMEOUT = 100.0
"""Far more than it takes: a machine that is busy with other things is no reason to fail."""
BOOT = """\
set -e
muster-agent step "making a virtual environment"
# Some systems ship Python without pip; the environment is real work all the same.
python3 -m venv "$MUSTER_HOME/venv" || python3 -m venv --clear --without-pip "$MUSTER_HOME/venv"
muster-agent step "trying it"
"$MUSTER_HOME/venv/bin/python" -c 'import json, ssl, sqlite3'
"""
PROGRAM = (
    "import os, platform, sys; e = os.environ; "
    "print('node', int(e['MUSTER_INDEX']) + 1, 'of', e['MUSTER_COUNT'], 'for', e['MUSTER_RUN'], '· Python', "
    "platform.python_version(), 'in', sys.prefix.rpartition('/')[2], '· pid', os.getpid())"
)
COMMAND = ("sh", "-c", f'exec "$MUSTER_HOME/venv/bin/python" -c "{PROGRAM}"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    cold_seconds: float
    warm_seconds: float
    nodes: int
    nodes_reused: int

    @property
    def speedup(self) -> float:
        return self.cold_seconds / max(self.warm_seconds, 0.001)

    def line(self, end: str) -> str:
        cold, warm = f"cold {self.cold_seconds:.1f} s", f"warm {self.warm_seconds:.2f} s"
        reused = f"{counted(self.nodes_reused, 'node')} reused"
        return f"demo: {cold} · {warm} ({self.speedup:.0f}x) · {reused} · {end}"


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it up to look around. Also: KEEP=1.")] = False,
    stop: Annotated[
        Path | None, typer.Option("--stop", metavar="DIRECTORY", help="End one that was left up.")
    ] = None,
) -> None:
    """Show Muster at work: an own server and three nodes, cold, used, returned and warm; then end
    everything."""
    with interruptible():
        if stop is not None:
            left = Site.found(stop).end()
            _told(f"ended; {left} leaked")
            raise typer.Exit(1 if left else 0)
        kept = keep or os.environ.get("KEEP", "") not in ("", "0")
        _perform(keep=kept)


def _perform(*, keep: bool) -> None:
    _told("starting a server in a temporary directory")
    site = Site.started()
    ended = False
    try:
        _told(f"it listens on {site.url}, with its data in {site.directory}")
        _told(f"its nodes are real processes of this machine: {_isolation(site)}")
        with site.needed(), site.client() as client:
            figures = _shown(client)
        if keep:
            ended = True
            _left_up(site, figures)
            return
        _told("\nending the nodes and the server")
        leaked = site.end()
        ended = True
    finally:
        if not ended:
            with suppress(OSError):  # the reader may be gone
                _told("cleaning up")
            site.end()
    if output.wants_json():
        output.print_json({**output.plain(figures), "leaked": leaked})
    else:
        output.say(figures.line(f"{leaked} leaked"))
    if leaked:
        raise DemoFailed(f"{counted(leaked, 'node')} had to be killed: please report this")


def _isolation(site: Site) -> str:
    report = in_force(site.directory, ProcessConfig())
    return report.notice or "in a sandbox each"


def _shown(client: "SyncClient") -> Figures:
    spec = TemplateSpec(name=TEMPLATE, provider="process", resource_class="small", boot_script=BOOT)
    client.send(calls.apply(spec))
    _told(f"\n$ muster provision -t {TEMPLATE} -n {COUNT} --run cold    # each boot makes a venv")
    cold, first = _provisioned(client, "cold")
    _told("\n$ muster exec cold -- …")
    _executed(client, first)
    _released(client, first)
    _told(f"\n$ muster provision -t {TEMPLATE} -n {COUNT} --run warm    # the same nodes, still warm")
    warm, second = _provisioned(client, "warm")
    _executed(client, second)
    before = {member.node_id for member in first.members}
    reused = sum(1 for member in second.members if member.node_id in before)
    _released(client, second)
    return Figures(cold_seconds=cold, warm_seconds=warm, nodes=COUNT, nodes_reused=reused)


def _provisioned(client: "SyncClient", run: str) -> "tuple[float, Operation]":
    request = ProvisionRequest(template=TEMPLATE, count=COUNT, run=run, timeout=TIMEOUT)
    started = time.perf_counter()
    operation = client.send(calls.provision(request))
    ended = _followed(client, operation)
    seconds = time.perf_counter() - started
    _told(f"✔ {counted(len(ended.members), 'node')} ready for {run} in {format_taken(seconds)}")
    return seconds, ended


def _released(client: "SyncClient", operation: "Operation") -> None:
    _told(f"\n$ muster release {operation.run}")
    ended = _followed(client, client.send(calls.release(operation_id=operation.operation_id)))
    _told(f"✔ {ended.message} ({format_taken(ended.elapsed_seconds)})")


def _followed(client: "SyncClient", operation: "Operation") -> "Operation":
    with progress_views.choose_view(elapsed=operation.elapsed_seconds) as view:
        for progress in progress_of(client, operation.operation_id, Patience(2 * TIMEOUT)):
            view.show(progress)
    ended = client.send(calls.operation(operation.operation_id))
    if ended.status is not Status.SUCCEEDED:
        raise OperationFailed(ended)
    return ended


def _executed(client: "SyncClient", operation: "Operation") -> None:
    made = client.send(calls.execute(Execution(argv=tuple(COMMAND)), operation_id=operation.operation_id))
    patience, how = Patience(TIMEOUT), "the demo ends"
    if output.wants_json():
        command_output.collect_output(client, made, patience, how=how)
    else:
        command_output.print_output(client, made, patience, how=how)
    for each in made:
        ended = client.send(calls.command(each.id))
        if ended.exit_status != 0:
            raise DemoFailed(
                f"the demo failed: the command on node {each.ordinal} ended with {ended.exit_status}"
            )


def _left_up(site: Site, figures: Figures) -> None:
    again = f"muster demo --stop {site.directory}"
    if output.wants_json():
        kept = {"url": site.url, "data_dir": str(site.directory), "stop": again}
        output.print_json({**output.plain(figures), **kept})
        return
    output.say(f"\nleft up: {site.url}")
    output.say(f"  see it:       {site.url}, signed in with what is in {site.directory / 'admin.token'}")
    output.say(f"  look around:  export MUSTER_DATA_DIR={site.directory}; muster nodes")
    output.say(f"  end it:       {again}")
    output.say(figures.line("left up"))


def _told(text: str) -> None:
    if not output.wants_json():
        output.say(text)


@contextmanager
def interruptible() -> Iterator[None]:
    """Clean up however the demo is stopped."""

    def stopped(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, stopped)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
