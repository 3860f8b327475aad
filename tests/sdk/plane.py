"""A control plane as an app meets it: says yes to everything, unless a test tells it otherwise."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

from muster.domain.desired_state import Directive
from muster.wire.agent import Desired, Enrolled

WITHIN = 20.0
DESIRED = Desired(
    version=1,
    directive=Directive.ATTACH,
    assignment_id="as-1",
    run="web",
    dead_man=60.0,
    kit=False,
    commands=(),
)
JOINED = Enrolled(node_id="node-1", token="node-token", desired=DESIRED)
Reply = tuple[int, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    what: str
    """The last part of the path."""
    bearer: str
    body: dict[str, Any]

    @property
    def word(self) -> str:
        """In a word: enrol, report, left, or how it feels."""
        if self.what == "beat":
            return str(self.body.get("status"))
        return "left" if self.body.get("left") else self.what


class Plane:
    def __init__(self) -> None:
        self.said: list[Said] = []
        self.reply: Callable[[Said], Reply | None] = lambda _said: None
        """What to answer; None: yes. Text is sent as it is."""
        self._news = threading.Condition()
        plane = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                said = Said(
                    what=self.path.rpartition("/")[2],
                    bearer=self.headers["authorization"].removeprefix("Bearer "),
                    body=json.loads(self.rfile.read(length)),
                )
                status, body = plane._heard(said)
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_given: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def _heard(self, said: Said) -> Reply:
        with self._news:
            found = self.reply(said)
            self.said.append(said)
            self._news.notify_all()
        if found is None:
            return 200, msgspec.to_builtins(JOINED) if said.what == "enrol" else {"version": 3}
        status, body = found
        if isinstance(body, dict) and "code" in body:
            return status, {"type": f"/codes#{body['code']}", "title": "No", "status": status, **body}
        return found

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def words(self) -> list[str]:
        """What was said, without repetitions in a row."""
        with self._news:
            found = [said.word for said in self.said]
        return [word for index, word in enumerate(found) if index == 0 or word != found[index - 1]]

    def hears(self, word: str, times: int = 1) -> Said:
        """Wait until it was said so often."""

        def there() -> bool:
            return sum(said.word == word for said in self.said) >= times

        with self._news:
            assert self._news.wait_for(there, WITHIN), f"never heard {word}: {self.said}"
            return [said for said in self.said if said.word == word][times - 1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
