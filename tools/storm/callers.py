"""The callers: each asks for nodes, uses them and gives them back, over plain HTTP, until the storm is over.

A caller that loses its server repeats the same request at the next one, with the same idempotency key. What a
server acknowledged is written down here, in the storm's own memory, and must end.
"""

import itertools
import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

REPEAT_FOR = 120.0
"""How long a caller repeats one request before it says that the servers are lost."""
TEMPLATE = "ci"
CALLERS = 5
MOST = 2
"""Nodes per request. All callers together never ask for more than the caps allow."""
_TIMEOUT = 90.0
_SCRIPT = "echo begun; sleep {pause}; echo done"


@dataclass(slots=True)
class Ledger:
    """What was acknowledged, and what became of it. Shared by all callers."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """Operation id to kind."""
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    successes: list[float] = field(default_factory=list)
    """When a provision or a run succeeded, on the monotonic clock."""
    refusals: dict[str, int] = field(default_factory=dict)
    """Problem code to how often a request was refused with it."""

    def end(self, operation: dict[str, Any]) -> None:
        if operation["kind"] in ("provision", "run") and operation["status"] == "succeeded":
            self.successes.append(time.monotonic())
        self.ended[operation["operation_id"]] = operation


class Lost(Exception):
    """No server gave an answer for too long."""


class Caller:
    def __init__(
        self, urls: list[str], token: str, *, number: int, seed: int, ledger: Ledger, over: threading.Event
    ) -> None:
        self._name = f"caller-{number}"
        self._urls = itertools.cycle(urls[number % len(urls) :] + urls[: number % len(urls)])
        self._url = next(self._urls)
        self._http = httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=20.0, trust_env=False)
        self._chance = Random(seed * 1000 + number)  # noqa: S311 — a storm to repeat, no secret
        self._ledger = ledger
        self._over = over

    def live(self) -> None:
        with self._http:
            for turn in itertools.count(1):
                if self._over.is_set():
                    return
                self._once(f"{self._name}-{turn}")

    def _once(self, run: str) -> None:
        act = self._chance.choice((self._provision, self._provision, self._run, self._run, self._cancelled))
        provision = {
            "template": TEMPLATE,
            "count": self._chance.randint(1, MOST),
            "run": run,
            "timeout": _TIMEOUT,
            "queue_timeout": 60.0,
        }
        act(run, provision)

    def _provision(self, run: str, provision: dict[str, Any]) -> None:
        held = self._begin("provision", "/provisions", provision, key=run)
        if held is None:
            return
        ended = self._wait(held)
        if ended["status"] == "succeeded":
            self._over.wait(self._chance.uniform(0.0, 1.0))
            release = {"operation_id": held["operation_id"]}
            given = self._begin("release", "/releases", release, key=f"{run}-release")
            if given is not None:
                self._wait(given)

    def _run(self, run: str, provision: dict[str, Any]) -> None:
        script = _SCRIPT.format(pause=round(self._chance.uniform(0.0, 2.0), 2))
        body = {"provision": provision, "execution": {"argv": ["sh", "-c", script]}}
        begun = self._begin("run", "/runs", body, key=run)
        if begun is not None:
            self._wait(begun)

    def _cancelled(self, run: str, provision: dict[str, Any]) -> None:
        """Cancel a provision. If it was handed over first, release it."""
        held = self._begin("provision", "/provisions", provision, key=run)
        if held is None:
            return
        self._over.wait(self._chance.uniform(0.0, 0.3))
        release = {"operation_id": held["operation_id"]}
        given = self._begin("release", "/releases", release, key=f"{run}-release")
        self._wait(held)
        if given is not None:
            self._wait(given)

    # --- asking -----------------------------------------------------------------------------------

    def _begin(self, kind: str, path: str, body: dict[str, Any], key: str) -> dict[str, Any] | None:
        answer = self._ask("POST", path, json=body, headers={"Idempotency-Key": key})
        if answer.is_success:
            operation: dict[str, Any] = answer.json()
            self._ledger.acknowledged[operation["operation_id"]] = operation.get("kind", kind)
            return operation
        code = answer.json().get("code", str(answer.status_code))
        self._ledger.refusals[code] = self._ledger.refusals.get(code, 0) + 1
        return None

    def _wait(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Follow one operation to its end by asking again and again. There is no other bound than its own."""
        while True:
            answer = self._ask("GET", f"/operations/{operation['operation_id']}")
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            if found["status"] not in ("queued", "running"):
                self._ledger.end(found)
                return found
            time.sleep(0.1)

    def _ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        latest = time.monotonic() + REPEAT_FOR
        while time.monotonic() < latest:
            try:
                answer = self._http.request(method, f"{self._url}/api/v1{path}", **given)
            except httpx.TransportError:
                self._url = next(self._urls)
                time.sleep(0.05)
                continue
            if not answer.is_server_error:
                return answer
            self._url = next(self._urls)
            time.sleep(0.2)
        raise Lost(f"{self._name}: {method} {path} got no answer for {REPEAT_FOR:g} s")
