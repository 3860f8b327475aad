"""Arguments before environment, and mistakes named with what to do."""

import socket
from pathlib import Path
from typing import Any

import pytest

from muster.sdk import Misconfigured, Node
from muster.sdk.settings import Arguments, Settings, resolve

ENVIRONMENT = {
    "MUSTER_SERVER": "http://a:8420, http://b:8420/ ,http://a:8420",
    "MUSTER_ENROL_TOKEN": "muster_secret\n",
    "MUSTER_APP_PORT": "8000",
}


def found(environment: dict[str, str] | None = None, **given: Any) -> Settings:
    return resolve(Arguments(**given), {**ENVIRONMENT, **(environment or {})})


def test_the_environment_is_enough() -> None:
    settings = found({"MUSTER_NAME": "web-1", "MUSTER_BEAT_SECONDS": "10"})
    assert settings.servers == ("http://a:8420", "http://b:8420")
    assert (settings.token, settings.name, settings.beat_seconds) == ("muster_secret", "web-1", 10.0)
    assert settings.address == ""


def test_arguments_win_over_the_environment() -> None:
    settings = found(
        {"MUSTER_NAME": "web-1", "MUSTER_BEAT_SECONDS": "10"},
        server="http://c:1",
        token="other",
        name="web-2",
        beat_seconds=2,
    )
    assert (settings.servers, settings.token) == (("http://c:1",), "other")
    assert (settings.name, settings.beat_seconds) == ("web-2", 2.0)


def test_a_token_may_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("from-a-file\n")
    settings = found({"MUSTER_ENROL_TOKEN": "", "MUSTER_ENROL_TOKEN_FILE": str(path)})
    assert settings.token == "from-a-file"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000/health"),
        ("http://10.0.0.5:8000/", "http://10.0.0.5:8000/health"),
        ("http://10.0.0.5:8000/up", "http://10.0.0.5:8000/up"),
    ],
)
def test_a_bare_address_is_probed_at_the_usual_path(given: str, shown: str) -> None:
    assert found(address=given).address == shown
    assert found({"MUSTER_ADDRESS": given}).address == shown


@pytest.mark.parametrize(
    ("environment", "given", "named"),
    [
        ({"MUSTER_SERVER": ""}, {}, "MUSTER_SERVER"),
        ({"MUSTER_SERVER": " , "}, {}, "MUSTER_SERVER"),
        ({"MUSTER_SERVER": "127.0.0.1:8420"}, {}, "MUSTER_SERVER"),
        ({"MUSTER_SERVER": "http://user:pw@host"}, {}, "MUSTER_SERVER"),
        ({"MUSTER_SERVER": "http://host:99999"}, {}, "MUSTER_SERVER"),
        ({"MUSTER_ENROL_TOKEN": ""}, {}, "MUSTER_ENROL_TOKEN"),
        ({"MUSTER_ENROL_TOKEN": "two words"}, {}, "MUSTER_ENROL_TOKEN"),
        ({"MUSTER_ENROL_TOKEN": "", "MUSTER_ENROL_TOKEN_FILE": "/none"}, {}, "MUSTER_ENROL_TOKEN_FILE"),
        ({"MUSTER_APP_PORT": ""}, {}, "MUSTER_APP_PORT"),
        ({"MUSTER_APP_PORT": "http"}, {}, "MUSTER_APP_PORT"),
        ({}, {"port": 0}, "MUSTER_APP_PORT"),
        ({}, {"port": 65536}, "MUSTER_APP_PORT"),
        ({}, {"name": "two\nlines"}, "MUSTER_NAME"),
        ({}, {"address": "10.0.0.5"}, "MUSTER_ADDRESS"),
        ({"MUSTER_BEAT_SECONDS": "soon"}, {}, "MUSTER_BEAT_SECONDS"),
        ({}, {"beat_seconds": 1.9}, "MUSTER_BEAT_SECONDS"),
        ({}, {"beat_seconds": 31}, "MUSTER_BEAT_SECONDS"),
    ],
)
def test_a_mistake_is_named_with_what_to_set(
    environment: dict[str, str], given: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misconfigured, match=named) as wrong:
        found(environment, **given)
    assert str(wrong.value).startswith("cannot ")
    assert "pw@" not in str(wrong.value) and "muster_secret" not in str(wrong.value)


def test_it_looks_at_its_own_port_and_believes_only_a_connection() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        settings = found(port=server.getsockname()[1])
        assert not settings.accepts()
        server.listen()
        assert settings.accepts()
    assert not settings.accepts()


def test_an_app_without_a_port_says_itself_when_it_is_up() -> None:
    up = False
    settings = found({"MUSTER_APP_PORT": ""}, accepts=lambda: up)
    assert not settings.accepts()
    up = True
    assert settings.accepts()


def test_settings_are_read_when_it_starts_not_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MUSTER_SERVER", "MUSTER_ENROL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    node = Node(port=8000)
    assert (node.id, node.status, node.problem) == (None, "offline", None)
    node.degraded("not yet")
    with pytest.raises(Misconfigured, match="MUSTER_SERVER"):
        node.start()
    node.stop()


def test_no_secret_is_in_what_is_printed() -> None:
    assert "muster_secret" not in repr(found())
    assert "other" not in repr(Arguments(token="other"))
