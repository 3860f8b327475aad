"""What is left of machines that are gone: their files at once, their words for a while, their tokens for
longer.

A token is remembered long after its machines, so that a late repeat of its launch makes nothing.
Owns removal from the tree; refuses to touch a slot that isn't marked gone. What can't be removed now is tried
again at the next pruning, and keeps no other slot's files.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.slots.tree import sync, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from muster.slots.tree import Grant, Slot, Tree

    Wipe = Callable[[str, float], bool]

logger = logging.getLogger(__name__)

WITHIN = 10.0
"""Seconds for one pruning: the caller waits, and jobs decide how much there is to remove."""


@dataclass(frozen=True)
class Keeping:
    """How long what is kept."""

    seconds: float = 3600.0
    """For the console of a machine that is gone: time to look at a failure."""
    launches: int = 50
    """At most this many launches' consoles, the latest: a failing boot script may end thousands an hour."""
    tokens: float = 7 * 86400.0
    """Far longer than any server sleeps before it repeats a launch."""
    tokens_most: int = 2000
    """Of those older than `seconds` at most so many, the latest: every launch looks at all of them. A server
    that slept before it repeats one has made no newer ones."""


def prune(tree: Tree, keeping: Keeping, wipe: Wipe, *, now: float, within: float = WITHIN) -> None:
    """Remove what is kept no longer, with `wipe`: a path, and seconds; False if something is left.

    The caller holds the launching lock, so no slot is being started.
    """
    remover = _Remover(wipe=wipe, until=time.monotonic() + within)
    over: list[tuple[float, Path]] = []
    closed: list[tuple[float, Path]] = []
    for directory, grant in tree.directories():
        if (directory / "closed").exists():
            closed.append((grant.at, directory))
            continue
        slots = tree.slots(directory, grant)
        for slot in slots:
            if slot.gone:
                remover.remove(slot.work)
                remover.remove(slot.tmp)
        ended = _ended_at(slots, grant, keeping)
        if ended is not None:
            over.append((ended, directory))
    _forget(closed, keeping, now, remover)
    over.sort(reverse=True)
    for place, (ended, directory) in enumerate(over):
        if place >= keeping.launches or now - ended > keeping.seconds:
            _close(directory, now, remover)


def _ended_at(slots: tuple[Slot, ...], grant: Grant, keeping: Keeping) -> float | None:
    """When the last of a launch's machines was gone; None while any lives or may yet be started."""
    ends = [slot.gone_at() for slot in slots if slot.started]
    if len(ends) < len(slots):
        # Some were never started and a repeat may still start them, until no caller can be waiting any more.
        ends.append(grant.at + keeping.tokens)
    return None if None in ends else max((end for end in ends if end is not None), default=grant.at)


def _close(directory: Path, now: float, remover: _Remover) -> None:
    write(directory / "closed", {"at": now})
    for entry in sorted(directory.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            remover.remove(entry)


def _forget(closed: list[tuple[float, Path]], keeping: Keeping, now: float, remover: _Remover) -> None:
    closed.sort(reverse=True)
    for place, (at, directory) in enumerate(closed):
        spare = place >= keeping.tokens_most and now - at > keeping.seconds
        if spare or now - at > keeping.tokens:
            remover.remove(directory)
            with suppress(FileNotFoundError):
                sync(directory.parent)


@dataclass(frozen=True)
class _Remover:
    wipe: Wipe
    until: float
    """By the monotonic clock. One removal gets half of what is left: the others get a turn too."""

    def remove(self, path: Path) -> None:
        left = self.until - time.monotonic()
        if left > 0 and path.exists() and not self.wipe(str(path), left / 2):
            logger.warning("cannot remove all of a gone machine's files yet", extra={"path": str(path)})
