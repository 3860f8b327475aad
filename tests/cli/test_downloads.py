import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from muster.cli import downloads
from muster.cli.downloads import Unpacked, unpack
from muster.cli.exits import UsageProblem


@pytest.fixture(autouse=True)
def _oldest_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """3.11.2, as Debian has it, knows no filters for extraction."""
    for name in ("FilterError", "data_filter"):
        monkeypatch.delattr(tarfile, name, raising=False)


def archived(path: Path, *members: tuple[str, bytes, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            member.size = 0 if link or kind != tarfile.REGTYPE else 2
            member.mode, member.uid, member.mtime = 0o6777, 12345, 1_000_000_000
            archive.addfile(member, io.BytesIO(b"ok"))
    return path


def test_results_are_ours_with_their_times_and_without_special_modes(tmp_path: Path) -> None:
    archive = archived(
        tmp_path / "results.tgz",
        ("out", tarfile.DIRTYPE, ""),
        ("out/a", tarfile.REGTYPE, ""),
        ("out/b", tarfile.LNKTYPE, "out/a"),
        ("out/c", tarfile.SYMTYPE, "../out/a"),
    )
    place = tmp_path / "results" / "0"
    assert unpack(archive, place) == Unpacked(names=("out", "out/a", "out/b", "out/c"), left_out=())
    assert [(place / "out" / name).read_text() for name in "abc"] == ["ok"] * 3
    found = (place / "out" / "a").stat()
    assert (found.st_mode & 0o7777, found.st_uid, found.st_mtime) == (0o755, place.stat().st_uid, 1e9)


def test_results_never_leave_their_directory(tmp_path: Path) -> None:
    archive = tmp_path / "evil.tgz"
    with tarfile.open(archive, "w:gz") as evil:
        evil.addfile(tarfile.TarInfo("../escaped"), io.BytesIO())
        link = tarfile.TarInfo("python")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
        evil.addfile(link)
        evil.addfile(tarfile.TarInfo("report.xml"), io.BytesIO())
    place = tmp_path / "results" / "0"
    assert unpack(archive, place).left_out == ("../escaped", "python")
    assert [each.name for each in place.iterdir()] == ["report.xml"]
    assert not (tmp_path / "results" / "escaped").exists()


def test_results_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "broken.tgz"
    archive.write_bytes(b"no archive")
    with pytest.raises(UsageProblem, match="cannot unpack"):
        unpack(archive, tmp_path / "results")


def test_what_was_asked_for_and_not_sent_is_known_however_it_was_written() -> None:
    sent = Unpacked(names=("./out", "./out/a", "log.txt"), left_out=("link",))
    assert sent.missing(["out", "./out/a", "out/", "log.txt", "link", "."]) == []
    assert sent.missing(["ou", "out/b", "log"]) == ["ou", "out/b", "log"]
    assert Unpacked(names=(), left_out=()).missing(["."]) == ["."]


@pytest.mark.parametrize(
    "members",
    [
        (("/escaped", tarfile.REGTYPE, ""),),
        (("up", tarfile.SYMTYPE, ".."), ("up/escaped", tarfile.REGTYPE, "")),
        (
            ("a", tarfile.SYMTYPE, "d/l/../../.."),
            ("d/l", tarfile.SYMTYPE, "."),
            ("a/e", tarfile.SYMTYPE, "f"),
        ),
        (("a", tarfile.SYMTYPE, "d/l/../../escaped"), ("d/l", tarfile.SYMTYPE, "..")),
        (("hard", tarfile.LNKTYPE, "../../outside"),),
        (("through", tarfile.SYMTYPE, "../../outside"), ("hard", tarfile.LNKTYPE, "through")),
        (("pipe", tarfile.FIFOTYPE, ""), ("device", tarfile.CHRTYPE, "")),
    ],
)
def test_nothing_leads_out_of_the_results_whatever_a_node_sends(
    tmp_path: Path, members: tuple[tuple[str, bytes, str], ...]
) -> None:
    (tmp_path / "outside").write_text("secret")
    place = tmp_path / "results" / "0"
    assert unpack(archived(tmp_path / "evil.tgz", *members), place).left_out
    assert {each.name for each in tmp_path.iterdir()} <= {"outside", "evil.tgz", "results"}
    for each in place.rglob("*"):
        assert each.resolve().is_relative_to(place)
        assert not each.is_file() or each.read_text() == "ok"


def test_results_that_would_fill_the_disk_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archived(tmp_path / "large.tgz", *((str(n), tarfile.REGTYPE, "") for n in range(3)))
    monkeypatch.setattr(downloads, "TREE_BYTES_MAX", 2 * (2 + 512))
    with pytest.raises(UsageProblem, match="they are more than"):
        unpack(archive, tmp_path / "results")


def test_a_header_that_would_fill_the_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 64 << 20
    archive = tmp_path / "bomb.tgz"
    with gzip.open(archive, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(UsageProblem, match="a header in it is longer than 4 MiB"):
            unpack(archive, tmp_path / "results")
        assert tracemalloc.get_traced_memory()[1] < 4 * downloads.READ_MOST
    finally:
        tracemalloc.stop()


def test_names_and_times_that_no_file_can_have_are_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "odd.tgz"
    deep = "/".join(["d"] * 1500)
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as odd:
        for name in ("a\0b", f"{deep}/x"):
            member = tarfile.TarInfo("n")
            member.pax_headers = {"path": name}
            odd.addfile(member, io.BytesIO())
        for time in ("nan", "inf", "-1e300"):
            member = tarfile.TarInfo(f"t{time}")
            member.pax_headers = {"mtime": time}
            odd.addfile(member, io.BytesIO())
        link = tarfile.TarInfo("link")
        link.type = tarfile.SYMTYPE
        link.pax_headers = {"linkpath": "a\0b"}
        odd.addfile(link)
    found = unpack(archive, tmp_path / "results")
    assert found.names == ("tnan", "tinf", "t-1e300")
    assert found.left_out == ("a\0b", f"{deep}/x", "link")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MEMBERS_MOST", 2)
    two = [("a", tarfile.REGTYPE, ""), ("b", tarfile.REGTYPE, "")]
    assert len(unpack(archived(tmp_path / "two.tgz", *two), tmp_path / "two").names) == 2
    three = archived(tmp_path / "three.tgz", *two, ("c", tarfile.REGTYPE, ""))
    with pytest.raises(UsageProblem, match="more than 2 files"):
        unpack(three, tmp_path / "three")


def test_headers_in_headers_are_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 0
    archive = tmp_path / "nested.tgz"
    with gzip.open(archive, "wb") as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT) * 5000)
    with pytest.raises(UsageProblem, match="cannot unpack the results"):
        unpack(archive, tmp_path / "results")
