"""What the lines of a boot say: signs of trouble, signs that it passed, and how a script ended.

Owns the patterns and the reading of single lines. A sign of trouble counts only if no later line shows that
it passed: boots are full of retries that worked. Refuses to weigh causes against each other, which is the
work of `diagnosis_rules`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.diagnosis import AGENT_STAMP, Cause, Evidence, Source
from muster.domain.text import without_escapes

LINE_MOST = 1000
"""Characters of a line that are looked at; what matters stands at its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    section: Source
    number: int
    text: str

    @property
    def evidence(self) -> Evidence:
        return Evidence(section=self.section, line=self.number, text=self.text.strip()[:300])


def lines_of(section: Source, text: str) -> list[Line]:
    """Return the lines as a terminal would show them: without colours, and the last state of a
    progress bar."""
    return [
        Line(section=section, number=number, text=_seen(raw))
        for number, raw in enumerate(text.split("\n"), 1)
    ]


def _seen(raw: str) -> str:
    shown = raw[: 20 * LINE_MOST].rstrip("\r").rpartition("\r")[2]
    return without_escapes(shown)[:LINE_MOST]


# --- trouble, and how it passes ---------------------------------------------------------------------------

# Deepest first: a package that can't be fetched for want of a name server is no trouble with packages.
DEPTH = (
    Cause.KERNEL_PANIC,
    Cause.REGISTRATION_REFUSED,
    Cause.DISK_FULL,
    Cause.OUT_OF_MEMORY,
    Cause.DNS,
    Cause.TLS,
    Cause.NO_ROUTE,
    Cause.IMAGE_PULL,
    Cause.PACKAGE_INSTALL,
    Cause.AGENT_NEVER_STARTED,
)

TROUBLE: dict[Cause, re.Pattern[str]] = {
    Cause.KERNEL_PANIC: re.compile(
        r"Kernel panic - not syncing|Entering emergency mode\. |You are in emergency mode\. "
        r"|Unable to mount root fs"
    ),
    Cause.REGISTRATION_REFUSED: re.compile(
        r"\bturned away \((?:401|403|410)\)"
        r"|Http response code: \w+ from 'POST \S{0,200}runner-registration"
        r"|runner registration has been deleted|runner version \S+ is deprecated and cannot receive messages"
    ),
    Cause.DISK_FULL: re.compile(
        r"No space left on device|\bENOSPC\b|Disk quota exceeded|You don't have enough free space in"
        r"|At least [\d.]+ ?[KMG]i?B more space needed|needs? [\d.]+ ?[KMG]i?B \S{0,12} ?on the \S+ file",
        re.IGNORECASE,
    ),
    Cause.OUT_OF_MEMORY: re.compile(
        r"\bOut of memory: Kill(?:ed)? process \d+|Memory cgroup out of memory: Killed process|\boom-kill:"
        r"|\bCannot allocate memory|^MemoryError\b|JavaScript heap out of memory|std::bad_alloc"
        r"|fatal error: runtime: out of memory"
    ),
    Cause.DNS: re.compile(
        r"Temporary failure in name resolution|Could not resolve (?:host|proxy|')|Name or service not known"
        r"|Temporary failure resolving|\bno such host\b|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|NXDOMAIN"
        r"|nodename nor servname provided|unable to resolve host address|\bwget: bad address '"
        r"|\bUnknownHostException\b",
        re.IGNORECASE,
    ),
    Cause.TLS: re.compile(
        r"certificate verify failed|SSL certificate problem|x509: certificate|CERTIFICATE_VERIFY_FAILED"
        r"|unable to get local issuer certificate|tls: failed to verify",
        re.IGNORECASE,
    ),
    Cause.NO_ROUTE: re.compile(
        r"No route to host|Network is unreachable|\bConnection refused|\bConnection timed out"
        r"|curl: \((?:7|28)\)|\bECONNREFUSED\b|\bETIMEDOUT\b|\bEHOSTUNREACH\b|dial tcp \S{1,80}: i/o timeout"
        r"|\bthe server did not answer: join\b|\bno answer to join \(0\)",  # the second: agents before 0.2
        re.IGNORECASE,
    ),
    Cause.IMAGE_PULL: re.compile(
        r"\bmanifest unknown|manifest for \S+ not found|pull access denied|\btoomanyrequests:"
        r"|\bErrImagePull\b|\bImagePullBackOff\b|[Ee]rror pulling image"
        r"|[Ff]ailed to pull (?:image|and unpack)|no basic auth credentials"
        r"|failed to resolve reference|failed to register layer"
        r"|Error response from daemon: (?:Get|Head) \"https?://|unauthorized: authentication required"
        r"|reading manifest \S{1,200} in \S{1,200}: "
    ),
    Cause.PACKAGE_INSTALL: re.compile(
        r"(?:^|[\s:])E: (?:Unable to|Failed to|Could not|Package|Version|Sub-process|Some|The repo|dpkg)"
        r"|\bdpkg: error processing|Errors were encountered while processing"
        r"|Error: Unable to find a match|Error: Failed to download|Error downloading packages"
        r"|Error: Transaction test error|No match for argument:|Cannot find a valid baseurl"
        r"|All mirrors were tried"
        r"|ERROR: (?:Could not find a version|No matching distribution|Failed building wheel)"
        r"|ERROR: Could not install|error: subprocess-exited-with-error|\bnpm (?:ERR!|error) code"
        r"|held broken packages|unmet dependencies|\(no such package\)|\bNo package \S{1,100} available\b"
    ),
    Cause.AGENT_NEVER_STARTED: re.compile(
        r"muster: cannot start the agent|Unhandled non-multipart \(\S+\) userdata"
        r"|muster-agent\.service: Start request repeated too quickly"
        r"|(?:can't open file|cannot open) '?\S*muster-?agent|muster-agent: (?:command )?not found"
    ),
}

_ONLINE = re.compile(
    r"\bjoined as |HTTP/[\d.]+\"? 200|\bGet:\d+ http|\bFetched [\d.,]+ ?[kMG]?B in|\bPull complete\b"
    r"|\bComplete!$|Successfully installed |Status: Downloaded newer image"
)
PASSED: dict[Cause, re.Pattern[str]] = {
    Cause.KERNEL_PANIC: re.compile(r"\] Linux version \d|^Linux version \d"),
    Cause.REGISTRATION_REFUSED: re.compile(r"\bjoined as |Runner successfully added|Listening for Jobs"),
    Cause.DISK_FULL: re.compile(
        r"\bComplete!$|Status: Downloaded newer image|Successfully installed |\bProcessing triggers for "
        r"|\badded \d+ packages"
    ),
    Cause.OUT_OF_MEMORY: re.compile(r"(?!)"),
    Cause.DNS: _ONLINE,
    Cause.TLS: _ONLINE,
    Cause.NO_ROUTE: _ONLINE,
    Cause.IMAGE_PULL: re.compile(r"Status: (?:Downloaded newer image|Image is up to date)|\bLoaded image: "),
    Cause.PACKAGE_INSTALL: re.compile(
        r"\bComplete!$|Successfully installed |\bSetting up \S+ \(|\bFetched [\d.,]+ ?[kMG]?B in"
        r"|\badded \d+ packages|\bProcessing triggers for "
    ),
    Cause.AGENT_NEVER_STARTED: re.compile(r"\bjoined as |Started (?:Muster agent|muster-agent)"),
}
MOVED_ON = re.compile(r"\dZ step: ")
"""The script named its next step: whatever went wrong before it, it went on."""
_IGNORED = re.compile(
    r"(?:^|\s)(?:Ign|W):|\bwarning:|\bWARNING:|\bnpm (?:WARN|warn)\b|\bretrying in \d"
    r"|(?:^|[\]:] )(?:\++ |PASSED |--- PASS: |ok \d+ )",
    re.IGNORECASE,
)
"""A tool that says that it goes on, a command that is only quoted, a test that passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    cause: Cause
    at: int
    """Index into the lines."""


def symptoms(lines: Sequence[Line]) -> list[Symptom]:
    """Return trouble that no later line of the same section takes back, in order.

    Each pattern reads each line at most once: jobs write these lines, and may write them to keep us busy.
    """
    standing: dict[tuple[Source, Cause], list[Symptom]] = {}
    for at, line in enumerate(lines):
        moved_on = MOVED_ON.search(line.text) is not None
        for section, cause in list(standing):
            if section is line.section and (moved_on or PASSED[cause].search(line.text)):
                del standing[section, cause]
        if not _IGNORED.search(line.text):
            for cause, sign in TROUBLE.items():
                if sign.search(line.text):
                    found = standing.setdefault((line.section, cause), [])
                    found.append(Symptom(cause=cause, at=at))
    order = {cause: place for place, cause in enumerate(TROUBLE)}
    return sorted(
        (each for found in standing.values() for each in found),
        key=lambda each: (each.at, order[each.cause]),
    )


# --- how a script ended -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnd:
    """A script that ended badly: where that is said, and the lines in which its last words stand."""

    at: int
    first: int
    last: int
    """The last words: lines[first:last]."""
    how: str
    killed: bool


WORDS = 60
"""Lines before the end of a script that can say why."""
_AGENT_SAYS = re.compile(
    r"\bthe boot script (?:ended with (?P<code>\d+)|was killed by signal (?P<signal>\d+))"
)
_CLOUD_INIT_SAYS = re.compile(
    r"Failed running /var/lib/cloud/\S{0,200}/scripts/\S{1,200} \[(?P<code>-?\d+)\]"
)
_MODULE_FAILED = re.compile(r"(?:Failed to run|Running) module scripts[-_]user\b(?!.{0,200}\bsucceeded)")
_KILLED = 128


def script_end(lines: Sequence[Line]) -> ScriptEnd | None:
    """Return how the last script that failed ended."""
    ends = [end for at, line in enumerate(lines) if (end := _end(lines, at, line)) is not None]
    return ends[-1] if ends else None


def _end(lines: Sequence[Line], at: int, line: Line) -> ScriptEnd | None:
    if said := _AGENT_SAYS.search(line.text):
        # The agent quotes the script's last words below, up to its own next line.
        last = at + 1
        while (
            last < len(lines)
            and lines[last].section is line.section
            and not AGENT_STAMP.match(lines[last].text)
        ):
            last += 1
        code = int(said["code"]) if said["code"] else -int(said["signal"])
        return ScriptEnd(at=at, first=at + 1, last=last, how=_how(code), killed=_was_killed(code))
    if said := _CLOUD_INIT_SAYS.search(line.text):
        code = int(said["code"])
        return ScriptEnd(at=at, first=max(0, at - WORDS), last=at, how=_how(code), killed=_was_killed(code))
    return None


def cloud_init_gave_up(lines: Sequence[Line]) -> bool:
    """Return whether all parts of the user data have run, and some failed."""
    return any(_MODULE_FAILED.search(line.text) for line in lines)


def _was_killed(code: int) -> bool:
    return code < 0 or _KILLED < code < 2 * _KILLED - 1


def _how(code: int) -> str:
    if code < 0:
        return f"killed by signal {-code}"
    if _was_killed(code):
        return f"exit status {code}, killed by signal {code - _KILLED}"
    return f"exit status {code}"


# --- where it failed --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a script failed, as its interpreter says."""

    at: int
    number: int | None
    command: str
    message: str = ""


_BASH = re.compile(r"(?:^|\s)\S+: line (?P<number>\d+): +(?P<said>\S.*)")
_DASH = re.compile(r"(?:^|\s)(?:/\S+|\S+\.sh|sh|dash|boot): (?P<number>\d+): (?P<said>\S.*)")
_TRAP = re.compile(
    r"\b(?:error|fail\w*)\b.{0,40}?\bline (?P<number>\d+)\b(?:[:;,)] ?|\s+)?(?P<said>.*)", re.IGNORECASE
)
_TRACE = re.compile(r"(?:^|[\]:] )\++ (?:\S+?:(?P<number>\d+): )?(?P<said>\S.*)")
_PYTHON = re.compile(r'^.*?File "(?P<file>[^"]+)", line (?P<number>\d+)')
_PYTHON_ERROR = re.compile(r"(?:^|: )(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Expired)\b")
_NOT_THE_COMMAND = re.compile(r"(?:exit|trap|cleanup|on_error|rm -rf? /tmp|echo|set|return|local)\b")


def place(lines: Sequence[Line], end: ScriptEnd) -> Place | None:
    """Return the last line of a script's output that names a place; else the last command that it traced."""
    traced: Place | None = None
    for at in range(end.last - 1, end.first - 1, -1):
        text = lines[at].text
        if found := _BASH.search(text) or _DASH.search(text):
            command, _, message = _command(found["said"])
            return Place(at=at, number=int(found["number"]), command=command, message=message)
        if _PYTHON_ERROR.search(text):
            return _python(lines, at, end.first)
        if found := _TRAP.search(text):
            return Place(at=at, number=int(found["number"]), command=found["said"].strip())
        if traced is None and (found := _TRACE.search(text)) and not _NOT_THE_COMMAND.match(found["said"]):
            number = int(found["number"]) if found["number"] else None
            traced = Place(at=at, number=number, command=found["said"].strip())
    return traced


_KILLED_JOB = re.compile(
    r"\d+ (?P<how>[A-Z][a-z]+(?: [a-z]+)*+)(?: \(core dumped\))?\s{2,}+(?P<command>\S.*)"
)


def _command(said: str) -> tuple[str, str, str]:
    """Return the command that `foo: command not found` or `1234 Killed  foo --bar` names."""
    if killed := _KILLED_JOB.match(said):
        return killed["command"].strip(), ":", killed["how"]
    command, colon, message = said.partition(": ")
    return command, colon, message


def _python(lines: Sequence[Line], at: int, first: int) -> Place:
    message = lines[at].text.strip()
    for frame in range(at - 1, max(first, at - WORDS) - 1, -1):
        if found := _PYTHON.search(lines[frame].text):
            source = lines[frame + 1].text.strip() if frame + 1 < at else ""
            return Place(at=at, number=int(found["number"]), command=source, message=message)
    return Place(at=at, number=None, command="", message=message)
