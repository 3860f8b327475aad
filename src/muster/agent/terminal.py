"""Serve a command's terminal from the node: a PTY, and one outgoing WebSocket to the server.

The agent asks the server for this file when a command has a terminal, so that it costs other nodes nothing.
Python 3.8 or later, stdlib alone. The words of the connection are in docs/shell.md.

Each side numbers the bytes that it sends and keeps those that the other side hasn't taken yet, at most WINDOW
of them. So a connection may break and be made anew without a byte lost or doubled. The same count bounds the
memory of both ends: a person who doesn't read stops the program, as a slow terminal does.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time
from typing import Any
from urllib.parse import urlsplit

PIECE = 32 * 1024
WINDOW = 256 * 1024
MESSAGE = 64 * 1024
LINGER = 60.0  # seconds that a shell is kept while its person is away
SILENCE = 45.0  # the server says something more often
GRACE = 5.0
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
# Makes the PTY the terminal of a new session, inside the sandbox: its own session has none.
LEAD = """
import fcntl, os, sys, termios
try: os.setsid()
except OSError: pass
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
try: os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error: sys.stderr.write("cannot run %s: %s\\n" % (sys.argv[1], error.strerror))
sys.exit(127)
"""


class Broken(Exception):
    """The connection is of no use any more."""


class Over(Exception):
    """The server knows no such shell, so no person will come back to it."""


class WebSocket:
    """As much of RFC 6455 as a client of our own server needs."""

    def __init__(self, server: str, path: str, token: str) -> None:
        url = urlsplit(server)
        kind = getattr(http.client, url.scheme.upper() + "Connection")
        link = kind(url.hostname or "", url.port, timeout=GRACE)
        link.connect()
        self.sock: Any = link.sock
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = (
            "GET {}/api/v1/agent{} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\r\n"
        ).format(url.path.rstrip("/"), path, url.netloc, token, "bXVzdGVyIHRlcm1pbmFsIQ==")
        self.sock.sendall(head.encode())
        self.came = b""
        while b"\r\n\r\n" not in self.came:
            self.read()
        answer, self.came = self.came.split(b"\r\n\r\n", 1)
        self.status = int(answer.split(None, 2)[1])
        self.sock.settimeout(SILENCE)

    def read(self) -> None:
        data = self.sock.recv(65536)
        if not data or len(self.came) > 4 * MESSAGE:
            raise Broken
        self.came += data

    def send(self, kind: int, data: bytes) -> None:
        """Send one message, masked as clients must."""
        size, mask = len(data), os.urandom(4)
        long = struct.pack("!BH", 0xFE, size) if size > 125 else bytes([0x80 | size])
        veil = (mask * (size // 4 + 1))[:size]
        body = int.from_bytes(data, "big") ^ int.from_bytes(veil, "big")
        self.sock.sendall(bytes([0x80 | kind]) + long + mask + body.to_bytes(size, "big"))

    def fill(self) -> None:
        self.read()
        while getattr(self.sock, "pending", int)():  # of TLS
            self.read()

    def messages(self) -> Any:
        """Yield each message that has come whole, with its kind."""
        while True:
            if len(self.came) < 2:
                return
            first, size, at = self.came[0], self.came[1] & 0x7F, 2
            if size > 125:
                at = 4 if size == 126 else 10
                if len(self.came) < at:
                    return
                size = int.from_bytes(self.came[2:at], "big")
            if size > MESSAGE or not first & 0x80:
                raise Broken
            if len(self.came) < at + size:
                return
            data, self.came = self.came[at : at + size], self.came[at + size :]
            yield first & 15, data

    def close(self, politely: bool = False) -> None:
        """Close it. Politely: wait until the server has read all, else the last words could be lost."""
        try:
            if politely:
                self.send(CLOSE, struct.pack("!H", 1000))
                self.sock.settimeout(GRACE)
                while self.sock.recv(65536):
                    pass
        except OSError:
            pass
        self.sock.close()


class Terminal:
    def __init__(self, agent: Any, order: Any, env: Any, work: str, job: Any) -> None:
        self.agent, self.job, self.key = agent, job, order["id"]
        rows, cols = order["terminal"]["rows"], order["terminal"]["cols"]
        self.tty = rows > 0
        self.kept, self.base, self.sent = b"", 0, 0  # output: what isn't taken yet, and where that starts
        self.inbox, self.written, self.acked = b"", 0, 0  # input: what the program hasn't read yet
        self.eof_at = -1
        self.paired = self.resumed = self.left = False
        self.ended = self.dry = self.told = False  # the program, its output, and the word of it
        argv, ours, theirs = order["argv"], -1, -1
        if self.tty:
            ours, theirs = pty.openpty()
            self.resize(ours, rows, cols)
            argv = [sys.executable, "-I", "-S", "-c", LEAD, *argv]
        else:
            ours, theirs = (end.detach() for end in socket.socketpair())
        try:
            process = agent.start(job, argv, work, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self.process, self.fd = process, ours
        os.set_blocking(ours, False)
        self.bell, ring = os.pipe()

        def wait() -> None:
            process.wait()
            os.close(ring)

        agent.spawn(wait)

    def resize(self, fd: int, rows: Any, cols: Any) -> None:
        if self.tty:
            rows, cols = min(max(int(rows), 1), 1000), min(max(int(cols), 1), 1000)
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def run(self) -> Any:
        until, pause, path = time.monotonic() + LINGER, 0.02, "/commands/" + self.key + "/terminal"
        try:
            while not self.left and time.monotonic() < until:
                if self.serve(path):
                    until, pause = time.monotonic() + LINGER, 0.02
                if self.job.stop.is_set() and self.rings(0.0):
                    break
                if not self.left:
                    time.sleep(pause)
                    pause = min(pause * 1.5, 1.0)
        except Over:
            pass
        return self.hang_up()

    def rings(self, within: float) -> bool:
        """Return whether the program ends in so many seconds."""
        self.ended = self.ended or bool(select.select([self.bell], [], [], within)[0])
        return self.ended

    def serve(self, path: str) -> bool:
        """Serve one connection, to whichever server the person is connected to; whether there was one."""
        for server in self.agent.options.server:
            link: Any = None
            try:
                link = WebSocket(server, path, self.agent.state.token)
                if link.status in (404, 410):
                    raise Over
                if link.status == 101:
                    self.follow(link)
            except (OSError, ValueError, TypeError, IndexError, Broken, http.client.HTTPException):
                pass
            finally:
                self.paired = self.resumed = False
                if link:
                    link.close(politely=self.left)
            if link and link.status == 101:
                return True
        return False

    def follow(self, link: Any) -> None:
        heard = time.monotonic()
        self.hear(link)
        while not self.left:
            self.flush(link)
            if self.ended and self.dry and self.resumed and self.tells_end(link):
                return
            ready = self.wait(link)
            if link.sock.fileno() in ready:
                heard = time.monotonic()
                link.fill()
                self.hear(link)
            elif time.monotonic() - heard > SILENCE:
                raise Broken
            if self.bell in ready:
                self.ended = True
            if self.fd in ready and self.inbox:
                self.type()
            if self.hungry() and (self.fd in ready or self.ended):
                self.take()

    def wait(self, link: Any) -> Any:
        """Wait until there is something to do."""
        poll = select.poll()
        poll.register(link.sock, select.POLLIN)
        wish = (select.POLLIN if self.hungry() else 0) | (select.POLLOUT if self.inbox else 0)
        if wish:
            poll.register(self.fd, wish)
        if not self.ended:
            poll.register(self.bell, select.POLLIN)
        return dict(poll.poll(1000))

    def hungry(self) -> bool:
        return self.resumed and not self.dry and len(self.kept) < WINDOW

    def take(self) -> None:
        """Read output. Once the program has ended, nothing to read means that this was all."""
        try:
            data = os.read(self.fd, PIECE)
        except BlockingIOError:
            self.dry = self.ended
            return
        except OSError:  # how Linux says that no process has the terminal open
            data = b""
        self.kept += data
        self.agent.output += len(data)
        self.dry = not data

    def type(self) -> None:
        try:
            done = os.write(self.fd, self.inbox[:PIECE])
        except BlockingIOError:
            return
        except OSError:
            done = len(self.inbox)  # its reader is gone
        self.inbox, self.written = self.inbox[done:], self.written + done

    def flush(self, link: Any) -> None:
        if self.resumed:
            while self.sent < self.base + len(self.kept):
                at = self.sent - self.base
                piece = self.kept[at : at + PIECE]
                link.send(BINARY, struct.pack("!Q", self.sent) + piece)
                self.sent += len(piece)
        if self.paired and (self.written - self.acked > PIECE or (self.eof_at >= 0 and not self.inbox)):
            self.acknowledge(link)
        if self.eof_at == self.written:
            self.eof_at = -1
            self.end_input()

    def end_input(self) -> None:
        if self.tty:
            return
        with socket.socket(fileno=os.dup(self.fd)) as end:
            try:
                end.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def acknowledge(self, link: Any) -> None:
        self.acked = self.written
        link.send(TEXT, json.dumps({"have": self.written}).encode())

    def hear(self, link: Any) -> None:
        for kind, data in link.messages():
            if kind == PING:
                link.send(PONG, data)
            elif kind == CLOSE:
                raise Broken
            elif kind == BINARY:
                at, room = int.from_bytes(data[:8], "big"), WINDOW - len(self.inbox)
                new = self.written + len(self.inbox) - at
                if new >= 0:  # else a gap: what is missing comes once more
                    self.inbox += data[8 + new :][:room]
            elif kind == TEXT:
                self.heed(link, json.loads(data))

    def heed(self, link: Any, said: Any) -> None:
        if "paired" in said:
            self.paired, self.resumed, self.told, self.inbox = True, False, False, b""
            self.acknowledge(link)
        elif "have" in said:
            taken = min(max(int(said["have"]), self.base), self.base + len(self.kept))
            self.kept, self.base = self.kept[taken - self.base :], taken
            self.sent = max(self.sent, taken) if self.resumed else taken
            self.resumed = True
        elif "resize" in said:
            self.resize(self.fd, *said["resize"])
        elif "eof" in said:
            self.eof_at = int(said["eof"])
        elif "leave" in said:
            self.left = True

    def tells_end(self, link: Any) -> bool:
        """Tell the exit code after the last output, and leave when the person has both; whether they do.

        Of a node that ends, the server says why.
        """
        if self.agent.stopping:
            raise Broken
        code = self.code()
        if not self.told:
            link.send(TEXT, json.dumps({"exit": code if code >= 0 else 128 - code}).encode())
        self.told, self.left = True, not self.kept
        return self.left

    def code(self) -> int:
        code: int = self.process.wait()
        if self.agent.wrap and self.job.stop.is_set() and code > 128:
            return 128 - code
        return code

    def hang_up(self) -> Any:
        """Close the terminal, end what still runs in it, and return how it ended and what went through."""
        os.close(self.fd)
        if self.rings(1.0):
            code = self.code()
        else:
            self.agent.slay(lambda: self.agent.hunt(self.job.pid, "MUSTER_COMMAND=" + self.key))
            code = -signal.SIGHUP
        os.close(self.bell)
        self.agent.children.discard(self.job.pid)
        return code, {"received": self.written, "sent": self.base}


def serve(agent: Any, order: Any, env: Any, work: str, job: Any) -> Any:
    return Terminal(agent, order, env, work, job).run()
