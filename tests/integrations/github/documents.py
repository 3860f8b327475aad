"""What GitHub publishes of its API, as tests read it. `make check` gets it; without it they skip."""

import json
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx
import jsonschema_rs
import pytest

from tools.github_documents import REST, WEBHOOKS, Document


@cache
def published(document: Document) -> Any:
    if not document.path.is_file():
        pytest.skip(f"{document.package} is not here: `make documents` gets it with npm")
    return json.loads(document.path.read_bytes())


def examples(event: str) -> list[dict[str, Any]]:
    """The examples of a webhook."""
    found = [each["examples"] for each in published(WEBHOOKS) if each["name"] == event]
    return [example for some in found for example in some]


class PublishedApi(httpx.AsyncBaseTransport):
    """Holds every request to GitHub's OpenAPI document, then lets it through."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self._document = published(REST)
        self._paths = [
            (re.compile(re.sub(r"\{[^}]+\}", "([^/]+)", path)), path) for path in self._document["paths"]
        ]
        self.seen: list[str] = []
        """Operations that were asked for."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.check(request.method, request.url.path, request.url.query.decode(), await request.aread())
        return await self._inner.handle_async_request(request)

    def check(self, method: str, path: str, query: str, body: bytes) -> None:
        """Raise AssertionError for a request that GitHub's document does not describe."""
        found = [each for pattern, each in self._paths if pattern.fullmatch(path)]
        # A literal path counts before one with parameters.
        named = min(found, key=lambda each: each.count("{"), default=None)
        assert named is not None, f"GitHub has no path {path}"
        operation = self._document["paths"][named].get(method.lower())
        assert operation is not None, f"GitHub has no {method} {named}"
        self.seen.append(operation["operationId"])
        known = {
            each["name"]: each
            for each in map(self._resolved, operation.get("parameters", ()))
            if each["in"] == "query"
        }
        for name, (value, *_) in parse_qs(query, keep_blank_values=True).items():
            assert name in known, f"{method} {named} has no parameter {name}"
            self._check_value(self._resolved(known[name]["schema"]), value, f"{named}?{name}")
        self._check_body(operation.get("requestBody"), body, f"{method} {named}")

    def _check_value(self, schema: dict[str, Any], text: str, where: str) -> None:
        value: object = int(text) if schema.get("type") == "integer" and text.isdigit() else text
        jsonschema_rs.validate(self._whole(schema), value)
        assert not (schema.get("type") == "integer" and isinstance(value, str)), where

    def _check_body(self, described: dict[str, Any] | None, body: bytes, where: str) -> None:
        if described is None:
            assert not body, f"{where} takes no body"
            return
        described = self._resolved(described)
        if not body:
            assert not described.get("required"), f"{where} needs a body"
            return
        schema = self._resolved(described["content"]["application/json"]["schema"])
        given = json.loads(body)
        jsonschema_rs.validate(self._whole(schema), given)
        unknown = set(given) - set(schema.get("properties", given))
        assert not unknown, f"{where} has no fields {unknown}"

    def _resolved(self, part: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in part:
            found = self._document
            for piece in part["$ref"].removeprefix("#/").split("/"):
                found = found[piece]
            part = found
        return part

    def _whole(self, schema: dict[str, Any]) -> dict[str, Any]:
        return (
            {**schema, "components": self._document["components"]} if "$ref" in json.dumps(schema) else schema
        )
