"""Pass standard input on to commands if asked, and refuse input that would be lost.

Standard input is read to its end first, because every node reads the same. So it is only read with
`--stdin`: in a script or in CI it may be a pipe that is never closed.
"""

import array
import fcntl
import os
import stat
import tempfile
import termios
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.exits import UsageProblem
from muster.domain.command import ARCHIVE_BYTES_MAX

if TYPE_CHECKING:
    from muster.client import SyncClient

_FD = 0
_PIECE = 256 * 1024
_MIB = 1 << 20
_INSTEAD = "pass it on with --stdin, or send files with `muster run --sync DIRECTORY`"

Stdin = Annotated[
    bool,
    typer.Option(
        "--stdin",
        "-i",
        help="Pass standard input on to each copy of the command: it is read to its end first, up to"
        f" {ARCHIVE_BYTES_MAX // _MIB} MiB.",
    ),
]


def upload_stdin(client: "SyncClient") -> str:
    """Read standard input to its end, and send it. Returns the id under which the server keeps it."""
    with tempfile.TemporaryFile(prefix="muster-stdin-") as file:
        size = 0
        while piece := os.read(_FD, _PIECE):
            size += file.write(piece)
            if size > ARCHIVE_BYTES_MAX:
                most = f"{ARCHIVE_BYTES_MAX // _MIB} MiB"
                raise UsageProblem(
                    f"cannot pass on standard input: it is longer than {most}; send it as a file:"
                    " `muster run --sync DIRECTORY`"
                )
        return client.upload(file).id


def refuse_unread() -> None:
    """Raise UsageProblem if data on standard input would not be read."""
    if _waits():
        raise UsageProblem(f"data on standard input would be lost: {_INSTEAD}; use < /dev/null for none")


def tell_unread() -> None:
    """Say so if something came after the command had started."""
    if _waits():
        output.print_notice("stdin_unread", f"standard input was not passed on: {_INSTEAD}")


def _waits() -> bool:
    """Return whether there is data to read now. A terminal has none: it is for Ctrl-C."""
    try:
        kind = os.fstat(_FD)
        if stat.S_ISREG(kind.st_mode):
            return kind.st_size > os.lseek(_FD, 0, os.SEEK_CUR)
        if not (stat.S_ISFIFO(kind.st_mode) or stat.S_ISSOCK(kind.st_mode)):
            return False
        count = array.array("i", [0])
        fcntl.ioctl(_FD, termios.FIONREAD, count)
    except OSError:
        return False  # closed
    return count[0] > 0
