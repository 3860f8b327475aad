"""A collector that reads requests with OpenTelemetry's own message classes, and answers as it is told to."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.integrations.listener import Answer, HttpListener, Posted

OK = 200


class Collector(HttpListener):
    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.status = OK

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

    def took(self, posted: Posted) -> Answer:
        if self.status == OK and posted.path == "/v1/traces":
            self.headers.append(posted.headers)
            self.bodies.append(posted.body)
        return Answer(self.status)


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
