"""A small control plane for one agent: real HTTP on 127.0.0.1, scripted faults, everything heard is kept."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from muster.agent import agent

PATIENCE = 30.0
AGENT = Path(agent.__file__)
PYTHON = os.environ.get("MUSTER_AGENT_PYTHON", sys.executable)
"""The interpreter of the agents: any from 3.8 on."""
Fault = Callable[["Handler"], bool]
"""Handles a request in place of the server; whether it did."""


class Plane:
    """What the server knows. Outlives restarts of its socket."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.desired: dict[str, Any] = {"version": 1, "directive": "stay", "dead_man": 60, "commands": []}
        self.boot: dict[str, Any] = {"script": "", "env": {}}
        self.beat_seconds = 0.2
        self.tokens = 0
        self.joins: list[dict[str, Any]] = []
        self.beats: list[int] = []
        self.reports: list[dict[str, Any]] = []
        self.output: dict[str, bytes | bytearray] = {}
        self.states: dict[str, list[dict[str, Any]]] = {}
        self.artifacts: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.kit = ""
        self.faults: list[tuple[str, Fault]] = []
        self.requests: list[tuple[str, str]] = []
        self.stopped = False

    def heard(self, work: Callable[[], None]) -> None:
        with self.changed:
            work()
            self.changed.notify_all()

    def wait(self, condition: Callable[[], object], what: str = "") -> None:
        with self.changed:
            if not self.changed.wait_for(condition, PATIENCE):
                raise AssertionError(f"waited in vain: {what}; reports {self.reports}, states {self.states}")

    def tell(self, directive: str, **more: Any) -> None:
        def change() -> None:
            self.desired = {
                **self.desired,
                "version": self.desired["version"] + 1,
                "directive": directive,
                **more,
            }

        self.heard(change)

    def report(self, said: dict[str, Any]) -> None:
        self.reports.append(said)
        if said.get("detached") == self.desired.get("assignment_id") is not None:
            self.tell("stay", assignment_id=None)  # as the server does: it is clean, and free for the next

    def attach(self, assignment: str = "as-1") -> None:
        self.tell("attach", assignment_id=assignment, run="run-1", commands=[])
        self.wait(lambda: {"attached": assignment} in self.reports, "attached")

    def detach(self, assignment: str = "as-1") -> None:
        self.tell("detach", assignment_id=assignment, commands=[])

    def order(self, key: str, *argv: str, **more: Any) -> None:
        rest = [order for order in self.desired["commands"] if order["id"] != key]
        order = {"id": key, "argv": list(argv), "env": {}, "timeout": None, "cancel": False, **more}
        self.tell("attach", commands=[*rest, order])

    def cancel(self, key: str) -> None:
        orders = [
            {**order, "cancel": order["cancel"] or order["id"] == key} for order in self.desired["commands"]
        ]
        self.tell("attach", commands=orders)

    def ended(self, key: str) -> dict[str, Any]:
        def final() -> dict[str, Any] | None:
            states = [s for s in self.states.get(key, []) if s["state"] != "running"]
            return states[-1] if states else None

        self.wait(final, f"the end of {key}")
        return cast(dict[str, Any], final())

    def fault(self, pattern: str, fault: Fault, times: int = 1) -> None:
        self.faults += [(pattern, fault)] * times


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    plane: Plane

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, body: Any, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def serve(self) -> None:
        plane = self.plane
        url = urlsplit(self.path)
        path, query = url.path.replace("/api/v1/agent", ""), parse_qs(url.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        plane.heard(lambda: plane.requests.append((self.command, path)))
        for pair in list(plane.faults):
            if re.fullmatch(pair[0], path):
                plane.faults.remove(pair)
                if pair[1](self):
                    return
                break
        self.route(plane, path, {name: values[0] for name, values in query.items()})

    do_GET = do_POST = do_PUT = serve  # noqa: N815 — http.server's names

    def route(self, plane: Plane, path: str, query: dict[str, str]) -> None:
        if path == "/join":
            return self.join(plane)
        if self.headers.get("Authorization") != f"Bearer token-{plane.tokens}":
            return self.answer(401, {"detail": "unknown token"})
        if path == "/beat":
            plane.heard(lambda: plane.beats.append(json.loads(self.body)["activity"]))
            return self.answer(200, {"version": plane.desired["version"]})
        if path == "/report":
            plane.heard(lambda: plane.report(json.loads(self.body)))
            return self.answer(200, plane.desired)
        if path == "/stream":
            return self.answer(404, {})  # as a server without streams: the agent polls at once
        if path == "/desired":
            with plane.changed:
                known, timeout = int(query["known"]), float(query["timeout"])
                plane.changed.wait_for(lambda: plane.stopped or plane.desired["version"] != known, timeout)
            return self.drop() if plane.stopped else self.answer(200, plane.desired)
        if path == "/kit":
            return self.answer(200, {"program": plane.kit}) if plane.kit else self.answer(503, {})
        if path.startswith("/blobs/"):
            blob = plane.blobs.get(path[7:])
            return self.answer(200, blob) if blob is not None else self.answer(404, {})
        return self.of_command(plane, path.split("/")[2], path.split("/")[3], query)

    def join(self, plane: Plane) -> None:
        def joined() -> None:
            plane.joins.append(json.loads(self.body))
            plane.tokens += 1

        plane.heard(joined)
        body = {"node_id": "node-1", "token": f"token-{plane.tokens}", "beat_seconds": plane.beat_seconds}
        self.answer(200, {**body, "boot": plane.boot, "desired": plane.desired})

    def of_command(self, plane: Plane, key: str, what: str, query: dict[str, str]) -> None:
        if what == "state":
            plane.heard(lambda: plane.states.setdefault(key, []).append(json.loads(self.body)))
            return self.answer(200, {})
        if what == "artifact":
            plane.heard(lambda: plane.artifacts.update({key: self.body}))
            return self.answer(200, {})
        has, offset = plane.output.setdefault(key, bytearray()), int(query["offset"])
        if offset > len(has):
            return self.answer(409, {"offset": len(has)})
        assert isinstance(has, bytearray), "it grows in place: a copy for each part would take half a minute"

        def written() -> None:
            has[offset:] = self.body

        plane.heard(written)
        return self.answer(200, {"offset": len(has), "full": False})


class Server:
    """The plane's socket: may go away and come back on the same port."""

    def __init__(self, plane: Plane, port: int = 0) -> None:
        self.plane = plane
        self.start(port)

    def start(self, port: int) -> None:
        self.plane.stopped = False
        kind = type("Bound", (Handler,), {"plane": self.plane})
        self.http = Listener(("127.0.0.1", port), kind)
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        def stopped() -> None:
            self.plane.stopped = True

        self.http.shutdown()
        self.thread.join()
        self.plane.heard(stopped)
        self.http.cut()
        self.http.server_close()

    def restart(self) -> None:
        self.start(self.port)


class Listener(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, *given: Any) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # an agent that is killed leaves broken connections

    def cut(self) -> None:
        """As when the server's process dies: every connection ends."""
        for request in list(self.open):
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class Running:
    """A real agent process, in a session of its own."""

    def __init__(self, folder: Path, *servers: str, dead_man: float = 60.0, poweroff: str = "") -> None:
        self.folder = folder
        reader, writer = os.pipe()
        os.write(writer, b"the-secret\n")
        os.close(writer)
        argv = [PYTHON, str(AGENT), "run", "--dir", str(folder), "--secret-fd", str(reader)]
        argv += ["--proof-prefix", "process:m-1:", "--dead-man", str(dead_man)]
        argv += [word for url in servers for word in ("--server", url)]
        argv += ["--poweroff", poweroff] if poweroff else []
        self.log_file = folder.parent / "agent.err"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(argv, stderr=log, pass_fds=[reader], start_new_session=True)
        os.close(reader)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            finally:
                self.process.kill()
                self.process.wait()


def alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
