"""A node in an app: comes, says how it feels, goes, and is never in the app's way."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster.sdk import Misconfigured, Node, session
from tests.sdk.plane import WITHIN, Plane, Said

TOKEN = "muster_enrolment-token"
AWAY = "http://127.0.0.1:9"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def plane() -> Iterator[Plane]:
    with Plane() as plane:
        yield plane


def node(plane: Plane | None = None, **given: Any) -> Node:
    said: dict[str, Any] = {
        "server": AWAY if plane is None else plane.url,
        "token": TOKEN,
        "name": "web-1",
        "beat_seconds": 2,
        "accepts": lambda: True,
    }
    return Node(**(said | given))


def test_an_app_comes_serves_and_goes(plane: Plane) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        with node(plane, accepts=None, port=server.getsockname()[1]) as app:
            enrolled = plane.hears("enrol")
            assert enrolled.bearer == TOKEN
            assert (enrolled.body["name"], enrolled.body["beat_seconds"]) == ("web-1", 2.0)
            plane.hears("starting")
            assert (app.id, app.status, app.problem) == ("node-1", "starting", None)
            server.listen()
            assert plane.hears("report").body == {"booted": True, "attached": "as-1"}
            assert plane.hears("ready").bearer == "node-token"
            assert app.status == "ready"
            app.degraded("db is slow")
            assert plane.hears("degraded").body["reason"] == "db is slow"
            app.ready()
            plane.hears("ready", 2)
    assert plane.words == ["enrol", "starting", "report", "ready", "degraded", "ready", "offline", "left"]
    assert [said.word for said in plane.said].count("offline") == 1
    assert (app.id, app.status) == (None, "offline")


async def test_an_async_app_does_the_same_and_its_loop_goes_on_meanwhile(plane: Plane) -> None:
    release = threading.Event()

    def slow(said: Said) -> None:
        if said.word == "left":
            release.wait(WITHIN)

    plane.reply = slow
    async with node(plane) as app:
        await asyncio.to_thread(plane.hears, "ready")
        assert app.status == "ready"
        asyncio.get_running_loop().call_later(0.1, release.set)  # only a loop that goes on lets it go
    assert plane.words == ["enrol", "report", "ready", "offline", "left"]


async def test_a_cancelled_app_still_says_goodbye(plane: Plane) -> None:
    async def app() -> None:
        async with node(plane):
            await asyncio.Event().wait()

    task = asyncio.create_task(app())
    await asyncio.to_thread(plane.hears, "ready")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert plane.words[-2:] == ["offline", "left"]


def test_it_can_be_started_again_and_is_then_another_node(plane: Plane) -> None:
    app = node(plane)
    for life in (1, 2):
        app.start()
        app.start()
        plane.hears("report", life)
        app.stop()
        app.stop()
    keys = [said.body["key"] for said in plane.said if said.word == "enrol"]
    assert len(keys) == 2 and keys[0] != keys[1]


def test_without_a_server_the_app_starts_at_once_and_ends_within_its_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    with node(leave_within=0.3) as app:
        assert time.monotonic() - began < 1.0
        _until(lambda: app.problem)
        assert "no server answers" in (app.problem or "")
    assert time.monotonic() - began < WITHIN
    problems = [record for record in caplog.records if "no server answers" in record.message]
    assert len(problems) == 1, "said once, not with every try"


def _until(holds: Any) -> None:
    latest = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < latest
        time.sleep(0.01)


@pytest.mark.parametrize(
    "reply",
    [
        (200, "<html>welcome</html>"),
        (200, "[]"),
        (200, {"hello": "world"}),
        (502, "bad gateway"),
        (404, "<html>nothing here</html>"),
        (500, {"code": "internal", "detail": "a bug"}),
        (301, ""),
    ],
)
def test_whatever_a_server_answers_the_app_goes_on(plane: Plane, reply: tuple[int, Any]) -> None:
    plane.reply = lambda _said: reply
    with node(plane, leave_within=0.3) as app:
        plane.hears("enrol", 2)
        assert app.id is None and app.problem
        plane.reply = lambda _said: None
        plane.hears("ready")
        assert app.id == "node-1"


def test_of_several_servers_the_one_that_answers_is_used(plane: Plane) -> None:
    with node(plane, server=[AWAY, plane.url]):
        plane.hears("ready")


def test_an_app_whose_own_check_fails_is_starting_and_goes_on(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    broken = True

    def accepts() -> bool:
        if broken:
            raise RuntimeError("not today")
        return True

    with node(plane, accepts=accepts):
        plane.hears("starting", 2)
        broken = False
        plane.hears("ready")
    assert caplog.text.count("accepts() failed") == 1


def test_an_unforeseen_error_is_logged_and_tried_again(
    plane: Plane, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RETRY_MOST", 0.05)
    opened = httpx.HTTPTransport
    tries: list[int] = []

    def transport(**given: Any) -> httpx.HTTPTransport:
        tries.append(1)
        if len(tries) == 1:
            raise OSError(24, "Too many open files")
        return opened(**given)

    monkeypatch.setattr(httpx, "HTTPTransport", transport)
    with node(plane):
        plane.hears("ready")
    assert caplog.text.count("cannot be a node just now") == 1


def test_forgotten_it_joins_again_and_removed_it_stays_out(plane: Plane) -> None:
    with node(plane) as app:
        plane.hears("ready")
        plane.reply = lambda said: (
            (401, {"code": "unauthenticated", "detail": "join again"}) if said.what == "beat" else None
        )
        plane.hears("enrol", 2)
        plane.reply = lambda said: (
            (410, {"code": "removed", "detail": "by an operator"}) if said.what == "beat" else None
        )
        plane.hears("left")
        _until(lambda: app.id is None)
        assert "taken out" in (app.problem or "")
        said = len(plane.said)
    assert len(plane.said) == said, "nothing more to say"


def test_no_secret_is_logged(plane: Plane, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    plane.reply = lambda said: (
        (401, {"code": "unauthenticated", "detail": "no"}) if said.what == "enrol" else None
    )
    with node(plane) as app:
        _until(lambda: app.problem)
        plane.reply = lambda _said: None
        plane.hears("ready")
    ours = "\n".join(record.getMessage() for record in caplog.records)
    assert "cannot enrol: no" in ours
    for secret in (TOKEN, "node-token", *(said.body["key"] for said in plane.said if said.word == "enrol")):
        assert secret not in ours
    assert not [record for record in caplog.records if record.name == "httpx"], (
        "a beat is no news for the app"
    )


# --- ASGI -----------------------------------------------------------------------------------------


async def test_a_lifespan_wraps_the_apps_own_and_looks_only_after_it_has_started(plane: Plane) -> None:
    order: list[str] = []

    @asynccontextmanager
    async def own(app: object) -> AsyncIterator[dict[str, str]]:
        order.append("start")
        await asyncio.to_thread(plane.hears, "starting")
        assert "report" not in plane.words
        yield {"kept": "state"}
        order.append("end")
        assert "left" not in plane.words, "the app's own end comes first"

    async with node(plane).lifespan(own)("app") as state:
        assert state == {"kept": "state"}
        await asyncio.to_thread(plane.hears, "ready")
    assert order == ["start", "end"]
    assert plane.words[-2:] == ["offline", "left"]


async def test_a_lifespan_needs_none_inside(plane: Plane) -> None:
    async with node(plane).lifespan()("app") as state:
        assert state is None
        await asyncio.to_thread(plane.hears, "ready")
    assert plane.words[-1] == "left"


async def test_an_app_that_fails_to_start_fails_as_it_would_and_leaves(plane: Plane) -> None:
    async def connect() -> None:
        await asyncio.to_thread(plane.hears, "starting")
        raise LookupError("no database")

    @asynccontextmanager
    async def own(_app: object) -> AsyncIterator[None]:
        await connect()
        yield

    with pytest.raises(LookupError, match="no database"):
        async with node(plane).lifespan(own)("app"):
            pass
    assert plane.words == ["enrol", "starting", "offline", "left"]


async def test_wrong_settings_stop_a_lifespan_and_say_what_to_do() -> None:
    with pytest.raises(Misconfigured, match="MUSTER_APP_PORT"):
        async with node(accepts=None).lifespan()("app"):
            pass


# --- SIGTERM --------------------------------------------------------------------------------------


def test_sigterm_goes_on_to_the_handler_that_was_there_before(plane: Plane) -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: got.append(number))
    try:
        listening = signal.getsignal(signal.SIGTERM)
        with node(plane) as app:
            plane.hears("ready")
            os.kill(os.getpid(), signal.SIGTERM)
            plane.hears("offline")
            assert (got, app.status) == ([signal.SIGTERM], "offline")
        assert signal.getsignal(signal.SIGTERM) is listening
    finally:
        signal.signal(signal.SIGTERM, before)
    assert plane.words == ["enrol", "report", "ready", "offline", "left"]


def test_without_signal_handling_no_handler_is_installed(plane: Plane) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with node(plane, signals=False):
        assert signal.getsignal(signal.SIGTERM) is before


def test_a_node_may_live_in_any_thread(plane: Plane) -> None:
    before = signal.getsignal(signal.SIGTERM)
    app = node(plane)
    thread = threading.Thread(target=app.start)
    thread.start()
    thread.join()
    plane.hears("ready")
    assert signal.getsignal(signal.SIGTERM) is before
    app.stop()
    assert plane.words[-1] == "left"


SCRIPT = """
import sys, threading
from muster.sdk import Node
node = Node(server=sys.argv[1], token="t", name="worker", accepts=lambda: True, beat_seconds=2)
{how}
"""
WITH = "with node:\n    print('up', flush=True)\n    threading.Event().wait()"
START = "node.start()\nprint('up', flush=True)\nthreading.Event().wait()"
ENDS = "node.start()\nimport time\nwhile node.status != 'ready' or not node.id: time.sleep(0.01)"


@pytest.mark.parametrize("how", [WITH, START])
def test_a_plain_program_that_is_terminated_says_goodbye(plane: Plane, how: str) -> None:
    with _program(plane, how) as program:
        plane.hears("ready")
        program.send_signal(signal.SIGTERM)
        assert program.wait(WITHIN) == 128 + signal.SIGTERM
    assert plane.words == ["enrol", "report", "ready", "offline", "left"]


FORKS = """
import os, signal
with node:
    while not node.id: threading.Event().wait(0.01)
    ready, up = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(up, b"!")
        threading.Event().wait()
    os.read(ready, 1)  # Python drops signals that come while it forks
    os.kill(child, signal.SIGTERM)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(0 if status == -signal.SIGTERM else 1)
"""


def test_a_child_of_the_app_dies_as_it_would_and_the_app_stays(plane: Plane) -> None:
    with _program(plane, FORKS) as program:
        assert program.wait(WITHIN) == 0
    assert plane.words[-2:] == ["offline", "left"]
    assert plane.words.count("offline") == 1


def test_a_plain_program_that_ends_by_itself_says_goodbye(plane: Plane) -> None:
    with _program(plane, ENDS) as program:
        assert program.wait(WITHIN) == 0
    assert plane.words[-2:] == ["offline", "left"]


@contextmanager
def _program(plane: Plane, how: str) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    argv = [sys.executable, "-c", SCRIPT.format(how=how), plane.url]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL) as program:
        try:
            yield program
        finally:
            program.kill()
