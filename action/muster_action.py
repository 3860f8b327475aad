#!/usr/bin/env python3
"""The Action's one program, for Python 3.8 or later without packages: provision runners, or release them.

Everything may be repeated: a request carries a key made of the run attempt and the label. So a step that is
tried again finds what the first try began. A step that is cancelled cancels its provision. Secrets are masked
before anything else is written.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, NoReturn

PATIENCE = 120.0  # seconds that a server may be away in the middle of it
SIGN_TRIES = 5
RELEASE_WAIT = 60.0  # seconds to see nodes come back; the server goes on without us
LOOK_EVERY = 1.0
SIGNED_FOR = 240.0  # GitHub signs for five minutes
AWAY = (0, 429, 500, 502, 503, 504)
MOVED = (301, 302, 303, 307, 308)
KEY_MAX = 128
NUMBER_END = 1e6
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,199}")  # the server's own rule
ENDED = ("succeeded", "failed", "cancelled")
WITHOUT = ("failed", "cancelled")  # a provision that ended so holds nothing


class Failure(Exception):
    """What to tell people: a short title and a sentence, and advice if there is any."""

    def __init__(self, title: str, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.title, self.message, self.advice = title, message, advice


class Cancelled(Exception):
    pass


def given(name: str) -> str:
    return os.environ.get("INPUT_" + name, "").strip()


def needed(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise Failure(
            "not a workflow", f"cannot go on: {name} is not set; this runs inside GitHub Actions only"
        )
    return value


def number(name: str, *, least: float = 0.0) -> float | None:
    """An input that is a number, or was left out."""
    text, field = given(name), name.lower().replace("_", "-")
    try:
        value = float(text) if text else None
    except ValueError:
        raise Failure("bad input", f"{field} must be a number, not {text!r}") from None
    if value is not None and not least <= value < NUMBER_END:
        rule = f"must be a number from {least:g} to below {NUMBER_END:g}"
        raise Failure("bad input", f"{field} {rule}, not {text!r}")
    return value


def say(text: str) -> None:
    """One line, which the runner takes for text whatever others put into it."""
    text = text.replace("\r", " ").replace("\n", " ").replace("##[", "## [")
    print(": " + text if text.lstrip().startswith("::") else text, flush=True)


def command(words: str, text: str) -> None:
    """A word to the runner. What it is about is escaped, as such commands want it."""
    print(f"::{words}::{escaped(text)}", flush=True)


def escaped(text: str, *, inner: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if inner else text


def note(kind: str, title: str, text: str) -> None:
    command(f"{kind} title={escaped('Muster: ' + title, inner=True)}", text)


def cell(text: Any) -> str:
    """Of a table in the summary."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def kept(variable: str, text: str) -> None:
    """Appended to one of the files that the runner reads after the step."""
    path = os.environ.get(variable, "")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def output(name: str, value: str) -> None:
    kept("GITHUB_OUTPUT", f"{name}={value}\n")


# --- the server ----------------------------------------------------------------------------------------


class Server:
    def __init__(self) -> None:
        url = given("SERVER").rstrip("/")
        if not re.match(r"https?://[^/]+", url):
            raise Failure("bad input", f"server must be a URL like https://muster.example.com, not {url!r}")
        self.site, self.url, self.token, self.signed_at = url, url + "/api/v1", given("TOKEN"), 0.0
        self.audience = given("AUDIENCE") or url
        self.own = bool(self.token)
        if self.own:
            command("add-mask", self.token)

    def authorization(self) -> str:
        if (not self.own and time.monotonic() - self.signed_at > SIGNED_FOR) or not self.token:
            self.token, self.signed_at = self.signed(), time.monotonic()
            command("add-mask", self.token)
        return "Bearer " + self.token

    def signed(self) -> str:
        url = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", "")
        secret = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "")
        if not url or not secret:
            raise Failure(
                "cannot sign in",
                "the job may not ask GitHub for a token, and none was given",
                "give the job `permissions: id-token: write`, or pass `token`",
            )
        url += ("&" if "?" in url else "?") + "audience=" + urllib.parse.quote(self.audience, safe="")
        status, body = 0, None
        for tried in range(SIGN_TRIES):
            status, body = fetched("GET", url, {"Authorization": "bearer " + secret})
            if status not in AWAY:
                break
            say(f"GitHub gives no token for this job ({body.get('detail') or status}); trying again")
            time.sleep(2.0**tried)
        if status != 200 or not body or not body.get("value"):
            raise Failure("cannot sign in", f"GitHub gave no token for this job ({status})")
        return str(body["value"])

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        """Until there is an answer that is one, for as long as a restart of the server takes."""
        until, pause = time.monotonic() + PATIENCE, 1.0
        while True:
            headers = {"Authorization": self.authorization(), **({"Idempotency-Key": key} if key else {})}
            status, answer = fetched(method, self.url + path, headers, body)
            if status not in AWAY or time.monotonic() > until:
                return status, answer
            if status == 502 and answer.get("code") == "provider_error":
                return status, answer
            say(f"the server does not answer ({answer.get('detail') or status}); trying again")
            time.sleep(pause)
            pause = min(pause * 2, 10.0)

    def must(self, method: str, path: str, body: Any = None, key: str = "") -> Any:
        status, answer = self.ask(method, path, body, key)
        if 200 <= status < 300:
            return answer
        raise refusal(status, answer)


class Stays(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: a POST would become a GET, and the token would go to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


opener = urllib.request.build_opener(Stays)


def fetched(method: str, url: str, headers: dict[str, str], body: Any = None) -> tuple[int, Any]:
    """Status and JSON; status 0 if there is no readable answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data=data, method=method, headers={"Content-Type": "application/json", **headers}
    )
    try:
        with opener.open(request, timeout=30) as answer:
            said = json.loads(answer.read() or b"{}")
            return answer.status, said if isinstance(said, dict) else {}
    except json.JSONDecodeError as error:
        return 0, {"detail": f"its answer is no JSON: {error}"}
    except urllib.error.HTTPError as error:
        if error.code in MOVED:
            return error.code, {"detail": f"it sends us on to {error.headers.get('Location')}"}
        try:
            said = json.loads(error.read())
        except ValueError:
            said = {}
        return error.code, said if isinstance(said, dict) else {}
    except ValueError:
        # The library's words quote what can't be sent, which may be the token.
        raise Failure(
            "bad input", "cannot send the request: `token` or `server` has a character that HTTP forbids"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        return 0, {"detail": str(error)}


def refusal(status: int, answer: Any) -> Failure:
    detail = answer.get("detail") or f"no answer from {given('SERVER')}"
    advice = {
        **dict.fromkeys(MOVED, "set `server` to the address that the server itself answers at"),
        401: "check `token`, or the server's [trust] rules for this repository and ref",
        403: "check what the token may do, or the server's [trust] rules",
        0: "check `server`, and that this runner can reach it",
    }
    return Failure(str(answer.get("code") or status or "unreachable"), str(detail), advice.get(status, ""))


# --- what is asked for -----------------------------------------------------------------------------------


class Attempt:
    """This run attempt, as GitHub tells of it."""

    def __init__(self) -> None:
        self.repository = needed("GITHUB_REPOSITORY")
        self.run_id, self.attempt = int(needed("GITHUB_RUN_ID")), int(needed("GITHUB_RUN_ATTEMPT"))
        self.label = given("LABEL") or f"{self.run_id}-{self.attempt}"
        if not LABEL.fullmatch(self.label):
            rule = "must be one label of at most 200 letters, digits and . _ / : @ + -"
            raise Failure("bad input", f"label {rule}, not {self.label!r}")
        self.run = f"{self.repository}/{self.run_id}-{self.attempt}"

    def key(self, mode: str) -> str:
        """The same for every try of this attempt."""
        key = f"github/{mode}/{self.run}/{self.label}"
        return key if len(key) <= KEY_MAX else f"github/{mode}/{hashlib.sha256(key.encode()).hexdigest()}"


def request(attempt: Attempt) -> dict[str, Any]:
    count = number("INSTANCE_COUNT", least=1.0) or 1.0
    if count != int(count):
        raise Failure("bad input", f"instance-count must be a whole number, not {given('INSTANCE_COUNT')!r}")
    minutes = {"max_runtime": number("MAX_RUNTIME_MIN"), "timeout": number("TIMEOUT")}
    usage = [word for word in re.split(r"[\s,]+(?:then\s+)?", given("USAGE_CLASS")) if word]
    types = given("ALLOWED_INSTANCE_TYPES").replace(",", " ").split()
    asked = {
        "template": given("TEMPLATE") or "ci",
        "count": int(count),
        "run": attempt.run,
        "owner": attempt.repository,
        "resource_class": given("RESOURCE_CLASS") or None,
        "usage": usage or None,
        "instance_types": types or None,
        "queue_timeout": (number("QUEUE_TIMEOUT") or 0.0) * 60,
        **{name: value * 60 for name, value in minutes.items() if value},
        "workflow": {
            "repository": attempt.repository,
            "run_id": attempt.run_id,
            "attempt": attempt.attempt,
            "label": attempt.label,
        },
    }
    return {name: value for name, value in asked.items() if value is not None}


# --- provision ------------------------------------------------------------------------------------------


def provision(server: Server, attempt: Attempt) -> None:
    asked = request(attempt)
    operation = server.must("POST", "/provisions", asked, attempt.key("provision"))
    name = operation["operation_id"]
    say(f"asked for {asked['count']} x {asked['template']} as {name}")
    output("operation-id", name)
    try:
        operation = followed(server, operation)
    except Cancelled:
        server.ask("POST", f"/operations/{name}/cancel")
        raise Failure("cancelled", f"the workflow was cancelled; so is {name}") from None
    if operation["status"] != "succeeded":
        error = operation.get("error") or {}
        summarise(operation, attempt, error)
        message = str(error.get("message") or f"{name} {operation['status']}")
        raise Failure(titled(error, operation["status"]), message, advised(server, error))
    nodes = [member["node_id"] for member in operation["members"]]
    output("label", attempt.label)
    output("node-ids", json.dumps(nodes))
    summarise(operation, attempt, {})
    say(f"{len(nodes)} ready in {operation['elapsed_seconds']:.1f} s; runs-on: {attempt.label}")


def followed(server: Server, operation: Any, within: float = float("inf")) -> Any:
    """The operation as it is when it has ended, or when so many seconds have passed."""
    told, until = "", time.monotonic() + within
    while True:
        words = worded(operation)
        if words != told:
            say(f"{operation['elapsed_seconds']:6.1f} s  {words}")
            told = words
        if operation["status"] in ENDED or time.monotonic() >= until:
            return operation
        time.sleep(LOOK_EVERY)
        operation = server.must("GET", "/operations/" + operation["operation_id"])


def worded(operation: Any) -> str:
    """Where the operation is: `[3/5] Booting: 1 of 2 nodes are up`."""
    step = f"[{operation.get('step') or '-'}/{operation.get('total_steps') or '-'}]"
    label, message = operation.get("label") or operation["status"], operation.get("message")
    return f"{step} {label}: {message}" if message else f"{step} {label}"


def titled(error: Any, status: str) -> str:
    """One word for the failure, and why: `provision_failed: capacity`."""
    return ": ".join(str(error[key]) for key in ("code", "reason") if error.get(key)) or status


def advised(server: Server, error: Any) -> str:
    """What to do, and where that is explained."""
    where = f"See {server.site}{error['help']}" if error.get("help") else ""
    return ". ".join(part for part in (str(error.get("advice") or ""), where) if part)


def summarise(operation: Any, attempt: Attempt, error: Any) -> None:
    good = operation["status"] == "succeeded"
    result = cell(operation["detail"].get("result") or operation["status"])
    lines = [f"### {'✔' if good else '✖'} Muster: {result}", ""]
    if error:
        lines += [f"**{cell(titled(error, operation['status']))}**: {cell(error.get('message'))}", ""]
        lines += [f"> {cell(error['advice'])}", ""] if error.get("advice") else []
    lines += [
        "| | |",
        "|---|---|",
        f"| label | `{attempt.label}` |",
        f"| operation | `{operation['operation_id']}` |",
    ]
    lines += [
        f"| template | {operation['detail'].get('template')} |",
        f"| took | {operation['elapsed_seconds']:.1f} s |",
        "",
    ]
    if operation.get("parts"):
        lines += ["| node | state | |", "|---|---|---|"]
        for part in operation["parts"]:
            lines.append(f"| `{part['name']}` | {part['state']} | {cell(part['detail'])} |")
    kept("GITHUB_STEP_SUMMARY", "\n".join(lines) + "\n")


# --- release --------------------------------------------------------------------------------------------


def release(server: Server, attempt: Attempt) -> None:
    """Everything of this attempt, or the named operation. Nothing to give back is no failure."""
    named = given("OPERATION_ID")
    begun, refused, missing = [], [], f"{attempt.run} has no runners"
    for name in [named] if named else provisions(server, attempt):
        status, answer = server.ask("POST", "/releases", {"operation_id": name}, release_key(name))
        if status == 404:
            missing = str(answer.get("detail") or missing)
        elif not 200 <= status < 300:
            refused.append(refusal(status, answer))
        else:
            output("operation-id", answer["operation_id"])
            say(f"giving back {name} as {answer['operation_id']}")
            begun.append(answer)
    if not begun and not refused:
        note("notice", "nothing to release", missing)
    until = time.monotonic() + RELEASE_WAIT
    for each in begun:
        returned(followed(server, each, until - time.monotonic()))
    if refused:
        raise refused[0]


def provisions(server: Server, attempt: Attempt) -> list[str]:
    """What this attempt got, or is getting; the newest last, so that the step's output is its release."""
    found, cursor = [], ""
    while True:
        asked = {"kind": "provision", "run": attempt.run, **({"cursor": cursor} if cursor else {})}
        page = server.must("GET", "/operations?" + urllib.parse.urlencode(asked))
        found += [each["operation_id"] for each in page["items"] if each["status"] not in WITHOUT]
        cursor = page.get("next") or ""
        if not cursor:
            return found[::-1]


def returned(operation: Any) -> None:
    """How it stands. A node that doesn't come back is thrown away by the server: no reason to fail a job."""
    name, status = operation["operation_id"], operation["status"]
    if status not in ENDED:
        note("notice", "still giving back", f"{name} is under way; the server goes on with it")
    elif status == "succeeded":
        say(f"given back in {operation['elapsed_seconds']:.1f} s")
    else:
        error = operation.get("error") or {}
        note("warning", titled(error, status), str(error.get("message") or f"{name} {status}"))


def release_key(name: str) -> str:
    """Of one provision: what is given back once is given back. Never of a run, which may get more."""
    return f"github/release/{hashlib.sha256(name.encode()).hexdigest()}"


def chosen(mode: str) -> Callable[[Server, Attempt], None]:
    modes = {"provision": provision, "release": release}
    if mode not in modes:
        raise Failure("bad input", f"mode must be provision or release, not {mode!r}")
    return modes[mode]


def cancelled(*_: Any) -> NoReturn:
    raise Cancelled


def main() -> int:
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, cancelled)
    try:
        chosen(given("MODE"))(Server(), Attempt())
    except Failure as failure:
        note("error", failure.title, f"{failure.message}{'. ' + failure.advice if failure.advice else ''}")
        return 1
    except Cancelled:
        note("error", "cancelled", "the workflow was cancelled")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
