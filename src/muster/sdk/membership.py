"""What an app says next, and what an answer means. Pure: no clock, no socket, no thread.

         ┌──────────── 401, 404: the same key ───────────┐
         ▼                                               │
enrol ──────▶ beat `starting` ──accepts──▶ report ──▶ beat `ready`, `degraded` ──▶ `offline`, left
         ▲                                               │
         └──────── 410 lost: goodbye, a new key ─────────┤
                                                         └── 410 removed: goodbye, and it stays out
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from muster.domain.backoff import backoff, spread
from muster.domain.health import Health
from muster.wire.agent import Beat, Enrolled, EnrolRequest, Report
from muster.wire.base import AgentMessage

REASON_MOST = 256
RETRY_FIRST = 0.5
RETRY_MOST = 15.0
"""A control plane that comes back hears every node well before it calls one silent."""
REFUSED_MOST = 60.0
"""A refusal seldom changes by itself: a token is renewed, a cap is raised."""
_OK, _UNAUTHENTICATED, _NOT_FOUND, _CONFLICT, _GONE = 200, 401, 404, 409, 410
_BUSY = (408, 425, 429)
_FAILING = 500


class Kind(StrEnum):
    ENROL = "enrol"
    REPORT = "report"
    BEAT = "beat"
    OFFLINE = "offline"
    LEAVE = "leave"
    FAREWELL = "farewell"


_PATHS = {Kind.ENROL: "enrol", Kind.BEAT: "beat", Kind.OFFLINE: "beat"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    kind: Kind
    bearer: str = field(repr=False)
    body: AgentMessage = field(repr=False)

    @property
    def path(self) -> str:
        return f"/api/v1/agent/{_PATHS.get(self.kind, 'report')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`status` 0: no answer, or one that is not Muster's."""

    status: int
    code: str = ""
    detail: str = ""
    retry_after: float = 0.0
    body: bytes = field(default=b"", repr=False)

    @property
    def ok(self) -> bool:
        return self.status == _OK

    @property
    def failing(self) -> bool:
        """Return whether a later request, or another server, may succeed."""
        return self.status == 0 or self.status >= _FAILING or self.status in _BUSY


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """How the app feels, by its own word."""

    status: Health
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What it says of itself when it enrols."""

    token: str = field(repr=False)
    name: str
    address: str
    beat_seconds: float


class Membership:
    """`draw` gives fresh secrets, `jitter` numbers from 0 to 1."""

    def __init__(
        self, introduction: Introduction, *, draw: Callable[[], str], jitter: Callable[[], float]
    ) -> None:
        self._said = introduction
        self._draw = draw
        self._jitter = jitter
        self._key = draw()
        self._boot_id = draw()
        self._token: str | None = None
        self._assignment: str | None = None
        self._serving = False
        self._farewell: str | None = None
        """The token of a node that the server gave up: it says goodbye with it."""
        self._failures = 0
        self.node_id: str | None = None
        self.offline = False
        """Reported before the app ends."""
        self._left = False
        self._out = False
        """An operator removed the node."""
        self.problem: str | None = None
        """Why it is not a node just now, in words for people."""

    @property
    def joined(self) -> bool:
        return self._token is not None

    @property
    def over(self) -> bool:
        """Return whether the app left or was removed: there is nothing more to send."""
        return self._left or (self._out and self._farewell is None)

    @property
    def failing(self) -> bool:
        return self._failures > 0

    # --- what to say ------------------------------------------------------------------------------

    def next(
        self, *, accepts: bool, draining: bool, leaving: bool, word: Word, activity: int
    ) -> Request | None:
        """Return the next request; None: there is nothing more to send."""
        if self.over:
            return None
        if self._farewell is not None:
            return Request(kind=Kind.FAREWELL, bearer=self._farewell, body=Report(left=True))
        if self._token is None:
            return None if leaving or draining else self._enrol()
        if leaving and self.offline:
            return Request(kind=Kind.LEAVE, bearer=self._token, body=Report(left=True))
        if leaving or draining:
            beat = Beat(status=Health.OFFLINE, reason="stopping" if leaving else "draining")
            return Request(kind=Kind.OFFLINE, bearer=self._token, body=beat)
        if not accepts:
            beat = Beat(status=Health.STARTING, activity=activity)
            return Request(kind=Kind.BEAT, bearer=self._token, body=beat)
        if not self._serving:
            report = Report(booted=True, attached=self._assignment)
            return Request(kind=Kind.REPORT, bearer=self._token, body=report)
        beat = Beat(status=word.status, reason=in_one_line(word.reason))
        return Request(kind=Kind.BEAT, bearer=self._token, body=beat)

    def _enrol(self) -> Request:
        body = EnrolRequest(
            key=self._key,
            boot_id=self._boot_id,
            name=self._said.name,
            address=self._said.address or None,
            beat_seconds=self._said.beat_seconds,
        )
        return Request(kind=Kind.ENROL, bearer=self._said.token, body=body)

    # --- what the answer means --------------------------------------------------------------------

    def on_answer(self, request: Request, answer: Answer) -> float:
        """Take an answer in. Gives the seconds until the next word is due, unless there is news before."""
        if request.kind is Kind.FAREWELL:
            self._farewell = None  # whatever it was: its time is over by itself too
            return 0.0
        if answer.failing:
            return self._again(answer, RETRY_MOST, f"no server answers ({answer.detail or answer.status})")
        if request.kind is Kind.LEAVE:
            self._left, self._token = True, None
            return 0.0
        if answer.ok:
            return self._accepted(request, answer)
        if answer.status == _GONE:
            return self._turned_away(answer)
        if request.kind is Kind.ENROL:
            return self._refused(answer)
        if answer.status in (_UNAUTHENTICATED, _NOT_FOUND):
            # Forgotten, or our token was replaced. The same key finds the same node, if there is one.
            self._forget()
            return self._again(answer, RETRY_MOST, None)
        return self._again(answer, RETRY_MOST, f"the server refuses the request: {answer.detail}")

    def _accepted(self, request: Request, answer: Answer) -> float:
        if request.kind is Kind.ENROL:
            try:
                made = msgspec.json.decode(answer.body, type=Enrolled)
            except msgspec.DecodeError:
                return self._again(answer, RETRY_MOST, "the server's answer is not Muster's")
            self.node_id, self._token = made.node_id, made.token
            self._assignment = made.desired.assignment_id
            self._serving = self.offline = False
            self.problem = None
            return 0.0
        self._failures, self.problem = 0, None
        if request.kind is Kind.REPORT:
            self._serving = True
            return 0.0
        if request.kind is Kind.OFFLINE:
            self.offline = True
        return self._said.beat_seconds * (1.0 - 0.1 * self._jitter())

    def _turned_away(self, answer: Answer) -> float:
        self._farewell = self._token
        self._forget()
        if answer.code == "removed":
            self._out = True
            self.problem = f"this app was taken out and stays out until it is started again: {answer.detail}"
            return 0.0
        self._key = self._draw()
        return self._again(answer, RETRY_MOST, f"this app was given up and enrols again: {answer.detail}")

    def _refused(self, answer: Answer) -> float:
        if answer.status == _CONFLICT and answer.code == "conflict":
            return self._again(answer, RETRY_MOST, None)
        advice = ""
        if answer.status == _UNAUTHENTICATED:
            advice = "; make another with `muster tokens create --role enrol` and set MUSTER_ENROL_TOKEN"
        return self._again(answer, REFUSED_MOST, f"cannot enrol: {answer.detail or answer.status}{advice}")

    def _forget(self) -> None:
        self._token = self._assignment = self.node_id = None
        self._serving = False

    def _again(self, answer: Answer, most: float, problem: str | None) -> float:
        pause = backoff(self._failures, first=RETRY_FIRST, most=most)
        self._failures += 1
        self.problem = problem or self.problem
        return max(spread(pause, self._jitter()), min(answer.retry_after, most))


def in_one_line(reason: str) -> str:
    """Return the text as a server accepts it: printable, short, without blanks at the ends."""
    words = " ".join(str(reason).split())
    return "".join(each if each.isprintable() else "?" for each in words)[:REASON_MOST].strip()
