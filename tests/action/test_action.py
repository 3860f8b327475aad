"""The Action's program against a server that says what it is told to: what it asks, says and gives up on."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from action import muster_action as action

SIGNED: tuple[int, Any, dict[str, str]] = (200, {"value": "a-signed-token"}, {})

CAPACITY = {
    "code": "provision_failed",
    "reason": "capacity",
    "advice": "Ask for less",
    "help": "/codes#capacity",
}
LATE = {"code": "release_failed", "reason": "release_timeout"}


class Partner:
    """GitHub's issuer and the server in one. Answers in the order given; the last one for good."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[int, Any, dict[str, str]]]] = {"/sign": [SIGNED]}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[Any] = []
        partner = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                partner.bodies.append(json.loads(body or b"null"))
                partner.asked.append((self.command, self.path, dict(self.headers)))
                waiting = partner.answers[self.path.partition("?")[0]]
                status, body, headers = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            do_GET = do_POST = answer  # noqa: N815 — the library's names

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def says(self, path: str, *answers: tuple[int, Any] | tuple[int, Any, dict[str, str]]) -> None:
        self.answers[path] = [(each[0], each[1], each[2] if len(each) > 2 else {}) for each in answers]

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]

    def _releases(self) -> list[int]:
        return [at for at, path in enumerate(self.paths()) if path == "/api/v1/releases"]

    def released(self) -> list[str]:
        """What was asked to be given back, in order."""
        return [self.bodies[at]["operation_id"] for at in self._releases()]

    def keys(self) -> list[str]:
        return [self.asked[at][2]["Idempotency-Key"] for at in self._releases()]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def partner() -> Iterator[Partner]:
    made = Partner()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def step(partner: Partner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{partner.url}/sign?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of-the-job",
        "INPUT_MODE": "provision",
        "INPUT_SERVER": partner.url + "/",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)


def operation(status: str, **more: Any) -> dict[str, Any]:
    return {
        "operation_id": "op-1",
        "status": status,
        "elapsed_seconds": 1.5,
        "detail": {"template": "ci"},
        "members": [{"node_id": "n-1"}],
        "parts": [],
        **more,
    }


def test_the_token_is_asked_for_the_server_that_it_is_shown_to(
    partner: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    partner.says("/api/v1/provisions", (201, operation("succeeded")))
    assert action.main() == 0
    quoted = partner.url.replace(":", "%3A").replace("/", "%2F")
    assert partner.paths()[0] == f"/sign?api-version=2.0&audience={quoted}"
    monkeypatch.setenv("INPUT_AUDIENCE", "ours")
    assert action.main() == 0
    assert partner.paths()[2].endswith("&audience=ours")


def test_an_issuer_that_is_away_for_a_moment_is_asked_again(
    partner: Partner, capsys: pytest.CaptureFixture[str]
) -> None:
    partner.answers["/sign"] = [(503, {}, {}), (500, {}, {}), SIGNED]
    partner.says("/api/v1/provisions", (201, operation("succeeded")))
    assert action.main() == 0
    assert "::add-mask::a-signed-token" in capsys.readouterr().out
    partner.answers["/sign"] = [(503, {}, {})]
    assert action.main() == 1
    assert "GitHub gave no token for this job (503)" in capsys.readouterr().out


def test_a_token_that_was_given_is_masked_before_anything_else_is_said(
    partner: Partner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INPUT_TOKEN", "muster_secret")
    partner.says("/api/v1/provisions", (201, operation("succeeded")))
    assert action.main() == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "::add-mask::muster_secret"
    assert [line for line in said if "muster_secret" in line] == said[:1]
    assert partner.asked[0][2]["Authorization"] == "Bearer muster_secret", "and no issuer signs for the job"


def test_a_redirect_is_named_and_not_followed_with_the_token(
    partner: Partner, capsys: pytest.CaptureFixture[str]
) -> None:
    partner.says("/api/v1/provisions", (302, {}, {"Location": f"{partner.url}/elsewhere"}))
    assert action.main() == 1
    assert "/elsewhere" not in partner.paths()
    said = capsys.readouterr().out
    assert "it sends us on to" in said and "set `server` to the address" in said


def test_no_words_become_commands_to_the_runner_or_break_the_summary(
    partner: Partner, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    evil = "50% | done\n::set-output name=label::x\r\n##[error]y <b>"
    going = operation("running", label="booting", message=evil)
    parts = [{"name": "n-1", "state": "failed", "detail": evil}]
    failed = operation("failed", error={**CAPACITY, "message": evil}, parts=parts)
    partner.says("/api/v1/provisions", (201, going))
    partner.says("/api/v1/operations/op-1", (200, failed))
    assert action.main() == 1
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::") or "##[" in line]
    assert [line.partition("::")[2].split()[0].partition("::")[0] for line in commands] == [
        "add-mask",
        "error",
    ]
    assert commands[-1] == (
        "::error title=Muster%3A provision_failed%3A capacity::"
        "50%25 | done%0A::set-output name=label::x%0D%0A"
        f"##[error]y <b>. Ask for less. See {partner.url}/codes#capacity"
    )
    summary = (tmp_path / "summary").read_text()
    assert "| `n-1` | failed | 50% \\| done ::set-output name=label::x ##[error]y &lt;b> |\n" in summary


def test_a_release_waits_for_its_nodes_and_says_how_it_stands(
    partner: Partner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INPUT_MODE", "release")
    partner.says("/api/v1/operations", (200, page("op-p")))
    partner.says("/api/v1/releases", (201, operation("running")))
    partner.says("/api/v1/operations/op-1", (200, operation("running")), (200, operation("succeeded")))
    assert action.main() == 0
    assert "given back in 1.5 s" in capsys.readouterr().out

    late = operation("failed", error={**LATE, "message": "some did not come back"})
    partner.says("/api/v1/operations/op-1", (200, late))
    assert action.main() == 0
    assert (
        "::warning title=Muster%3A release_failed%3A release_timeout::some did not come back"
        in capsys.readouterr().out
    )

    monkeypatch.setattr(action, "RELEASE_WAIT", 0.0)
    partner.says("/api/v1/operations/op-1", (200, operation("running")))
    assert action.main() == 0
    assert "op-1 is under way; the server goes on with it" in capsys.readouterr().out


def page(*names: str, then: str | None = None, status: str = "succeeded") -> dict[str, Any]:
    return {"items": [{"operation_id": name, "status": status} for name in names], "next": then}


def test_a_release_gives_back_all_that_the_attempt_has_each_once(
    partner: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INPUT_MODE", "release")
    partner.says("/api/v1/operations", (200, page("op-3", "op-2", then="more")), (200, page("op-1")))
    partner.says("/api/v1/releases", (201, operation("succeeded")))
    assert action.main() == 0
    looks = [path for path in partner.paths() if path.startswith("/api/v1/operations")]
    first = "/api/v1/operations?kind=provision&run=acme%2Fshop%2F7-1"
    assert looks == [first, f"{first}&cursor=more"]
    assert partner.released() == ["op-1", "op-2", "op-3"]
    keys = partner.keys()
    assert len(set(keys)) == 3

    partner.says("/api/v1/operations", (200, page("op-4", "op-1")))
    assert action.main() == 0
    assert partner.released()[3:] == ["op-1", "op-4"]
    assert partner.keys()[3] == keys[0] and partner.keys()[4] not in keys


def test_a_release_that_is_refused_does_not_keep_the_others_from_theirs(
    partner: Partner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INPUT_MODE", "release")
    partner.says("/api/v1/operations", (200, page("op-2", "op-1")))
    refused = {"code": "forbidden", "detail": "cannot do this as viewer"}
    partner.says("/api/v1/releases", (403, refused), (201, operation("succeeded")))
    assert action.main() == 1
    said = capsys.readouterr().out
    assert partner.released() == ["op-1", "op-2"] and "giving back op-2" in said
    assert "::error title=Muster%3A forbidden::cannot do this as viewer" in said


def test_a_release_without_anything_to_give_back_is_no_failure(
    partner: Partner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INPUT_MODE", "release")
    words = "::notice title=Muster%3A nothing to release::"
    for found in (page(), page("op-1", status="failed"), page("op-1", status="cancelled")):
        partner.says("/api/v1/operations", (200, found))
        assert action.main() == 0
        assert f"{words}acme/shop/7-1 has no runners" in capsys.readouterr().out
    assert not partner.released()
    monkeypatch.setenv("INPUT_OPERATION_ID", "op-gone")
    partner.says("/api/v1/releases", (404, {"detail": "cannot find operation 'op-gone'"}))
    assert action.main() == 0
    assert f"{words}cannot find operation 'op-gone'" in capsys.readouterr().out


def test_a_count_of_none_is_told_what_the_least_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INPUT_INSTANCE_COUNT", "0")
    assert action.main() == 1
    assert "instance-count must be a number from 1 to below 1e+06, not '0'" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["provision", "release"])
@pytest.mark.parametrize("label", ["one\ntwo", "one\r\nlabel=two", "größe", "a b", "-a", "a" * 201])
def test_a_label_that_is_none_is_refused_before_anything_is_asked(
    partner: Partner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mode: str,
    label: str,
) -> None:
    monkeypatch.setenv("INPUT_MODE", mode)
    monkeypatch.setenv("INPUT_LABEL", label)
    assert action.main() == 1
    assert "::error title=Muster%3A bad input::label must be one label" in capsys.readouterr().out
    assert not partner.asked


def test_a_token_that_cant_be_sent_is_refused_at_once_and_not_quoted(
    partner: Partner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INPUT_TOKEN", "muster_\nsecret")
    assert action.main() == 1
    said = capsys.readouterr().out
    assert "bad input::cannot send the request: `token` or `server`" in said and "trying again" not in said
    assert [line for line in said.splitlines() if "secret" in line] == ["::add-mask::muster_%0Asecret"]


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "many", "nan", "1e9"])
def test_a_count_that_is_none_is_refused_before_anything_is_asked(
    partner: Partner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    monkeypatch.setenv("INPUT_INSTANCE_COUNT", count)
    assert action.main() == 1
    assert "::error title=Muster%3A bad input::instance-count must be a" in capsys.readouterr().out
    assert not partner.asked
