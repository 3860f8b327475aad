"""Fetch the results of each node, replace earlier ones of the same number, and name what is missing."""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli import printing
from muster.cli.exits import UsageProblem
from muster.cli.unpacking import Unpacked, unpack
from muster.client import ServerProblem
from muster.domain.errors import NotFound

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command


class Fetched:
    def __init__(self, client: "SyncClient", commands: "Sequence[Command]", results: Path) -> None:
        self.places: list[str] = []
        self.missing: list[dict[str, object]] = []
        try:
            for command in commands:
                self._fetch(client, command, results)
        except OSError as error:
            raise UsageProblem(f"cannot put the results into {results}: {error.strerror or error}") from error
        _name_earlier_ones(results, [str(command.ordinal) for command in commands])
        if self.places and not printing.wants_json():
            printing.say(f"results are in {results}", file=sys.stderr)

    def _fetch(self, client: "SyncClient", command: "Command", results: Path) -> None:
        place = results / str(command.ordinal)
        unpacked = _replaced(client, command, place)
        if isinstance(unpacked, str):
            self._lacks(command, command.collect, f"brought nothing back{unpacked}")
            return
        for name in unpacked.left_out:
            _say(command, f"left out {name}: it leads elsewhere")
        for path in unpacked.missing(command.collect):
            self._lacks(
                command, (path,), f"did not bring back {path}: there is no such path in its workspace"
            )
        if unpacked.names:
            self.places.append(str(place))

    def _lacks(self, command: "Command", paths: "Sequence[str]", words: str) -> None:
        _say(command, words)
        self.missing.extend({"ordinal": command.ordinal, "path": path} for path in paths)


def _replaced(client: "SyncClient", command: "Command", place: Path) -> Unpacked | str:
    """Unpacked beside its place, then put there: what an earlier run left must not pass for this one's."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".muster-get-") as scratch:
        fresh = Path(scratch) / "fresh"
        unpacked = _brought(client, command, Path(scratch) / "results.tgz", fresh)
        if place.is_symlink() or place.exists():
            place.rename(Path(scratch) / "earlier")
        if fresh.exists():
            fresh.rename(place)
    with suppress(OSError):  # only if nothing is in it
        place.parent.rmdir()
    return unpacked


def _brought(client: "SyncClient", command: "Command", archive: Path, fresh: Path) -> Unpacked | str:
    """Why it brought nothing, if that is known, in words to go on with."""
    try:
        client.download(command.id, archive)
    except NotFound:
        return ""
    except ServerProblem as refused:
        if refused.code != "not_kept":
            raise
        return f": {refused}"
    return unpack(archive, fresh)


def _name_earlier_ones(results: Path, fetched: Sequence[str]) -> None:
    for place in sorted(results.iterdir()) if results.exists() else ():
        if place.name.isdecimal() and place.name not in fetched:
            printing.remark("results", f"{place} is not of this run")


def _say(command: "Command", words: str) -> None:
    printing.remark("results", f"[{command.ordinal}] {words}")
