"""A collector that reads requests with OpenTelemetry's own message classes, and answers as it is told to."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for body in list(self.bodies)
            for whole in read(body).resource_spans
            for scope in whole.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    @contextmanager
    def listening(self) -> Iterator["Collector"]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.status == 200 and self.path == "/v1/traces":
                    collector.headers.append(dict(self.headers))
                    collector.bodies.append(body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the base names it so
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def read(body: bytes) -> ExportTraceServiceRequest:
    """Read a request strictly. OTLP writes ids in hexadecimal where protobuf's JSON has Base64."""
    return Parse(json.dumps(_translated(json.loads(body))), ExportTraceServiceRequest())


def _translated(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: b64encode(bytes.fromhex(each)).decode()
                if name.endswith(("traceId", "panId"))
                else _translated(each)
                for name, each in value.items()
            }
        case list():
            return [_translated(each) for each in value]
        case _:
            return value


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in span.attributes}
