"""What `muster doctor` says about nodes on this machine: room, isolation and limits in force."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from muster.config import find_server
from muster.integration import Check, Level, Machine
from muster.integrations.process.disk import disk
from muster.integrations.process.provider import ProcessProvider
from muster.integrations.process.reporting import Report
from muster.integrations.process.sandbox import Isolation
from muster.integrations.process.tables import ProcessConfig


def checks(machine: Machine) -> Iterator[Check]:
    settings: ProcessConfig = machine.config.tables["process"]
    found = find_server(os.environ, machine.data)
    yield disk(found, settings.directory or machine.data / "nodes")
    bwrap = shutil.which("bwrap")
    if bwrap is not None:
        yield Check(subject="bubblewrap", level=Level.OK, words=bwrap)
    elif sys.platform == "linux":
        advice = "install the package bubblewrap; nodes then don't see each other, HOME or the data directory"
        yield Check(subject="bubblewrap", level=Level.WARNING, words="not installed", advice=advice)
    for fact in in_force(machine.data, settings).facts:
        level = Level.OK if fact.fine else Level.WARNING
        yield Check(subject=fact.subject, level=level, words=fact.words)


def in_force(data: Path, settings: ProcessConfig) -> Report:
    """What isolation and limits nodes on this machine have."""
    with tempfile.TemporaryDirectory(prefix="muster-doctor-") as scratch:
        provider = ProcessProvider(
            # Looking must not make a data directory.
            data / "nodes" if (data / "nodes").is_dir() else Path(scratch) / "nodes",
            installation_id="doctor",
            servers=(),
            capacity=settings.capacity,
            isolation=Isolation(settings.isolation),
        )
        return asyncio.run(provider.report())
