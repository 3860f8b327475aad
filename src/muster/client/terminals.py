"""Connect to a command's terminal: a WebSocket, and the numbering of bytes that survives its breaks.

Owns the person's end of the words in docs/shell.md. Bytes that the node has not taken yet are kept, at
most WINDOW of them, and are sent anew after a break. Knows no terminal and no thread.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from muster.client.http import CONNECT_WITHIN, Target, error_of_response, unreachable_error
from muster.client.problems import CannotReach
from muster.domain.errors import MusterError

PIECE = 32 * 1024
WINDOW = 256 * 1024
MESSAGE = 64 * 1024
HEADER = 8
"""Bytes before the data of a message: the offset of its first byte."""
_PING_EVERY = 20.0
_LOG = logging.getLogger("muster.client.terminals")
"""What the library says of a connection that breaks. The caller hears of that anyway."""
_LOG.addHandler(logging.NullHandler())
Frame = bytes | str


def open_terminal(target: Target, command_id: str) -> ClientConnection:
    """Open a terminal's connection. Raises CannotReach, Untrusted, or what the server refused it for."""
    parts = urlsplit(target.url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    url = f"{scheme}://{parts.netloc}{parts.path}/api/v1/commands/{quote(command_id, safe='')}/terminal"
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    try:
        return connect(
            url,
            additional_headers=headers,
            compression=None,
            max_size=MESSAGE,
            open_timeout=CONNECT_WITHIN,
            close_timeout=1.0,
            logger=_LOG,
            ping_interval=_PING_EVERY,
            ping_timeout=_PING_EVERY,
            proxy=None,  # as for every other call
            ssl=target.certificates() if scheme == "wss" else None,
        )
    except InvalidStatus as error:
        raise _refusal(error) from error
    except (OSError, InvalidHandshake, WebSocketException) as error:
        raise unreachable_error(target, error) from error


def _refusal(error: InvalidStatus) -> MusterError:
    answer = error.response
    read = httpx.Response(
        answer.status_code, headers=list(answer.headers.raw_items()), content=bytes(answer.body)
    )
    return error_of_response(read) or CannotReach("", str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a message means for the person's end."""

    shown: bytes = b""
    word: str = ""
    value: Any = None
    replies: tuple[Frame, ...] = ()


class Exchange:
    """Numbers the bytes of both directions. Returns what to send; sends nothing itself."""

    def __init__(self) -> None:
        self._kept = b""
        self._base = 0
        self._sent = 0
        self._shown = 0
        self._acked = 0
        self.ended = False
        """Whether input ended."""
        self.paired = False
        self._resumed = False

    @property
    def room(self) -> int:
        """Return how many bytes may be typed now."""
        return 0 if self.ended else WINDOW - len(self._kept)

    def typed(self, data: bytes) -> tuple[Frame, ...]:
        self._kept += data
        return self._flushed()

    def end_of_input(self) -> tuple[Frame, ...]:
        self.ended = True
        return self._flushed()

    def lost(self) -> None:
        self.paired = self._resumed = False

    def shown(self, size: int, *, all_shown: bool = False) -> tuple[Frame, ...]:
        """Count bytes as shown. The node may send more when it hears of it."""
        self._shown += size
        if self._shown == self._acked or not (all_shown or self._shown - self._acked >= PIECE):
            return ()
        return self._acknowledgement()

    def heard(self, message: Frame) -> Heard:
        if isinstance(message, bytes):
            return self._data(message)
        try:
            said = json.loads(message)
        except ValueError:
            return Heard()
        if not isinstance(said, Mapping) or len(said) != 1:
            return Heard()
        ((word, value),) = said.items()
        return self._word(str(word), value)

    def _data(self, message: bytes) -> Heard:
        known = self._shown - int.from_bytes(message[:HEADER], "big")
        # Of a gap, what is missing comes once more. Of a repetition, the known part is left out.
        return Heard(shown=message[HEADER + known :]) if known >= 0 else Heard()

    def _word(self, word: str, value: Any) -> Heard:
        replies: tuple[Frame, ...] = ()
        if word == "paired":
            self.paired, self._resumed = True, False
            replies = self._acknowledgement()
        elif word == "unpaired":
            self.lost()
        elif word == "have" and isinstance(value, int):
            replies = self._taken(value)
        return Heard(word=word, value=value, replies=replies)

    def _taken(self, count: int) -> tuple[Frame, ...]:
        count = min(max(count, self._base), self._base + len(self._kept))
        self._kept, self._base = self._kept[count - self._base :], count
        self._sent = max(self._sent, count) if self._resumed else count
        again, self._resumed = not self._resumed, True
        return self._flushed(again=again)

    def _acknowledgement(self) -> tuple[Frame, ...]:
        self._acked = self._shown
        return (json.dumps({"have": self._shown}),)

    def _flushed(self, *, again: bool = False) -> tuple[Frame, ...]:
        if not self._resumed:
            return ()
        frames: list[Frame] = []
        end = self._base + len(self._kept)
        fresh = self._sent < end
        while self._sent < end:
            piece = self._kept[self._sent - self._base :][:PIECE]
            frames.append(self._sent.to_bytes(HEADER, "big") + piece)
            self._sent += len(piece)
        if self.ended and (fresh or again or not frames):
            frames.append(json.dumps({"eof": end}))
        return tuple(frames)
