"""Why a node failed: what was collected of it, and what that says.

Owns the shape of a failure bundle and of a diagnosis. Refuses to guess: whatever no line proves is `unknown`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from muster.domain.ids import NodeId
from muster.domain.reasons import Reason


class Source(StrEnum):
    """The sections of a bundle."""

    PHASES = "phases"
    AGENT = "agent"
    CONSOLE = "console"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a bundle: its text, already redacted, or why there is none."""

    name: Source
    text: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What was known of a node when it failed. Written once; nothing in it is secret."""

    node_id: NodeId
    collected_at: float
    reason: Reason | None
    detail: str = ""
    """The reason in words, as the node's record had it."""
    sections: tuple[Section, ...]
    """At most one of each name."""

    def section(self, name: Source) -> Section | None:
        return next((each for each in self.sections if each.name is name), None)


class Cause(StrEnum):
    SCRIPT_FAILED = "script_failed"
    PACKAGE_INSTALL = "package_install"
    IMAGE_PULL = "image_pull"
    DNS = "dns"
    NO_ROUTE = "no_route"
    TLS = "tls"
    DISK_FULL = "disk_full"
    OUT_OF_MEMORY = "out_of_memory"
    KERNEL_PANIC = "kernel_panic"
    MACHINE_GONE = "machine_gone"
    AGENT_NEVER_STARTED = "agent_never_started"
    REGISTRATION_REFUSED = "registration_refused"
    STALLED = "stalled"
    SLOW = "slow"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The line that proves it: of which section, and which line of it, from 1."""

    section: Source
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    cause: Cause
    summary: str
    """One sentence for people."""
    evidence: Evidence | None
    advice: str
    fatal: bool
    """It can't succeed any more, however long one waits."""


WORDS_MOST = 64 * 1024
"""Of one text that is read for signs: redaction takes its time, and the end of it tells most."""


AGENT_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")
"""How each line of an agent's log begins."""


def said_by_agent(console: str) -> str:
    """Return the lines of a console that the agent logged."""
    return "\n".join(line for line in console.split("\n") if AGENT_STAMP.match(line))


def ending(text: str, *, lines: int) -> str:
    """Return the last whole lines of a text: half a secret isn't recognised as one."""
    kept = "\n".join(text.split("\n")[-lines:])
    return kept if len(kept) <= WORDS_MOST else kept[-WORDS_MOST:].partition("\n")[2]
