"""Hooks of integrations over HTTP: bounded, timed, and safe from guesses."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from muster.api.routes import hooks
from muster.domain.errors import StoreUnavailable
from muster.ports.duties import Delivery, HookAnswer
from tests.api.site import opened


class Echo:
    def __init__(self) -> None:
        self.taken: list[Delivery] = []
        self.waits = False
        self.fails = False

    async def take(self, delivery: Delivery) -> HookAnswer:
        if self.waits:
            await asyncio.Event().wait()
        if self.fails:
            raise StoreUnavailable("cannot write: the disk is full", why="the disk is full")
        self.taken.append(delivery)
        return HookAnswer(status=202, words="taken")


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def http(tmp_path: Path, echo: Echo) -> AsyncIterator[httpx.AsyncClient]:
    async with opened(tmp_path, hooks={"echo": echo}) as site:
        yield site.http("")


async def test_a_hook_gets_the_bytes_and_headers_and_its_answer_is_given(
    http: httpx.AsyncClient, echo: Echo
) -> None:
    body = b'{"a":  1}'
    headers = {"Content-Type": "application/json", "X-Signed": "Yes"}
    answer = await http.post("/hooks/echo", content=body, headers=headers)
    assert (answer.status_code, answer.json()) == (202, {"message": "taken"})
    (given,) = echo.taken
    assert (given.body, given.headers["x-signed"]) == (body, "Yes")


async def test_what_is_no_hook_too_large_or_no_json_never_reaches_one(
    http: httpx.AsyncClient, echo: Echo
) -> None:
    json = {"Content-Type": "application/json"}
    large = b" " * (25 << 20)
    for path, body, headers, status, code in (
        ("/hooks/none", b"{}", json, 404, "not_found"),
        ("/hooks/", b"{}", json, 404, "not_found"),
        ("/hooks/echo", large, json, 413, "too_large"),
        ("/hooks/echo", b"payload=%7B%7D", {}, 415, "unsupported_media_type"),
    ):
        answer = await http.post(path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code), path
    assert (await http.get("/hooks/echo")).status_code == 405
    assert echo.taken == []


async def test_a_hook_that_takes_too_long_or_can_not_write_is_no_success(
    http: httpx.AsyncClient, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "ANSWER_WITHIN", 0.05)
    echo.waits = True
    late = await http.post("/hooks/echo", json={})
    assert (late.status_code, late.json()["code"]) == (503, "store_unavailable")
    echo.waits, echo.fails = False, True
    full = await http.post("/hooks/echo", json={})
    assert (full.status_code, full.json()["code"]) == (503, "store_unavailable")
