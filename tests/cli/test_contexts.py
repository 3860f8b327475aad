"""Contexts: several servers by name, which one counts, what is kept, and what goes wrong on the way there."""

import datetime
import io
import json
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from muster.integrations.process.demo_site import Site
from tests.cli.terminal import MUSTER, Said, Terminal
from tests.cli.tls import Authority, in_front


@pytest.fixture
def laptop(tmp_path: Path) -> Terminal:
    """A machine without a server of its own."""
    home = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path),
    }
    return Terminal(tmp_path, home)


@pytest.fixture(scope="module")
def token(terminal: Terminal) -> str:
    return str(terminal.muster("tokens", "create", "laptop", "-o", "json").json["secret"])


def _login(laptop: Terminal, url: str, secret: str, *words: str) -> Said:
    with patch.object(sys, "stdin", io.StringIO(secret + "\n")):
        return laptop.muster("login", url, "--token", *words)


def _file(laptop: Terminal) -> Path:
    return Path(laptop.environment["XDG_CONFIG_HOME"]) / "muster" / "contexts.json"


@pytest.fixture
def logged_in(laptop: Terminal, site: Site, token: str) -> Terminal:
    said = _login(laptop, site.url, token, "--name", "prod")
    assert said.code == 0, said.err
    assert "as laptop (operator)" in said.out and "context prod is in use" in said.out
    return laptop


def test_a_login_is_used_by_every_command_and_kept_for_its_owner_alone(
    logged_in: Terminal, site: Site, token: str
) -> None:
    assert "small" in logged_in.muster("templates").out
    assert oct(_file(logged_in).stat().st_mode & 0o777) == "0o600"
    assert oct(_file(logged_in).parent.stat().st_mode & 0o777) == "0o700"
    listed = logged_in.muster("contexts", "-o", "json").json
    (item,) = listed["items"]
    assert (listed["current"], item["server"], item["person"], item["login"]) == (
        "prod", site.url, "laptop", "valid",
    )  # fmt: skip
    shown = [
        logged_in.muster(*words) for words in (("contexts",), ("contexts", "show"), ("contexts", "list"))
    ]
    assert all(said.code == 0 and token not in said.out + said.err for said in shown)
    assert shown[0].out.splitlines()[2].split()[:2] == ["*", "prod"]
    assert ["current", "yes"] in [line.split() for line in shown[1].out.splitlines()]


def test_the_environment_and_the_flag_count_before_the_context_in_use(
    logged_in: Terminal, site: Site, terminal: Terminal
) -> None:
    nowhere = f"http://127.0.0.1:{_closed_port()}"
    assert nowhere in logged_in.muster("nodes", MUSTER_SERVER=nowhere).err
    assert "doesn't know" in logged_in.muster("nodes", MUSTER_TOKEN="muster_wrong").err
    local = {"MUSTER_DATA_DIR": str(site.directory)}
    assert logged_in.muster("contexts", "use", "local").code == 0
    assert "log in to one with `muster login URL`" in logged_in.muster("nodes").err
    assert logged_in.muster("tokens", **local).code == 0, "the server of this machine is found by itself"
    assert logged_in.muster("nodes", MUSTER_CONTEXT="prod").code == 0
    assert logged_in.muster("--context", "prod", "nodes").code == 0
    both = logged_in.muster("tokens", MUSTER_CONTEXT="prod", **local)
    assert both.code == 2 and "needs the role admin" in both.err, "the named context, not the local admin"


def test_contexts_are_chosen_shown_and_removed(logged_in: Terminal, site: Site, token: str) -> None:
    assert _login(logged_in, site.url, token).code == 0
    names = [each["name"] for each in logged_in.muster("contexts", "-o", "json").json["items"]]
    assert names == [site.url.removeprefix("http://").replace(":", "-"), "prod"]
    assert logged_in.muster("contexts", "use", "prod", "-o", "json").json == {"current": "prod"}
    wrong = logged_in.muster("contexts", "use", "prd")
    assert wrong.code == 2 and "cannot find the context prd; did you mean prod?" in wrong.err
    assert logged_in.muster("contexts", "remove", "prod").code == 0
    assert logged_in.muster("contexts", "show", "-o", "json").json["name"] == "local"
    assert token in _file(logged_in).read_text(), "the other one is still there"


def test_a_name_stays_with_its_server(logged_in: Terminal, token: str) -> None:
    other = _login(logged_in, "http://127.0.0.1:1", token, "--name", "prod")
    assert other.code == 2 and "choose another with --name, or remove it" in other.err
    for name in ("local", "a b", "-x", "../up"):
        refused = _login(logged_in, "http://127.0.0.1:1", token, f"--name={name}")
        assert refused.code == 2 and "cannot name a context" in refused.err
    assert "write its address with https://" in _login(logged_in, "muster.example.com", token).err


def test_logout_forgets_the_token_and_keeps_the_address(logged_in: Terminal, token: str) -> None:
    said = logged_in.muster("logout", "-o", "json")
    assert (said.code, said.json["ended"]) == (0, False), "an admin made this token: others may use it"
    assert token not in _file(logged_in).read_text()
    out = logged_in.muster("nodes")
    assert out.code == 2 and "you are logged out of the context prod; run `muster login" in out.err
    assert _login(logged_in, "", token).code == 2


def test_a_login_that_ended_says_how_to_log_in_again(
    laptop: Terminal, site: Site, terminal: Terminal
) -> None:
    made = terminal.muster("tokens", "create", "brief", "-o", "json").json
    assert _login(laptop, site.url, made["secret"], "--name", "prod").code == 0
    terminal.muster("tokens", "revoke", made["id"])
    refused = laptop.muster("nodes")
    assert refused.code == 2
    assert "was revoked" in refused.err and f"run `muster login {site.url} --name prod`" in refused.err
    assert laptop.muster("nodes", "-o", "json").error["code"] == "unauthenticated"
    assert laptop.muster("logout").code == 0, "also of a login that has ended"


def test_a_server_without_a_provider_says_to_use_a_token(laptop: Terminal, site: Site) -> None:
    said = laptop.muster("login", site.url)
    assert said.code == 2 and "this server has no identity provider" in said.err
    assert "use a token: `muster login URL --token`" in said.err
    assert not _file(laptop).exists()


def test_what_a_server_that_is_away_means_is_explained_elsewhere(laptop: Terminal) -> None:
    said = laptop.muster("login", "http://127.0.0.1:1")
    assert said.code == 1 and said.err.endswith("(see docs/codes.md#unreachable)\n")
    record = laptop.muster("login", "http://127.0.0.1:1", "-o", "json").error
    assert record["help"] == "docs/codes.md#unreachable"


def test_a_wrong_token_is_not_kept(laptop: Terminal, site: Site) -> None:
    said = _login(laptop, site.url, "muster_wrong")
    assert said.code == 2 and not _file(laptop).exists()
    assert "printable ASCII" in _login(laptop, site.url, "").err


def test_a_server_that_is_not_there_is_said_in_one_sentence(laptop: Terminal, token: str) -> None:
    url = f"http://127.0.0.1:{_closed_port()}"
    said = _login(laptop, url, token)
    assert said.code == 1 and f"cannot reach the server at {url}" in said.err and "Traceback" not in said.err


def test_a_file_that_others_can_read_is_refused(logged_in: Terminal) -> None:
    _file(logged_in).chmod(0o644)
    refused = logged_in.muster("nodes")
    assert refused.code == 2 and "other users can read its tokens; run `chmod 600 " in refused.err
    _file(logged_in).chmod(0o600)
    _file(logged_in).write_text("{")
    broken = logged_in.muster("nodes")
    assert broken.code == 2 and "correct it, or remove it and log in again" in broken.err


def test_logins_at_the_same_time_lose_none(laptop: Terminal, site: Site, token: str) -> None:
    words = [
        subprocess.Popen(
            [*MUSTER, "login", site.url, "--token", "--name", f"c{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=laptop.environment,
            text=True,
        )
        for number in range(3)
    ]
    for each in words:
        each.communicate(token + "\n", timeout=60)
        assert each.returncode == 0
    names = [each["name"] for each in json.loads(_file(laptop).read_text())["contexts"]]
    assert names == ["c0", "c1", "c2"]


# --- certificates ---------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_server_with_a_certificate_of_your_own_authority_is_used(
    laptop: Terminal, site: Site, token: str, authority: Authority
) -> None:
    with in_front(site.url, authority.context("localhost")) as port:
        url = f"https://localhost:{port}"
        refused = _login(laptop, url, token)
        assert refused.code == 1 and f"cannot trust the server at {url}" in refused.err
        assert "name your authority's certificate with MUSTER_CA_FILE or --ca-file" in refused.err
        assert _login(laptop, url, token, "--ca-file", str(authority.file), "--name", "tls").code == 0
        assert laptop.muster("nodes").code == 0, "the context remembers it"
        plain = {"MUSTER_SERVER": url, "MUSTER_TOKEN": token}
        assert laptop.muster("nodes", **plain).code == 1
        assert laptop.muster("nodes", **plain, MUSTER_CA_FILE=str(authority.file)).code == 0
        assert laptop.muster("nodes", **plain, MUSTER_CA_FILE="/no/such/file").code == 2


def test_a_certificate_of_another_name_or_of_the_past_is_named(
    laptop: Terminal, site: Site, token: str, authority: Authority
) -> None:
    trust = ("--ca-file", str(authority.file))
    with in_front(site.url, authority.context("other.example.com")) as port:
        said = _login(laptop, f"https://localhost:{port}", token, *trust)
        assert said.code == 1 and "Hostname mismatch" in said.err
    past = authority.context("localhost", ends=-datetime.timedelta(hours=1))
    with in_front(site.url, past) as port:
        said = _login(laptop, f"https://localhost:{port}", token, *trust)
        assert said.code == 1 and "certificate has expired" in said.err
    said = _login(laptop, site.url.replace("http://", "https://"), token)
    assert said.code == 1 and "does not speak TLS as expected" in said.err


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
