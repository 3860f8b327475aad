"""What isolation and limits are really in force, and what is missing, in words: for start-up and `muster
doctor`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from muster.domain.text import counted
from muster.integrations.process.sandbox import Isolation, Sandbox
from muster.slots.limits import CONTROLLERS, Cgroups
from muster.slots.processes import LINUX


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    subject: str
    fine: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    isolation: Isolation
    """What is in force: sandbox or none."""
    notice: str
    """What an operator must know at start; empty if all is as it should be."""
    facts: tuple[Fact, ...]
    no_overlay: str = ""
    """Why no template can have home = "overlay"; empty if one can."""


def report(wanted: Isolation, sandbox: Sandbox | str, cgroups: Cgroups, *, capacity: int) -> Report:
    works = isinstance(sandbox, Sandbox) and wanted is not Isolation.NONE
    facts = [
        Fact(
            subject="capacity", fine=True, words=f"up to {counted(capacity, 'node')} at once on this machine"
        ),
        _isolation(wanted, sandbox),
        *_overlay(wanted, sandbox),
        _tree(works, cgroups),
        Fact(
            subject="rlimits",
            fine=True,
            words="no core dumps, bounded open files"
            + ("" if not LINUX else ", and the class's memory per process without a memory cgroup"),
        ),
        _cgroups(cgroups),
    ]
    if not hasattr(os, "pidfd_open"):
        words = (
            "this platform has no pidfd: processes are identified by their start time, with a very short race"
        )
        facts.append(Fact(subject="signals", fine=False, words=words))
    return Report(
        isolation=Isolation.SANDBOX if works else Isolation.NONE,
        notice="" if works else facts[1].words,
        facts=tuple(facts),
        no_overlay=sandbox.no_overlay if isinstance(sandbox, Sandbox) and works else facts[1].words,
    )


def _isolation(wanted: Isolation, sandbox: Sandbox | str) -> Fact:
    if wanted is Isolation.NONE:
        why = "isolation is set to none"
    elif isinstance(sandbox, str):
        why = sandbox
    else:
        words = (
            f"bubblewrap {_way(sandbox)}: a new sandbox for each command, no root, read-only system; "
            "data directory, HOME, other nodes and the agent hidden; network shared"
        )
        if sandbox.nests:
            words += "; jobs can make user namespaces: bubblewrap 0.8 or later prevents that"
        return Fact(subject="isolation", fine=True, words=words)
    if wanted is Isolation.SANDBOX:
        words = f"cannot start local nodes: isolation is set to sandbox, but {why}"
    else:
        words = (
            f"local nodes run without a sandbox ({why}): what runs on them can read this user's files "
            "and signal its processes"
        )
    return Fact(subject="isolation", fine=False, words=words)


def _overlay(wanted: Isolation, sandbox: Sandbox | str) -> Iterator[Fact]:
    if isinstance(sandbox, Sandbox) and wanted is not Isolation.NONE:
        why = sandbox.no_overlay
        words = f"no template may have an overlay: {why}" if why else "templates may have an overlay as home"
        yield Fact(subject="overlay", fine=not why, words=words)


def _way(sandbox: Sandbox) -> str:
    if sandbox.user_namespaces:
        return "with user namespaces"
    return "without user namespaces (nodes have user ids of their own, their agents keep root)"


def _tree(works: bool, cgroups: Cgroups) -> Fact:
    subject = "ending a node"
    if works:
        return Fact(subject=subject, fine=True, words="the whole pid namespace ends with it")
    if cgroups.base is not None:
        return Fact(subject=subject, fine=True, words="its whole cgroup ends with it")
    if LINUX:
        words = (
            "its keeper collects and kills all its descendants; one that kills the keeper first can get away"
        )
        return Fact(subject=subject, fine=True, words=words)
    words = (
        "only its process group ends with it: a process that leaves the group can get away on this platform"
    )
    return Fact(subject=subject, fine=False, words=words)


def _cgroups(cgroups: Cgroups) -> Fact:
    bounded = ", ".join(cgroups.controllers) or "nothing"
    words = f"{bounded} limited per node" + (f"; {cgroups.missing}" if cgroups.missing else "")
    return Fact(subject="cgroup", fine=len(cgroups.controllers) == len(CONTROLLERS), words=words)
