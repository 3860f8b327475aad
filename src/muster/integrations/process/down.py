"""`muster down`: ends all nodes and the server of this machine, and proves it by the process table."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls
from muster.cli.exits import UsageProblem
from muster.cli.options import Yes, confirm
from muster.domain.text import counted
from muster.integrations.process.local_server import LocalServer, NotEnded, ignore_interrupts
from muster.slots import processes

if TYPE_CHECKING:
    from muster.config import DataDirectory

WAIT = 300.0
"""Machines of a cloud take a minute or two to end."""


def down(
    *,
    data_dir: Annotated[
        str | None, typer.Option(help="Of the server. (default: MUSTER_DATA_DIR, else the user's)")
    ] = None,
    yes: Yes = False,
) -> None:
    """End all nodes, then the server of this machine. What the store knows is kept for the next start.

    Operations that have not ended are cancelled. While runs have nodes, it asks first.
    """
    from muster.config import DataDirectory, default_data_directory, load

    if os.environ.get("MUSTER_SERVER"):
        raise UsageProblem("cannot end a server elsewhere: unset MUSTER_SERVER to end that of this machine")
    file = Path("muster.toml")
    config = load(file if file.is_file() else None, environment=os.environ, flags={"data_dir": data_dir})
    data = DataDirectory(config.server.data_dir or default_data_directory(os.environ))
    server = _found(data, config.tables["process"].directory)
    served, before = server.serving(), server.leftovers()
    if not served and not before:
        _told(served=False, ended=0, words=f"nothing runs here: {data.path} has no server and no node")
        return
    active = _active(server) if served else before
    if active:
        whose = "runs use" if served else "no server knows the runs of"
        confirm(f"{whose} {counted(active, 'node')}. All nodes will be terminated.", yes=yes)
    if served:
        _end_by_server(server)
    with ignore_interrupts():
        server.stop()
        server.force()
    left = server.leftovers()
    if left or server.serving():
        still = counted(left, "node") if left else "the server"
        raise NotEnded(f"cannot end everything: {still} of {data.path} is still there; see `muster doctor`")
    what = (
        "all nodes are terminated, the server is stopped"
        if served
        else "all nodes are terminated; no server ran"
    )
    _told(served=served, ended=before, words=what)
    if not output.wants_json():
        output.say("  the store is kept; `muster serve` continues from there")


def _found(data: "DataDirectory", nodes: Path | None) -> LocalServer:
    from muster.config.data_directory import DirectoryInUse

    start, pid = "", data.pid() or 0
    try:
        data.check_free()
    except DirectoryInUse:  # so the pid is that of a server
        start = (processes.start_time(pid) or "") if pid else ""
    return LocalServer(
        data.path,
        pid=pid,
        start=start,
        url=data.url() or "",
        installation_id=data.installation() or "",
        nodes=nodes,
    )


def _active(server: LocalServer) -> int:
    """Return the nodes that runs have."""
    with server.client() as client:
        return len(client.send(calls.nodes(state=("running", "claimed"), limit=500)).items)


def _end_by_server(server: LocalServer) -> None:
    """Terminate all nodes through the server, paused meanwhile. The pause is lifted at the very end."""

    def told(left: int) -> None:
        if left and not output.wants_json():
            output.say(f"ending {counted(left, 'node')}")

    with server.client() as client:
        paused = client.send(calls.pools()).paused
        client.send(calls.pause())
        try:
            server.cancel_all()
            left = server.end_nodes(within=WAIT, told=told)
        finally:
            if not paused:
                client.send(calls.resume())
    if left:
        raise NotEnded(
            f"cannot terminate {counted(left, 'node')} within {WAIT:.0f} s; the server keeps trying:"
            " repeat `muster down`, or see `muster nodes`"
        )
    if not output.wants_json():
        output.say("ending the server")


def _told(*, served: bool, ended: int, words: str) -> None:
    if output.wants_json():
        server = "ended" if served else "not running"
        output.print_json({"server": server, "nodes_ended": ended, "left": 0})
    else:
        output.say(f"✔ {words}")
