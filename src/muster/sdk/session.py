"""One life as a node: a thread of its own, so that neither the app nor the control plane waits for the other.

Nothing that goes wrong here gets out: it is logged once, when it begins and when it ends, and tried again.
Wake-ups come through a queue that may be used inside a signal handler.
"""

import logging
import random
import secrets
import threading
import time
from queue import Empty, SimpleQueue
from typing import Self

import httpx
import msgspec

from muster.domain.health import Health
from muster.sdk.membership import RETRY_MOST, Answer, Introduction, Kind, Membership, Request, Word
from muster.sdk.settings import Settings
from muster.wire.base import Problem, body_of

logger = logging.getLogger("muster.sdk")

LOOK_FIRST, LOOK_MOST = 0.05, 1.0
"""Seconds between two looks whether the app's server accepts."""
NEVER = 3600.0
CONNECT_WITHIN, ANSWER_WITHIN = 3.0, 8.0
_UNUSABLE = Answer(status=0, detail="the answer is not Muster's")


class Link:
    """The way to the servers: the one that answered last, then the others."""

    def __init__(self, settings: Settings) -> None:
        self._servers = settings.servers
        self._first = 0
        # Below httpx's client: that one writes a line into the app's log for every heartbeat.
        self._http = httpx.HTTPTransport(
            verify=settings.verify,
            trust_env=False,  # what is set for the app's own calls is not meant for its control plane
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def say(self, request: Request, *, within: float | None = None) -> Answer:
        """Ask one server after the other, until one of them answers for itself."""
        answer = _UNUSABLE
        for _ in self._servers:
            answer = self._ask(self._servers[self._first], request, within)
            if not answer.failing:
                return answer
            self._first = (self._first + 1) % len(self._servers)
        return answer

    def _ask(self, server: str, request: Request, within: float | None) -> Answer:
        try:
            try:
                return self._post(server, request, within)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A kept connection that the server closed meanwhile. All that we say may be repeated.
                return self._post(server, request, within)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return Answer(status=0, detail=f"{server}: {type(error).__name__}")

    def _post(self, server: str, request: Request, within: float | None) -> Answer:
        bound = ANSWER_WITHIN if within is None else min(ANSWER_WITHIN, within)
        patience = httpx.Timeout(bound, connect=min(CONNECT_WITHIN, bound))
        headers = {
            "Authorization": f"Bearer {request.bearer}",
            "Content-Type": "application/json",
            "User-Agent": "muster-sdk",
        }
        asked = httpx.Request(
            "POST",
            server + request.path,
            content=body_of(request.body),
            headers=headers,
            extensions={"timeout": patience.as_dict()},
        )
        found = self._http.handle_request(asked)
        try:
            found.read()
        finally:
            found.close()
        return _answer(server, found)


def _answer(server: str, found: httpx.Response) -> Answer:
    try:
        if found.is_success:
            msgspec.json.decode(found.content, type=dict)
            return Answer(status=200, body=found.content)
        said = msgspec.json.decode(found.content, type=Problem)
    except msgspec.DecodeError:
        # A proxy or another program speaks here. Its refusals are not the control plane's.
        return Answer(status=0, detail=f"{server} answers {found.status_code}, and not as Muster does")
    retry_after = found.headers.get("retry-after", "")
    return Answer(
        status=found.status_code,
        code=said.code,
        detail=said.detail,
        retry_after=float(retry_after) if retry_after.isdigit() else 0.0,
    )


class Session:
    def __init__(self, settings: Settings, word: Word, *, up: bool) -> None:
        """Prepare the session. `up`: look for the app's server at once; else from `serving` on."""
        self._settings = settings
        self._word = word
        self._up = up
        self._accepts = False
        self._draining = False
        self._complained = False
        self._leave_by: float | None = None
        self._news: SimpleQueue[None] = SimpleQueue()
        introduction = Introduction(
            token=settings.token,
            name=settings.name,
            address=settings.address,
            beat_seconds=settings.beat_seconds,
        )
        self.membership = Membership(
            introduction, draw=lambda: secrets.token_urlsafe(24), jitter=random.random
        )
        self._thread = threading.Thread(target=self._live, name="muster-node", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def status(self) -> Health:
        if self._draining or self._leave_by is not None:
            return Health.OFFLINE
        return self._word.status if self._accepts else Health.STARTING

    # --- from the app, also from inside a signal handler ------------------------------------------

    def say(self, word: Word) -> None:
        self._word = word
        self._news.put(None)

    def serving(self) -> None:
        self._up = True
        self._news.put(None)

    def drain(self) -> None:
        self._draining = True
        self._news.put(None)

    def stop(self) -> None:
        """Say goodbye, within bounds: an app that ends is not kept waiting for a server that is away."""
        self._leave_by = time.monotonic() + self._settings.leave_within
        self._news.put(None)
        self._thread.join(self._settings.leave_within)

    # --- the thread -------------------------------------------------------------------------------

    def _live(self) -> None:
        while True:
            try:
                with Link(self._settings) as link:
                    self._beat_for_ever(link)
                return
            except Exception:
                # Out of files or memory, or a bug of ours: no reason to end the app, or to give up.
                logger.exception("cannot be a node just now; trying again soon")
            if self._leave_by is not None:
                return
            self._rest(RETRY_MOST)

    def _beat_for_ever(self, link: Link) -> None:
        due, look, pace = 0.0, 0.0, LOOK_FIRST
        word = self._word
        while not self.membership.over:
            now = time.monotonic()
            if self._leave_by is not None:
                self._say_goodbye(link)
                return
            if self._up and not self._accepts and now >= look:
                self._accepts = self._look()
                if self._accepts and not self.membership.failing:
                    due = now
                look, pace = now + pace, min(pace * 1.5, LOOK_MOST)
            changed = self._word != word or (self._draining and not self.membership.offline)
            if changed and not self.membership.failing:
                due = now
            if now >= due:
                word = self._word
                pause = self._exchange(link)
                due = time.monotonic() + (NEVER if pause is None else pause)
            waits = due if self._accepts or not self._up else min(due, look)
            self._rest(waits - time.monotonic())

    def _look(self) -> bool:
        try:
            return bool(self._settings.accepts())
        except Exception as error:
            # It is the app's own function. It is asked often; it is complained about once.
            if not self._complained:
                logger.warning("cannot check whether the app is up: accepts() failed: %r", error)
            self._complained = True
            return False

    def _exchange(self, link: Link, within: float | None = None) -> float | None:
        """Say the next thing. Gives the seconds until the one after it; None: there was nothing to say."""
        request = self.membership.next(
            accepts=self._accepts,
            draining=self._draining,
            leaving=self._leave_by is not None,
            word=self._word,
            activity=_activity(),
        )
        if request is None:
            return None
        joined, problem = self.membership.joined, self.membership.problem
        pause = self.membership.on_answer(request, link.say(request, within=within))
        self._log(request, joined=joined, problem=problem)
        return pause

    def _log(self, request: Request, *, joined: bool, problem: str | None) -> None:
        after = self.membership
        if after.joined and not joined:
            logger.info("the app is node %s (%s)", after.node_id, self._settings.name)
        elif after.problem != problem and after.problem is not None:
            level = logging.ERROR if request.kind is Kind.ENROL else logging.WARNING
            logger.log(level, "%s", after.problem)
        elif after.problem is None and problem is not None:
            logger.info("the server answers again")

    def _say_goodbye(self, link: Link) -> None:
        while (left := (self._leave_by or 0.0) - time.monotonic()) > 0:
            pause = self._exchange(link, within=left)
            if pause is None:
                return
            if self.membership.failing:
                self._rest(min(pause, left))

    def _rest(self, seconds: float) -> None:
        """Wait until the time is over, or there is news."""
        try:
            self._news.get(timeout=max(0.0, min(seconds, NEVER)))
        except Empty:
            return
        while not self._news.empty():
            self._news.get_nowait()


def _activity() -> int:
    """Return how much the app has done since its start, without this thread's work. It tells slow
    from stuck."""
    return max(0, int((time.process_time() - time.thread_time()) * 1000))
