"""`muster cp`: copy files between this machine and a node."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import copies, output
from muster.cli.connection import is_node, is_operation, open_client
from muster.cli.copies import Copied, Remote
from muster.cli.exits import UsageProblem
from muster.cli.uploads import name_left_out
from muster.domain.text import counted


def cp(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A path here, or NODE:PATH, or RUN:PATH.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="The same. One of the two is on a node.")],
    *,
    index: Annotated[int, typer.Option("--index", metavar="N", help="Node N of the run.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a directory that is here.")] = False,
) -> None:
    """Copy a file or a directory to a node, or from it.

    A relative path on a node is one in the run's workspace. An existing directory as DST gets the copy
    inside of it. A path here with a colon is written as ./a:b.
    """
    if "-" in (source, target):
        raise UsageProblem(
            f"cannot copy {source} to {target}: - is no path, and nothing is piped;"
            " write ./- for a file of that name, or print one with `muster exec RUN -- cat PATH`"
        )
    there, here = _remote(source, index), _remote(target, index)
    if (there is None) == (here is None):
        raise UsageProblem(f"cannot copy {source} to {target}: write exactly one of them as NODE:PATH")
    with open_client() as client:
        if here is not None:
            _report(copies.send(client, Path(source), here), source)
        elif there is not None:
            _report(copies.fetch(client, there, Path(target), force=force), source)


def _remote(given: str, index: int) -> Remote | None:
    """Return the place on a node that is named; None: it is a path here."""
    name, colon, path = given.partition(":")
    if not colon or not name or "/" in name:
        return None
    if is_node(name):
        return Remote(path=path, target={"node_id": name})
    kind = "operation_id" if is_operation(name) else "run"
    return Remote(path=path, target={kind: name, "indexes": (index,)})


def _report(copied: Copied, source: str) -> None:
    name_left_out(copied.left_out, "it leads elsewhere, or is no file")
    size = f"{counted(copied.files, 'file')}, {copied.bytes / 1024:.0f} KiB compressed"
    output.show(copied, f"✔ {source} → {copied.to} ({size}, {copied.node_id})")
