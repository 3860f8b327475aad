"""Read what a machine has said: its agent's output, then that of its boot script, from the end and bounded.

The script's output lies in the node's own directory, where a job may replace it. So only a plain file is
read, never the target of a link. This module owns no file and reads only the end of one.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from muster.slots.tree import Slot

MOST = 256 * 1024
"""Bytes of each file that are looked at: room for long lines, not for a flood."""
KEEPER = "muster: "
SCRIPT = f"{KEEPER}the boot script said:"


def said(slot: Slot, lines: int) -> str | None:
    """Return the last lines, at most so many; None if nothing was said, or nothing is left of it."""
    if lines <= 0:
        return None
    agent = _lines(_end(slot.console.with_name("console.1.log")) + _end(slot.console))[-lines:]
    script = _lines(_end(slot.work / "log"))
    if script:
        # Each gets what the other doesn't need, and at least half.
        kept = max(lines // 2, lines - 1 - len(script))
        agent = agent[-kept:]
        script = [SCRIPT, *script[-max(1, lines - 1 - len(agent)) :]]
    found = [*agent, *script][-lines:]
    return "\n".join(found) if found else None


def keepers_last_word(slot: Slot) -> str:
    """Return the keeper's last line; nothing if it was killed."""
    last = _lines(_end(slot.console))[-1:]
    return last[0][len(KEEPER) :] if last and last[0].startswith(KEEPER) else ""


def _end(path: Path) -> bytes:
    """Return the last bytes of a plain file, from the beginning of a line on; nothing of anything else."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            facts = os.fstat(descriptor)
            if stat.S_ISREG(facts.st_mode):
                start = max(0, facts.st_size - MOST)
                data = os.pread(descriptor, MOST, start)
                return data if start == 0 else data.partition(b"\n")[2]
        finally:
            os.close(descriptor)
    return b""


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return (text[:-1] if text.endswith("\n") else text).split("\n") if data else []
