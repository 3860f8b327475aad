"""Pack a tree, send it to the server, and name what was left out."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli import packing, printing
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.client import SyncClient

_NAMED = 5


def sent(client: "SyncClient", directory: Path, *, all_files: bool) -> str:
    """The id under which the server keeps it."""
    with tempfile.TemporaryFile(prefix="muster-sync-") as file:
        packed = packing.pack(directory, file, all_files=all_files)
        blob = client.upload(file)
    if not printing.wants_json():
        what = f"{counted(packed.files, 'file')}, {blob.size / 1024:.0f} KiB compressed"
        printing.say(f"sent {directory} ({what})", file=sys.stderr)
    _without(packed.left_out, "it links to something outside of it")
    _without(packed.submodules, "a submodule; --all-files sends it too")
    return blob.id


def _without(names: Sequence[str], why: str) -> None:
    for name in names[:_NAMED]:
        printing.remark("not_sent", f"without {name}: {why}")
    if len(names) > _NAMED:
        printing.remark("not_sent", f"… and {len(names) - _NAMED} more: {why}")
