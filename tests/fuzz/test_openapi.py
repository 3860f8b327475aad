"""Requests made from our own OpenAPI document, good and bad: each is answered, and none by a crash."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from muster.wire.base import PROBLEM_TYPE
from tests.api.site import Site, opened
from tests.api.test_agent_routes import _join, _machine
from tests.fuzz import fuzzed

SLOW = ("/api/v1/agent/desired", "/api/v1/agent/stream")
"""The first waits as long as it is asked to, the second never ends."""
REFUSALS = (502, 503)
"""Said on purpose, with a problem: what is asked of can't be had now."""


async def test_no_request_that_the_document_allows_or_forbids_breaks_the_server(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        await site.template()
        document = (await site.http("").get("/api/v1/openapi.json")).json()
        node = (await _join(site, await _machine(site))).json()["token"]
        await asyncio.to_thread(_all, site, document, node)
        assert (await site.http().get("/healthz")).status_code == 200


def _all(site: Site, document: dict[str, Any], node: str) -> None:
    asked = 0
    for operation in _operations(document):
        secret = node if {"node": []} in operation.definition.raw.get("security", []) else _admin(site)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            asked += _try(site.url, operation.as_strategy(generation_mode=mode), secret)
    assert asked > 100


def _operations(document: dict[str, Any]) -> Iterator[Any]:
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path not in SLOW:
            yield operation


def _admin(site: Site) -> str:
    return next(secret for role, secret in site.secrets.items() if role == "admin")


def _try(url: str, cases: st.SearchStrategy[Any], secret: str) -> int:
    asked = 0

    @fuzzed(2)
    @given(cases)
    def one(case: Any) -> None:
        nonlocal asked
        asked += 1
        answer = case.call(base_url=url, headers={"Authorization": f"Bearer {secret}"}, timeout=60)
        told = f"{case.method} {answer.request.url}: {answer.status_code} {answer.text[:300]}"
        assert answer.status_code < 500 or answer.status_code in REFUSALS, told
        assert answer.status_code < 400 or answer.headers["content-type"] == [PROBLEM_TYPE], told

    with suppress(Unsatisfiable):  # nothing can be wrong with a request that takes nothing
        one()
    return asked
