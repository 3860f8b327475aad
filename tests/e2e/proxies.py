"""A proxy between real agents and their server, with the ways in which proxies harm streams."""

import socket
import threading
from contextlib import suppress
from enum import StrEnum

from tests.e2e.site import free_port

CUT_AFTER = 1.0
"""Seconds after which a connection that carries a stream is cut. Real proxies take 30 or 60."""
_STREAM = b"GET /api/v1/agent/stream "
_END_OF_LINE = b"}\n"


class Harm(StrEnum):
    BUFFERS = "keeps the lines of a stream back"
    STALLS = "lets the first line of a stream through, and nothing after it"
    CUTS = "cuts a stream after a while"


class Proxy:
    def __init__(self, server: str, harm: Harm) -> None:
        host, _, port = server.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self._harm = harm
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self._open: list[socket.socket] = [self._listener]
        self.streams = 0
        """Streams that were asked for."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        _end(*self._open)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with suppress(OSError):
            server = socket.create_connection(self._server)
            self._open += [caller, server]
            first = caller.recv(65536)
            server.sendall(first)
            streams = first.startswith(_STREAM)
            self.streams += streams
            if streams and self._harm is Harm.CUTS:
                timer = threading.Timer(CUT_AFTER, _end, (caller, server))
                timer.daemon = True
                timer.start()
            threading.Thread(target=_pump, args=(caller, server), daemon=True).start()
            if streams and self._harm is not Harm.CUTS:
                self._hold_back(server, caller)
            else:
                _pump(server, caller)

    def _hold_back(self, server: socket.socket, caller: socket.socket) -> None:
        """Read all that the server says, and pass nothing on, or only the first line."""
        through = self._harm is Harm.STALLS
        with suppress(OSError):
            while data := server.recv(65536):
                if through:
                    caller.sendall(data)
                    through = _END_OF_LINE not in data


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _end(source, sink)


def _end(*lines: socket.socket) -> None:
    for line in lines:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        line.close()
