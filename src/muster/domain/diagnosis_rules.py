"""Find the cause in a failure bundle, and in a live console what can't succeed any more.

Trouble that passed doesn't count. Near its end, a script's own last output counts more than earlier trouble.
A deeper cause counts more than what it led to. `fatal_sign` judges a node that may still boot, so it reports
only what is sure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.diagnosis import Bundle, Cause, Diagnosis, Evidence, Source
from muster.domain.reasons import ADVICE as REASON_ADVICE
from muster.domain.reasons import ENDINGS, Reason
from muster.domain.symptoms import (
    DEPTH,
    Line,
    Place,
    ScriptEnd,
    Symptom,
    cloud_init_gave_up,
    lines_of,
    place,
    script_end,
    symptoms,
)

NEAR = 40
"""Lines before the end in which trouble can be its cause."""
UNREACHABLE_TRIES = 10
UNREACHABLE_AFTER = 120.0
"""Seconds of watching before failed tries count: while this server was away they prove nothing."""

ADVICE: dict[Cause, str] = {
    Cause.SCRIPT_FAILED: "fix that line of the boot script and apply the template again",
    Cause.PACKAGE_INSTALL: "check the package's name and its mirror, or bake it into the machine image",
    Cause.IMAGE_PULL: "check the image's name and tag and the registry's credentials",
    Cause.DNS: "check the name servers that the machine is given, and that the name exists",
    Cause.NO_ROUTE: "check routes, security groups and proxies between the machine and that address",
    Cause.TLS: "check the machine's clock and its trusted certificates, or the proxy in between",
    Cause.DISK_FULL: "give the template a larger disk, or download less in the script",
    Cause.OUT_OF_MEMORY: "use a larger resource class, or use less memory in the script",
    Cause.KERNEL_PANIC: "check the kernel and the root file system of the machine image",
    Cause.MACHINE_GONE: "look for an interruption, a manual deletion or the provider's own report",
    Cause.AGENT_NEVER_STARTED: "check that the image has Python 3 and that its user data runs the agent",
    Cause.REGISTRATION_REFUSED: "read why the server refused it: a copied image or an old token can't join",
    Cause.STALLED: "check the last line: its command waits for something",
    Cause.SLOW: "raise provision_timeout, or move the slowest phase into the image",
    Cause.UNKNOWN: "read all sections: `muster nodes diagnosis NODE`",
}

NOT_STARTED = "the boot script did not start: fix its first line and apply the template"
_UNSTARTED = "cannot start it: "
"""How the agent begins to tell so, where otherwise the script's own last words are."""
AFTER_IT = "this is its last output: fix the next line of the boot script and apply the template"


def classify(bundle: Bundle) -> Diagnosis:
    lines = [
        line
        for name in (Source.CONSOLE, Source.AGENT)
        if (section := bundle.section(name)) is not None and section.text
        for line in lines_of(name, section.text)
    ]
    found = symptoms(lines)
    decisive = _decisive(lines, found) or _ended(lines, found)
    if decisive is not None:
        return decisive
    if bundle.reason in ENDINGS:
        return _gone(bundle, bundle.reason)
    last = _deepest([each for each in found if each.at >= len(lines) - NEAR and not _unrelated(each, lines)])
    if last is not None:
        return _because(last, lines, fatal=False)
    return _by_reason(bundle, lines)


def fatal_sign(
    console: str, *, joined: bool, watched: float, control_plane: Sequence[str] = ()
) -> Diagnosis | None:
    """Return a sign that the boot can't succeed any more, or None.

    `joined`: the agent has joined, and reports its script itself. `watched`: seconds for which this control
    plane was reachable. `control_plane`: its host names.
    """
    lines = lines_of(Source.CONSOLE, console)
    found = symptoms(lines)
    decisive = _decisive(lines, found)
    if decisive is not None and decisive.cause is Cause.KERNEL_PANIC:
        return decisive if any(_HALTED.search(line.text) for line in lines) else None
    if joined or any("joined as " in line.text for line in lines):
        return None
    if decisive is not None:
        return decisive
    if cloud_init_gave_up(lines) and not _started(lines):
        return _ended(lines, found)
    if watched >= UNREACHABLE_AFTER:
        return _unreachable(lines, found, control_plane)
    return None


# --- what decides by itself -------------------------------------------------------------------------------


_HALTED = re.compile(r"end Kernel panic|mergency mode")
"""What the kernel says only when it won't reboot by itself."""
_SYSTEM = re.compile(r"\[ *\d+\.\d+\] (?!cloud-init)|.{0,40}\bsystemd\[1\]:")


def _decisive(lines: Sequence[Line], found: Sequence[Symptom]) -> Diagnosis | None:
    """Return a sign that the machine stands still for ever, or that the agent was refused or can't start."""
    for cause in (Cause.KERNEL_PANIC, Cause.REGISTRATION_REFUSED, Cause.AGENT_NEVER_STARTED):
        signs = [each for each in found if each.cause is cause]
        if signs:
            return _because(signs[0], lines, fatal=True)
    return None


def _started(lines: Sequence[Line]) -> bool:
    return any("Started Muster agent" in line.text or "Started muster-agent" in line.text for line in lines)


def _names(text: str, hosts: Sequence[str]) -> bool:
    """Return whether the text names one of the hosts, and not one that begins or ends like it."""
    return any(re.search(rf"(?<![\w.\-]){re.escape(host)}(?![\w\-]|\.\w)", text) for host in hosts)


def _unreachable(
    lines: Sequence[Line], found: Sequence[Symptom], control_plane: Sequence[str]
) -> Diagnosis | None:
    """Return a sign that the control plane can't be reached. Refused connections don't count: those end when
    the server is back."""
    tries = [
        each
        for each in found
        if each.cause in (Cause.DNS, Cause.NO_ROUTE)
        and "refused" not in lines[each.at].text
        and _names(lines[each.at].text, control_plane)
    ]
    if len({each.at for each in tries}) < UNREACHABLE_TRIES:
        return None
    last = max(each.at for each in tries)
    return _because(next(each for each in tries if each.at == last), lines, fatal=False)


# --- a script that ended ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blame:
    end: ScriptEnd
    where: Place | None
    trouble: tuple[Symptom, ...]
    """In the script's last words."""


def _ended(lines: Sequence[Line], found: Sequence[Symptom]) -> Diagnosis | None:
    end = script_end(lines)
    if end is None:
        return None
    first = max(end.first, end.last - NEAR)
    trouble = tuple(each for each in found if first <= each.at < end.last)
    blame = _Blame(end=end, where=place(lines, end), trouble=trouble)
    root = _root(blame, lines)
    if root is not None:
        return _because(root, lines, fatal=True, how=end.how, where=blame.where)
    return _script_failed(lines, blame)


def _root(blame: _Blame, lines: Sequence[Line]) -> Symptom | None:
    """Return the trouble that ended the script, or None: the script itself failed."""
    memory = [each for each in blame.trouble if each.cause is Cause.OUT_OF_MEMORY]
    told = blame.where is not None and "Killed" in blame.where.message
    if memory and (blame.end.killed or told):
        return memory[-1]
    # The kernel's word about some other process is no trouble of ours.
    relevant = [
        each for each in blame.trouble if each.cause is not Cause.OUT_OF_MEMORY or not _kernel(each, lines)
    ]
    where = blame.where
    if where is None or not where.message:
        return _deepest(relevant)
    if where.message.endswith("not found"):
        packages = [each for each in relevant if each.cause is Cause.PACKAGE_INSTALL]
        if packages:
            return packages[-1]
    # What a script's interpreter says last is later than trouble that the script had survived.
    return _deepest([each for each in relevant if each.at >= where.at])


def _unrelated(symptom: Symptom, lines: Sequence[Line]) -> bool:
    """Return whether the kernel killed some process, and another program wrote afterwards."""
    later = (line.text for line in lines[symptom.at + 1 :] if line.text.strip())
    return _kernel(symptom, lines) and not all(_SYSTEM.match(text) for text in later)


def _kernel(symptom: Symptom, lines: Sequence[Line]) -> bool:
    text = lines[symptom.at].text
    return "oom-kill:" in text or "illed process" in text


def _script_failed(lines: Sequence[Line], blame: _Blame) -> Diagnosis:
    end, where = blame.end, blame.where
    said = [line for line in lines[end.first : end.last] if line.text.strip()]
    proof = lines[where.at] if where is not None else said[-1] if said else lines[end.at]
    return Diagnosis(
        cause=Cause.SCRIPT_FAILED,
        summary=f"The boot script failed{_at(where)}: {end.how}{_told(where)}.",
        evidence=proof.evidence,
        advice=_advice(said, where),
        fatal=True,
    )


def _advice(said: Sequence[Line], where: Place | None) -> str:
    if len(said) == 1 and said[0].text.startswith(_UNSTARTED):
        return NOT_STARTED
    return ADVICE[Cause.SCRIPT_FAILED] if where is not None or not said else AFTER_IT


def _at(where: Place | None) -> str:
    if where is None:
        return ""
    number = "" if where.number is None else f" at line {where.number}"
    return f"{number} in `{where.command[:120]}`" if where.command else number


def _told(where: Place | None) -> str:
    return f", {where.message[:200].rstrip('.')}" if where is not None and where.message else ""


# --- what is left to say ----------------------------------------------------------------------------------

_NAMES = {
    Cause.PACKAGE_INSTALL: "A package could not be installed",
    Cause.IMAGE_PULL: "A container image could not be pulled",
    Cause.DNS: "A name could not be resolved",
    Cause.NO_ROUTE: "An address could not be reached",
    Cause.TLS: "A server's certificate was not accepted",
    Cause.DISK_FULL: "The disk is full",
    Cause.OUT_OF_MEMORY: "The machine ran out of memory",
    Cause.KERNEL_PANIC: "The operating system did not come up",
    Cause.AGENT_NEVER_STARTED: "The agent could not be started",
    Cause.REGISTRATION_REFUSED: "The server refused the agent",
}


def _deepest(found: Sequence[Symptom]) -> Symptom | None:
    """Return the last symptom of the deepest cause."""
    if not found:
        return None
    depth = min(DEPTH.index(each.cause) for each in found)
    return [each for each in found if DEPTH.index(each.cause) == depth][-1]


def _because(
    symptom: Symptom, lines: Sequence[Line], *, fatal: bool, how: str = "", where: Place | None = None
) -> Diagnosis:
    ended = f"; the boot script ended{_at(where)}: {how}" if how else ""
    return Diagnosis(
        cause=symptom.cause,
        summary=f"{_NAMES[symptom.cause]}{ended}.",
        evidence=lines[symptom.at].evidence,
        advice=ADVICE[symptom.cause],
        fatal=fatal,
    )


def _gone(bundle: Bundle, reason: Reason) -> Diagnosis:
    return Diagnosis(
        cause=Cause.MACHINE_GONE,
        summary=f"The machine is gone{f': {bundle.detail}' if bundle.detail else ''}.",
        evidence=_last(bundle, Source.PROVIDER) or _last(bundle, Source.CONSOLE),
        advice=ADVICE[Cause.MACHINE_GONE] if reason is Reason.MACHINE_GONE else REASON_ADVICE[reason],
        fatal=True,
    )


def _by_reason(bundle: Bundle, lines: Sequence[Line]) -> Diagnosis:
    phases = bundle.section(Source.PHASES)
    joined = "joined" in (phases.text if phases else "") or any("joined as " in line.text for line in lines)
    last = _last(bundle, Source.CONSOLE) or _last(bundle, Source.AGENT) or _last(bundle, Source.PHASES)
    detail = f": {bundle.detail}" if bundle.detail else ""
    match bundle.reason:
        case Reason.BOOT_SCRIPT_FAILED:
            cause, summary, fatal = Cause.SCRIPT_FAILED, f"The boot script failed{detail}.", True
        case Reason.BOOT_STALLED:
            cause, summary, fatal = Cause.STALLED, f"The boot stopped advancing{detail}.", False
        case Reason.BOOT_TIMEOUT if not joined:
            summary = f"The agent never reached the control plane{detail}."
            cause, fatal = Cause.AGENT_NEVER_STARTED, False
        case Reason.BOOT_TIMEOUT:
            cause, summary, fatal = Cause.SLOW, f"The boot did not end in time{detail}.", False
            last = _last(bundle, Source.PHASES) or last
        case _:
            cause, summary, fatal = Cause.UNKNOWN, f"The collected evidence shows no cause{detail}.", False
    return Diagnosis(cause=cause, summary=summary, evidence=last, advice=ADVICE[cause], fatal=fatal)


def _last(bundle: Bundle, name: Source) -> Evidence | None:
    section = bundle.section(name)
    said = [line for line in lines_of(name, section.text) if line.text.strip()] if section else []
    return said[-1].evidence if said else None


# --- for callers that fail the node ------------------------------------------------------------------------

_REASONS = {Cause.KERNEL_PANIC: Reason.MACHINE_GONE, Cause.MACHINE_GONE: Reason.MACHINE_GONE}


def reason_of(diagnosis: Diagnosis) -> Reason:
    """Return the reason code for a sign.

    A node that is merely not reached is given up as stalled, so that it can be rescued if it boots after all.
    """
    if not diagnosis.fatal:
        return Reason.BOOT_STALLED
    return _REASONS.get(diagnosis.cause, Reason.BOOT_SCRIPT_FAILED)
