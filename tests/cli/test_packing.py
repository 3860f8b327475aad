import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from muster.cli import packing
from muster.cli.exits import UsageProblem


def packed(directory: Path) -> tuple[packing.Packed, list[str]]:
    into = io.BytesIO()
    result = packing.pack(directory, into)
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


def test_links_that_lead_out_are_left_out_and_named(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "in").symlink_to("a.txt")
    result, names = packed(tmp_path)
    assert "in" in names and "out" not in names
    assert result.left_out == ("out",)


def test_a_tree_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path)
    monkeypatch.setattr(packing, "FILES_MOST", 2)
    with pytest.raises(UsageProblem, match="send a smaller directory"):
        packed(tmp_path)


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="not a directory"):
        packed(tmp_path / "missing")


def test_results_never_leave_their_directory(tmp_path: Path) -> None:
    archive = tmp_path / "evil.tgz"
    with tarfile.open(archive, "w:gz") as evil:
        evil.addfile(tarfile.TarInfo("../escaped"), io.BytesIO())
        link = tarfile.TarInfo("python")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
        evil.addfile(link)
        evil.addfile(tarfile.TarInfo("report.xml"), io.BytesIO())
    place = tmp_path / "results" / "0"
    assert packing.unpack(archive, place).left_out == ("../escaped", "python")
    assert [each.name for each in place.iterdir()] == ["report.xml"]
    assert not (tmp_path / "results" / "escaped").exists()


def test_results_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "broken.tgz"
    archive.write_bytes(b"no archive")
    with pytest.raises(UsageProblem, match="cannot unpack"):
        packing.unpack(archive, tmp_path / "results")


def test_what_was_asked_for_and_not_sent_is_known_however_it_was_written() -> None:
    sent = packing.Unpacked(names=("./out", "./out/a", "log.txt"), left_out=("link",))
    assert sent.missing(["out", "./out/a", "out/", "log.txt", "link", "."]) == []
    assert sent.missing(["ou", "out/b", "log"]) == ["ou", "out/b", "log"]
    assert packing.Unpacked(names=(), left_out=()).missing(["."]) == ["."]
