"""What an app holds. It starts and stops with the app, and takes its word for how it feels.

with Node(port=8000) as node:            app = FastAPI(lifespan=node.lifespan())
    node.degraded("the database is slow")
"""

import atexit
import os
import signal
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import FrameType
from typing import Any, Self

import anyio
import anyio.to_thread

from muster.domain.health import Health
from muster.sdk.membership import Word
from muster.sdk.session import Session
from muster.sdk.settings import Arguments, resolve

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
READY = Word(status=Health.READY)


class Node:
    """This app as a node of Muster. Settings are read when it starts; see docs/sdk.md for each of them.

    server        MUSTER_SERVER: where Muster is; several URLs, separated by commas, are tried in turn
    token         MUSTER_ENROL_TOKEN, or a file named by MUSTER_ENROL_TOKEN_FILE: lets the app enrol
    port, host    MUSTER_APP_PORT: where the app listens; it is `starting` until that accepts connections
    accepts       instead of a port: says whether the app is up
    name          MUSTER_NAME: what people call this instance; the host's name if nothing is set
    address       MUSTER_ADDRESS: where the server can probe the app; nowhere if nothing is set
    beat_seconds  MUSTER_BEAT_SECONDS: from 2 to 30
    signals       False: SIGTERM is the app's own affair; it calls `drain` and `stop` itself
    """

    def __init__(
        self,
        *,
        server: str | Sequence[str] | None = None,
        token: str | None = None,
        port: int | None = None,
        host: str | None = None,
        accepts: Callable[[], bool] | None = None,
        name: str | None = None,
        address: str | None = None,
        probe_path: str = "/health",
        beat_seconds: float | None = None,
        leave_within: float = 5.0,
        verify: ssl.SSLContext | bool = True,
        signals: bool = True,
    ) -> None:
        self._arguments = Arguments(
            server=server,
            token=token,
            port=port,
            host=host,
            accepts=accepts,
            name=name,
            address=address,
            probe_path=probe_path,
            beat_seconds=beat_seconds,
            leave_within=leave_within,
            verify=verify,
        )
        self._signals = signals
        self._word = READY
        self._session: Session | None = None
        self._before: Any = None
        """What SIGTERM did before we listened."""
        self._pid = 0

    # --- how it feels -----------------------------------------------------------------------------

    def ready(self) -> None:
        """Report that the app works well again."""
        self._say(READY)

    def degraded(self, reason: str) -> None:
        """Report that the app works, but not well, until `ready` is called."""
        self._say(Word(status=Health.DEGRADED, reason=reason))

    def drain(self) -> None:
        """Report that the app takes no new work and will end: `offline` from now on."""
        if self._session is not None:
            self._session.drain()

    def _say(self, word: Word) -> None:
        self._word = word
        if self._session is not None:
            self._session.say(word)

    @property
    def id(self) -> str | None:
        """Return the app's id as a node; None while it is none."""
        return None if self._session is None else self._session.membership.node_id

    @property
    def status(self) -> str:
        return (Health.OFFLINE if self._session is None else self._session.status).value

    @property
    def problem(self) -> str | None:
        """Return why the app can't be a node now, in words; None if all is well."""
        return None if self._session is None else self._session.membership.problem

    # --- coming and going -------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to be a node, in the background. Raises Misconfigured, and nothing else ever."""
        self._start(up=True)

    def _start(self, *, up: bool) -> None:
        if self._session is not None:
            return
        self._session = Session(resolve(self._arguments), self._word, up=up)
        self._session.start()
        atexit.register(self.stop)
        self._listen()

    def stop(self) -> None:
        """Say `offline`, then goodbye; takes `leave_within` seconds at most. Does nothing twice."""
        self._stop_session(self._detached())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        # Also when the app's tasks are being cancelled: that is when there is something to say.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._stop_session, self._detached())

    def _detached(self) -> Session | None:
        """Undo what belongs to the main thread, in the main thread."""
        session, self._session = self._session, None
        if session is not None:
            atexit.unregister(self.stop)
            self._unlisten()
        return session

    def _stop_session(self, session: Session | None) -> None:
        if session is not None:
            session.stop()

    def lifespan(self, inner: Lifespan | None = None) -> Lifespan:
        """Return a lifespan for FastAPI and Starlette: `FastAPI(lifespan=node.lifespan())`.

        It may wrap a lifespan of your own. The SDK looks for the app's server after that has started.
        """

        @asynccontextmanager
        async def around(app: Any) -> AsyncIterator[Any]:
            self._start(up=inner is None)
            try:
                if inner is None:
                    yield
                else:
                    async with inner(app) as state:
                        if self._session is not None:
                            self._session.serving()
                        yield state
            finally:
                await self.__aexit__(None, None, None)

        return around

    # --- SIGTERM ----------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self._signals or threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGTERM)
        if before is signal.SIG_IGN or before is None:
            return  # the app wants no SIGTERM, or handles it outside of Python
        self._before = before
        self._pid = os.getpid()
        signal.signal(signal.SIGTERM, self._terminated)

    def _unlisten(self) -> None:
        if self._before is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, self._before)
        self._before = None

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        """Say at once that it takes no new work; then what would have happened without us."""
        if os.getpid() == self._pid:
            self.drain()
        if callable(self._before):
            self._before(number, frame)
        elif os.getpid() != self._pid:
            # A child that was forked off has our handler, and is no node.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        else:
            # The default kills without a word. An exit lets `with` blocks end, and this node leave.
            raise SystemExit(128 + number)
