"""Connect this terminal to a node's shell, through breaks of the connection, to its exit code.

One thread holds the connection and makes it anew; this one reads keys and writes output. Keys wait here until
the node has room for them. So `~.` works at any moment, also after a paste that no program reads. What the
connection brings waits, too: as much as a node may send at once. So a terminal that is stopped (Ctrl-S) stops
the program on the node, and the connection stays.
"""

import json
import os
import queue
import select
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from muster.cli import raw_terminal
from muster.cli.output import print_notice
from muster.cli.raw_terminal import STDIN, STDOUT, Escapes
from muster.client import CannotReach, SyncClient, calls
from muster.client.terminals import HEADER, PIECE, WINDOW, Exchange, Frame, Heard
from muster.domain.codes import Exit
from muster.domain.errors import Gone, MusterError, StoreUnavailable
from muster.domain.terminal import LINGER
from muster.domain.text import harmless

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection


_QUIET = 2.0
"""Seconds without the node before the person is told."""
_NOT_STARTED = (126, 127)
"""Exit codes of what could not be run."""
_WAITING = 2 * WINDOW
"""Bytes that wait to be shown. A node that keeps to the rules sends at most a window of them unasked."""
_TYPED = 16 << 20
"""Bytes that a person may type or paste ahead of the node."""


class Lost(Exception):
    """The connection can't be had again, or the server refuses it."""

    def __init__(self, error: MusterError) -> None:
        super().__init__(str(error))
        self.error = error


class Link(threading.Thread):
    """The connection: makes it anew until the node gives the shell up, and tells what comes."""

    def __init__(self, client: SyncClient, command_id: str, wake: int) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._command_id = command_id
        self._wake = wake
        self._over = False
        self._came: queue.SimpleQueue[Frame | ClientConnection | Lost | None] = queue.SimpleQueue()
        self._size = 0
        """Of what came and was not taken."""
        self._taken = threading.Condition()

    def run(self) -> None:
        since = time.monotonic()
        while not self._over:
            try:
                with self._client.terminal(self._command_id) as connection:
                    self._tell(connection)
                    for message in connection:
                        self._tell(message)
                since = time.monotonic()
                self._tell(None)
            except MusterError as error:
                passing = isinstance(error, StoreUnavailable | CannotReach)
                if not passing or time.monotonic() - since > LINGER:
                    self._tell(Lost(error))
                    return
            except Exception:  # a connection that broke says so in many ways
                since = time.monotonic()
                self._tell(None)
            time.sleep(0.3)

    def _tell(self, what: "Frame | ClientConnection | Lost | None") -> None:
        with self._taken:
            self._taken.wait_for(lambda: self._over or self._size < _WAITING)
            self._size += _size(what)
        self._came.put(what)
        with suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._wake, b"\0")

    @property
    def waiting(self) -> int:
        """Return how many messages wait."""
        return self._came.qsize()

    def take(self) -> "Frame | ClientConnection | Lost | None":
        """Return the first message that waits. None: the connection broke."""
        came = self._came.get_nowait()
        with self._taken:
            self._size -= _size(came)
            self._taken.notify()
        return came

    def close(self) -> None:
        with self._taken:
            self._over = True
            self._taken.notify()


def _size(came: "Frame | ClientConnection | Lost | None") -> int:
    """Return how much a message counts: its data, but one at least."""
    match came:
        case bytes():
            return max(1, len(came) - HEADER)
        case str():
            return len(came)
        case _:
            return 0


class Session:
    def __init__(self, client: SyncClient, command_id: str, node_id: str) -> None:
        self._client = client
        self._command_id = command_id
        self._node_id = node_id
        self._exchange = Exchange()
        self._escapes = Escapes()
        self._tty = os.isatty(STDIN)
        self._typed = bytearray()
        """What the exchange has no room for yet."""
        self._connection: ClientConnection | None = None
        self._alone_since: float | None = time.monotonic()
        self._reading = True
        self._met = False
        """Whether the node's end was there."""
        self._code: int | None = None

    def run(self) -> int:
        """Return the exit code of the shell. The terminal is as before in any case."""
        wake, ring = os.pipe()
        os.set_blocking(ring, False)
        link = Link(self._client, self._command_id, ring)
        before = signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        resized = signal.signal(signal.SIGWINCH, lambda *_: self._resize())
        try:
            with raw_terminal.raw():
                link.start()
                while self._code is None:
                    self._turn(link, wake)
            return self._code
        finally:
            link.close()
            signal.signal(signal.SIGWINCH, resized)
            signal.set_wakeup_fd(before)

    def _turn(self, link: Link, wake: int) -> None:
        room = _TYPED if self._tty else 1  # a pipe waits by itself
        wanted = [wake, STDIN] if self._reading and len(self._typed) < room else [wake]
        ready, _, _ = select.select(wanted, [], [], 0.5 if self._alone_since is not None else 30.0)
        if wake in ready:
            os.read(wake, 4096)
            self._take(link)
        if STDIN in ready and self._code is None:
            self._type()
        self._pass_on()
        self._mention_absence()

    # --- what is typed ----------------------------------------------------------------------------

    def _type(self) -> None:
        data = os.read(STDIN, PIECE)
        self._reading = bool(data)
        self._typed += self._escapes.passed(data) if self._tty else data
        if self._escapes.asked:
            self._escapes.asked = False
            self._note("shell_help", raw_terminal.HELP)
        if self._escapes.left:
            self._send(json.dumps({"leave": True}))
            self._end(Exit.OK, "left", "you left; the shell on the node is ended")

    def _pass_on(self) -> None:
        """Send what was typed, as far as there is room for it, and at last that it ended."""
        while self._typed and (room := self._exchange.room):
            piece = bytes(self._typed[: min(room, PIECE)])
            del self._typed[: len(piece)]
            self._send(*self._exchange.typed(piece))
        if not self._reading and not self._typed and not self._exchange.ended:
            self._send(*self._exchange.end_of_input())

    def _resize(self) -> None:
        if self._tty and self._exchange.paired:
            self._send(json.dumps({"resize": raw_terminal.size()}))

    def _send(self, *frames: Frame) -> None:
        if self._connection is not None:
            with suppress(Exception):  # a connection that breaks is noticed by its reader
                for frame in frames:
                    self._connection.send(frame)

    # --- what comes -------------------------------------------------------------------------------

    def _take(self, link: Link) -> None:
        for _ in range(link.waiting):  # what comes later waits for the next turn, so that keys are read
            came = link.take()
            if self._code is not None:
                return
            if came is None:
                self._connection = None
                self._exchange.lost()
                self._alone_since = self._alone_since or time.monotonic()
            elif isinstance(came, Lost):
                self._gone(came.error)
            elif isinstance(came, bytes | str):
                self._hear(self._exchange.heard(came), last=not link.waiting)
            else:
                self._connection = came

    def _hear(self, heard: Heard, *, last: bool) -> None:
        self._send(*heard.replies)
        if heard.shown:
            self._show(heard.shown)
            self._send(*self._exchange.shown(len(heard.shown), all_shown=last and len(heard.shown) >= PIECE))
        match heard.word:
            case "paired":
                self._alone_since, self._met = None, True
                self._resize()
            case "unpaired":
                self._alone_since = time.monotonic()
            case "exit" if isinstance(heard.value, int):
                self._send(*self._exchange.shown(0, all_shown=True))
                self._code = heard.value & 0xFF
            case "ended":
                self._ended(heard.value)
            case _:
                pass

    def _show(self, data: bytes) -> None:
        while data:
            data = data[os.write(STDOUT, data) :]

    # --- how it ends ------------------------------------------------------------------------------

    def _ended(self, told: object) -> None:
        """Take the server's word that it is over."""
        words = told if isinstance(told, dict) else {}
        why, status = words.get("why"), words.get("status")
        if why == "exited" and isinstance(status, int):
            if status in _NOT_STARTED and not self._met:
                where = f"`muster logs {self._command_id}` says why"
                self._note("shell_not_started", f"the node could not start it: {where}")
            self._code = status
            return
        code = status if isinstance(status, int) else Exit.TIMEOUT if why == "idle" else Exit.LOST
        self._end(code, "shell_ended", f"the shell ended: {words.get('detail') or why}")

    def _gone(self, error: MusterError) -> None:
        if isinstance(error, Gone):
            found = self._client.send(calls.command(self._command_id))
            self._ended({"why": found.state.value, "status": found.exit_status, "detail": found.detail})
            return
        told = f"{error}; if the node still runs, open another one with `muster shell {self._node_id}`"
        self._end(Exit.LOST, "shell_lost", told)

    def _end(self, code: int, name: str, told: str) -> None:
        raw_terminal.leave_programs()
        self._note(name, told)
        self._code = code

    def _mention_absence(self) -> None:
        since = self._alone_since
        if since is None or self._code is not None or time.monotonic() - since < _QUIET:
            return
        self._alone_since = time.monotonic() + 3600.0  # once for each break
        what = f"node {self._node_id} does" if self._connection is not None else "the server does"
        how = "; ~. leaves" if self._tty else ""
        self._note("shell_waits", f"{what} not answer: the shell waits for {LINGER:g} s{how}")

    def _note(self, name: str, text: str) -> None:
        if self._tty:
            os.write(STDOUT if os.isatty(STDOUT) else 2, f"\r\n[muster: {harmless(text)}]\r\n".encode())
        else:
            print_notice(name, text)
