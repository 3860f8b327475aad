"""One walk through a shell and copies, for any kind of node and any way to its server."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.cli.terminal import Terminal
from tests.cli.typist import Typist
from tests.e2e.site import Site

PASTED = 300_000
"""Characters: many messages, and more than one record of TLS."""
PROGRAM = f"""\
import os, signal, sys, tty

def size():
    print(*os.get_terminal_size(), flush=True)

size()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("waiting", flush=True)
signal.sigwait([signal.SIGWINCH])
size()
tty.setraw(0)
print("raw", flush=True)
taken = 0
while taken < {PASTED}:
    taken += os.read(0, 65536).count(b"p")
print("taken", "x" * {PASTED}, "shown", flush=True)
"""
"""Nodes have a Python; some have no `stty`."""


def walk_through_a_shell(
    site: Site,
    directory: Path,
    run: str,
    *,
    within: float = 60.0,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Copy a file there and back. Then open a shell; resize, paste, read and leave."""
    given = {"MUSTER_DATA_DIR": str(site.data), **environment}
    terminal = Terminal(directory, given)
    (directory / "there").write_bytes(PROGRAM.encode() + b"#" * PASTED)
    for words in (("there", f"{run}:program"), (f"{run}:program", "back")):
        said = terminal.muster("cp", *words)
        assert said.code == 0, said.err
    assert (directory / "back").read_bytes() == (directory / "there").read_bytes()

    with Typist("shell", run, environment={**os.environ, **given}, directory=directory) as person:
        person.line("echo re''ady")
        person.sees("ready", within=within)
        person.line("python3 program")
        person.sees("90 30", within=within)
        person.sees("waiting", within=within)
        person.resize(44, 123)
        person.sees("123 44", within=within)
        person.sees("raw", within=within)
        person.type("p" * PASTED)
        person.sees("taken", within=within)
        assert person.sees("shown", within=within).count("x") == PASTED
        person.line("exit 7")
        assert person.code() == 7
        assert person.settings() == person.before
