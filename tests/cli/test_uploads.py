import io
import subprocess
import tarfile
import time
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import pytest

from muster.agent import agent
from muster.api.context import ApiSettings
from muster.cli import uploads
from muster.cli.exits import UsageProblem
from muster.domain import command


def packed(directory: Path, *, all_files: bool = False) -> tuple[uploads.Packed, list[str]]:
    into = io.BytesIO()
    result = uploads.pack(directory, into, all_files=all_files)
    into.seek(0)
    with tarfile.open(fileobj=into, mode="r:gz") as archive:
        return result, sorted(archive.getnames())


def tree(directory: Path) -> None:
    (directory / "inner").mkdir()
    (directory / "a.txt").write_text("a")
    (directory / "inner" / "b.txt").write_text("b")
    (directory / "c.log").write_text("c")


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(directory), *words], check=True, capture_output=True)


def test_of_a_repository_the_tracked_files_are_sent_as_they_are_now(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "deleted").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.txt", "inner", "deleted")
    (tmp_path / "deleted").unlink()
    result, names = packed(tmp_path)
    assert names == ["a.txt", "inner/b.txt"]
    assert result.files == 2


def test_without_git_all_files_are_sent_but_never_a_git_directory(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "inner" / ".git").mkdir()
    (tmp_path / "inner" / ".git" / "config").write_text("")
    assert packed(tmp_path)[1] == ["a.txt", "c.log", "inner/b.txt"]


def test_where_git_refuses_nothing_is_sent_and_its_words_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.txt")
    # So git takes the repository for another user's, whichever user runs the test.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    for directory in (tmp_path, tmp_path / "inner"):
        with pytest.raises(UsageProblem, match=r"(?s)--all-files.*dubious ownership"):
            packed(directory)
    assert packed(tmp_path, all_files=True)[1] == ["a.txt", "c.log", "inner/b.txt"]


def test_a_repository_is_not_sent_by_a_machine_without_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert packed(tmp_path)[0].files == 3
    (tmp_path / ".git").mkdir()
    with pytest.raises(UsageProblem, match="git is not installed"):
        packed(tmp_path)


def test_what_git_does_not_track_is_sent_only_if_that_is_asked_for(tmp_path: Path) -> None:
    tree(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.txt")
    with pytest.raises(UsageProblem, match=r"none of its files is tracked by git; .* --all-files"):
        packed(tmp_path / "inner")
    assert packed(tmp_path / "inner", all_files=True)[1] == ["b.txt"]


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no files in it"):
        packed(tmp_path)


def test_submodules_are_named_and_sent_with_all_files(tmp_path: Path) -> None:
    tree(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "init", "-q", "inner")
    git(tmp_path / "inner", "add", "b.txt")
    git(tmp_path / "inner", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a")
    git(tmp_path, "-c", "advice.addEmbeddedRepo=false", "add", "a.txt", "inner")
    result, names = packed(tmp_path)
    assert (result.submodules, names) == (("inner",), ["a.txt"])
    assert packed(tmp_path, all_files=True)[1] == ["a.txt", "c.log", "inner/b.txt"]


def test_the_same_tree_is_the_same_archive_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path)
    archives = []
    for now in (1e9, 2e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        with NamedTemporaryFile() as file:
            uploads.pack(tmp_path, file)
            file.seek(0)
            archives.append(file.read())
    assert archives[0] == archives[1] != b""


def test_two_names_of_one_file_are_two_files_for_a_node(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("twice")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    into = io.BytesIO()
    uploads.pack(tmp_path, into)
    into.seek(0)
    with tarfile.open(fileobj=into) as archive:
        assert [(each.isreg(), each.size) for each in archive] == [(True, 5), (True, 5)]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path)

    def refuse(*_: object) -> IO[bytes]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageProblem, match=r"cannot send .*/a.txt: Permission denied"):
        packed(tmp_path)


def test_links_that_lead_out_are_left_out_and_named(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "in").symlink_to("a.txt")
    (tmp_path / "loop").symlink_to("loop")
    result, names = packed(tmp_path)
    assert "in" in names and "loop" in names and "out" not in names
    assert result.left_out == ("out",)


def test_a_tree_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path)
    monkeypatch.setattr(uploads, "FILES_MOST", 2)
    with pytest.raises(UsageProblem, match="send a smaller directory"):
        packed(tmp_path)


def test_an_archive_that_no_server_takes_is_refused_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path)
    monkeypatch.setattr(uploads, "ARCHIVE_BYTES_MAX", 100)
    with pytest.raises(UsageProblem, match="compressed"):
        packed(tmp_path)


def test_the_limits_here_are_those_of_server_and_agent(tmp_path: Path) -> None:
    assert ApiSettings(data=tmp_path).blob_most == command.ARCHIVE_BYTES_MAX
    assert agent.BULK_MAX == command.TREE_BYTES_MAX


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="not a directory"):
        packed(tmp_path / "missing")
