import json
import socket
from pathlib import Path

import pytest

from muster.integrations.process.demo_site import Site
from tests.cli.terminal import Said, Terminal

PROVISION = ("provision", "-t", "small")
TRACE = "Traceback"


def refused(said: Said, words: str) -> None:
    assert said.code == 2, said
    assert words in said.err
    assert len(said.err.splitlines()) == 1 and said.err.startswith("error: ")
    assert TRACE not in said.err + said.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*PROVISION, "--count", "0"), "must be a whole number from 1 to 1000"),
        ((*PROVISION, "--count", "-1"), "must be a whole number from 1 to 1000"),
        ((*PROVISION, "--count", "1000000000"), "must be a whole number from 1 to 1000"),
        ((*PROVISION, "--count", "9" * 6000), "is too large a number"),
        ((*PROVISION, "--count", str(10**30)), "is too large a number"),
        ((*PROVISION, "--count", "abc"), "'abc' is not a whole number"),
        (("provision", "-t", "nope"), "cannot find template 'nope'; see `muster templates`"),
        (("provision", "-t", "smal"), "cannot find template 'smal'; did you mean small?"),
        (("templates", "show", "endles"), "did you mean endless?"),
        (("pause", "brokn"), "did you mean broken?"),
        (("provision", "-t", "No Name"), "cannot accept template"),
        ((*PROVISION, "--class", "huge"), "must be one of small, large"),
        ((*PROVISION, "--types", "c??"), "must be a list of patterns like"),
        ((*PROVISION, "--usage-class", "maybe"), "must be one of on-demand, spot"),
        ((*PROVISION, "--run", "x" * 10_000), "must be 1 to 256 printable characters"),
        ((*PROVISION, "--run", "a\nb"), "must be 1 to 256 printable characters"),
        ((*PROVISION, "--run", ""), "must be 1 to 256 printable characters"),
        ((*PROVISION, "--timeout", "soon"), "is not a duration"),
        ((*PROVISION, "--timeout", "0"), "must be a number of seconds above 0"),
        ((*PROVISION, "--max-runtime", "400d"), "must be a number of seconds above 0"),
        (("run", "-t", "small", "--get", "../secret", "--", "true"), "must be a path inside the workspace"),
        (("run", "-t", "small", "--sync", "missing", "--", "true"), "it is not a directory"),
        (("run", "-t", "small"), "missing argument"),
        (("exec", "nope", "--", "true"), "cannot find a provision with running nodes of run 'nope'"),
        (("exec", "x" * 10_000, "--", "true"), "cannot find"),
        (("logs", "nope"), "cannot find commands of 'nope'"),
        (("release", "nope"), "cannot find a provision of run 'nope'"),
        (("extend", "nope", "--by", "30m"), "cannot find running nodes of run 'nope'"),
        (("nodes", "show", "nope"), "cannot find node 'nope'; see `muster nodes`"),
        (("nodes", "--state", "sleepy"), "must be one of created, idle"),
        (("nodes", "terminate", "../../etc"), "cannot find"),
        (("drain", "nope"), "cannot find node 'nope'"),
        (("operations", "watch", "nope"), "cannot find an operation or run 'nope'"),
        (("operations", "--status", "tired"), "must be one of queued, running"),
        (("tokens", "create", "ci", "--role", "king"), "must be one of viewer, operator, admin"),
        (("tokens", "revoke", "nope"), "cannot find"),
        (("pause", "nope"), "cannot find template 'nope'"),
        (("apply", "-f", "missing.toml"), "cannot find missing.toml: name the file to apply with -f"),
        (("demo", "--stop", "."), "not the directory of a demo"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    terminal: Terminal, words: tuple[str, ...], said: str
) -> None:
    refused(terminal.muster(*words), said)


def test_nothing_came_of_all_that(terminal: Terminal) -> None:
    assert terminal.muster("nodes", "-o", "json").json["items"] == []


def test_a_typing_error_in_a_file_is_named_with_its_line_and_the_nearest_name(terminal: Terminal) -> None:
    (terminal.directory / "typo.toml").write_text('[templates.ci]\nresource_class = "small"\nmax_node = 3\n')
    refused(terminal.muster("apply", "-f", "typo.toml"), "line 3 (templates.ci.max_node)")
    assert "did you mean max_nodes?" in terminal.muster("apply", "-f", "typo.toml").err


def test_an_unknown_webhook_points_to_the_list_of_webhooks(alone: Terminal) -> None:
    said = alone.muster("webhooks", "test", "zz")
    assert said.code == 2 and "see `muster webhooks`" in said.err


def test_a_webhook_whose_address_cannot_be_read_hides_no_other(alone: Terminal) -> None:
    (alone.directory / "hooks.toml").write_text(
        '[webhooks.lost]\nurl_file = "/no/such/file"\n[webhooks.kept]\nurl = "http://kept.example/"\n'
    )
    said = alone.muster("webhooks", "-f", "hooks.toml")
    assert (said.code, "kept.example" in said.out) == (0, True), said
    assert "lost: its address can't be read: `muster doctor` says why" in said.out
    items = alone.muster("webhooks", "-f", "hooks.toml", "-o", "json").json["items"]
    assert [each["host"] for each in items] == [None, "kept.example"]


def test_errors_are_json_too(terminal: Terminal) -> None:
    said = terminal.muster("provision", "-t", "nope", "--output", "json")
    assert (said.code, said.out) == (2, "")
    assert (said.error["code"], said.error["exit_code"]) == ("not_found", 2)


def test_a_wrong_token_is_named_by_where_it_was_found(terminal: Terminal, site: Site) -> None:
    refused(
        terminal.muster("nodes", MUSTER_TOKEN="muster_wrong"), "it doesn't know the token in MUSTER_TOKEN"
    )
    refused(terminal.muster("nodes", MUSTER_TOKEN="ключ"), "only printable ASCII characters")
    split = terminal.muster("nodes", MUSTER_TOKEN="muster_se\ncret")
    refused(split, "only printable ASCII characters")
    assert "cret" not in split.err.replace("secret", "")
    withheld = "the local token is not sent to a server that MUSTER_SERVER names; set MUSTER_TOKEN, or unset"
    refused(terminal.muster("nodes", MUSTER_SERVER=site.url), withheld)
    none = {"MUSTER_SERVER": site.url, "MUSTER_DATA_DIR": str(terminal.directory / "none")}
    refused(terminal.muster("nodes", **none), "without a token: set MUSTER_TOKEN (there is none in")


def test_an_empty_idempotency_key_is_refused_instead_of_ignored(terminal: Terminal) -> None:
    refused(terminal.muster("provision", "--run", "r", "--idempotency-key", ""), "must not be empty")


def test_a_server_that_is_not_there_is_one_sentence_too(alone: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    said = alone.muster("nodes", MUSTER_SERVER=nobody)
    assert said.code == 1
    assert said.err.startswith(f"error: cannot reach the server at {nobody}: start it with `muster serve`")
    assert len(said.err.splitlines()) == 1
    for nonsense in (
        "nonsense",
        "http://[",
        "http://",
        "ftp://a",
        "http://a b",
        "http://a:99999999",
        "http://a:x",
    ):
        refused(alone.muster("nodes", MUSTER_SERVER=nonsense), "write it like http://127.0.0.1:8420")
    sick = alone.muster("doctor", "-o", "json", MUSTER_SERVER=nobody)
    assert sick.code == 1 and not sick.json["ok"]
    assert "muster serve" in json.dumps(sick.json)


def test_a_port_in_use_and_a_directory_in_use_are_refused(
    terminal: Terminal, site: Site, tmp_path: Path
) -> None:
    port = site.url.rpartition(":")[2]
    said = terminal.typed("serve", "--port", port, "--data-dir", str(tmp_path / "other"))
    assert said.code == 2 and "the port is in use" in said.err and TRACE not in said.err
    (tmp_path / "typo.toml").write_text("[server]\nprot = 1\n")
    said = terminal.typed("serve", "-f", str(tmp_path / "typo.toml"), "--data-dir", str(tmp_path / "other"))
    assert said.code == 2 and "did you mean port?" in said.err
    assert not (tmp_path / "other").exists()
    said = terminal.typed("serve", "--port", "0", "--data-dir", str(site.directory))
    assert said.code == 2 and "another server holds it" in said.err and TRACE not in said.err
    refused(terminal.muster("serve", "--port", "99999"), "from 0 to 65535")
    refused(
        terminal.typed("serve", "--port", "0", "--data-dir", "/dev/null/here"),
        "cannot use the data directory",
    )
