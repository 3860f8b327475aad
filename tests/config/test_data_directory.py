import stat
from pathlib import Path

import pytest

from muster.config import DataDirectory, default_data_directory, find_server
from muster.config.data_directory import DirectoryInUse, DirectoryUnusable


def test_the_data_directory_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert default_data_directory({}, platform="linux") == Path("/home/me/.local/share/muster")
    given = {"XDG_DATA_HOME": "/data"}
    assert default_data_directory(given, platform="linux") == Path("/data/muster")
    assert default_data_directory({"XDG_DATA_HOME": "relative"}, platform="linux") == Path(
        "/home/me/.local/share/muster"
    )
    mac = Path("/home/me/Library/Application Support/muster")
    assert default_data_directory(given, platform="darwin") == mac


def test_only_one_server_holds_a_data_directory(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path / "data"), DataDirectory(tmp_path / "data")
    with first.held():
        first.announce("http://127.0.0.1:8420")
        with (
            pytest.raises(DirectoryInUse, match=r"holds it \(http://127.0.0.1:8420\)"),
            second.held(),
        ):
            pass
    with second.held():
        pass


def test_a_directory_that_cannot_be_made_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DirectoryUnusable, match="cannot use the data directory"),
        DataDirectory(tmp_path / "file" / "data").held(),
    ):
        pass


def test_what_others_may_not_read_they_cannot(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data")
    with data.held():
        token = data.keep_admin_token("muster_secret")
        server = data.announce("http://127.0.0.1:1")
        data.announce("http://127.0.0.1:2")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in (token, server)] == [0o600, 0o600]
    assert (data.admin_token(), data.url()) == ("muster_secret", "http://127.0.0.1:2")
    assert sorted(path.name for path in data.path.iterdir()) == ["admin.token", "muster.lock", "server.json"]


def test_the_local_server_is_found_with_its_token(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.keep_admin_token("local")
    data.announce("http://127.0.0.1:7777")
    found = find_server({"MUSTER_DATA_DIR": str(tmp_path)})
    assert (found.url, found.token) == ("http://127.0.0.1:7777", "local")


def test_the_local_token_is_never_sent_to_a_server_that_was_named(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.keep_admin_token("local")
    elsewhere = find_server({"MUSTER_SERVER": "https://elsewhere.test/"}, tmp_path)
    assert (elsewhere.url, elsewhere.token) == ("https://elsewhere.test", None)
    given = find_server({"MUSTER_SERVER": "https://elsewhere.test", "MUSTER_TOKEN": "mine"}, tmp_path)
    assert given.token == "mine"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
def test_a_broken_announcement_is_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "server.json").write_text(content)
    assert find_server({}, tmp_path).url == "http://127.0.0.1:8420"
