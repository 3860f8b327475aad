"""`muster cp` as people use it, both ways, and what it must not do."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from muster.cli import copies
from muster.cli.exits import UsageProblem
from muster.domain.command import TREE_BYTES_MAX
from tests.cli.terminal import Said, Terminal


@pytest.fixture(scope="module")
def node(terminal: Terminal) -> str:
    made = terminal.muster("provision", "--template", "small", "--run", "copies", "--output", "json")
    assert made.code == 0, made.err
    return str(made.json["nodes"][0]["id"] if "nodes" in made.json else made.json["members"][0]["node_id"])


@pytest.fixture
def here(terminal: Terminal, tmp_path: Path) -> Path:
    terminal.directory = tmp_path
    return tmp_path


def on_node(terminal: Terminal, script: str) -> str:
    said = terminal.muster("exec", "copies", "--raw", "--", "sh", "-c", script)
    assert said.code == 0, said.out
    return "\n".join(line.removeprefix("[0] ") for line in said.out.splitlines())


def copied(terminal: Terminal, *words: str) -> Said:
    said = terminal.muster("cp", *words)
    assert said.code == 0, said.err
    return said


def test_a_file_goes_there_and_back_with_its_rights(terminal: Terminal, node: str, here: Path) -> None:
    data = os.urandom(3_000_000)
    (here / "tool").write_bytes(data)
    (here / "tool").chmod(0o755)
    said = copied(terminal, "tool", f"{node}:bin-tool")
    assert said.out.startswith("✔ tool → bin-tool (1 file, ")
    assert on_node(terminal, "test -x bin-tool && wc -c < bin-tool; ls -a | grep -c muster-cp || true") == (
        "3000000\n0"
    )
    said = copied(terminal, "copies:bin-tool", "back")
    assert said.out.startswith("✔ copies:bin-tool → back (1 file, ")
    assert (here / "back").read_bytes() == data
    assert (here / "back").stat().st_mode & 0o777 == 0o755
    (here / "back").write_text("older")
    copied(terminal, f"{node}:bin-tool", "back")
    assert (here / "back").read_bytes() == data, "a file is replaced"
    assert on_node(terminal, "ls -a | grep -c muster-cp || true") == "0", "nothing is left there"
    assert sorted(each.name for each in here.iterdir()) == ["back", "tool"], "nor here"


def test_a_directory_goes_there_and_back_with_links_and_empty_places(
    terminal: Terminal, node: str, here: Path
) -> None:
    tree = here / "tree"
    (tree / "inner" / "empty").mkdir(parents=True)
    (tree / "a file").write_text("a")
    (tree / "inner" / "link").symlink_to("../a file")
    (tree / "out").symlink_to("/etc/passwd")
    os.mkfifo(tree / "pipe")
    said = copied(terminal, "tree", f"{node}:")
    assert "without out: it leads elsewhere" in said.err and "without pipe" in said.err
    assert on_node(terminal, "cat 'tree/inner/link'; ls tree/inner") == "aempty\nlink"
    copied(terminal, "tree", f"{node}:tree")
    assert on_node(terminal, "ls tree/tree") == "a file\ninner", "into a directory that is there"
    copied(terminal, f"{node}:tree/inner", ".")
    assert (here / "inner" / "empty").is_dir()
    assert terminal.muster("cp", f"{node}:tree/inner", ".").code == 2
    said = copied(terminal, f"{node}:tree/inner", ".", "--force", "--output", "json")
    assert said.json["node_id"] == node and said.json["to"] == "inner"
    assert said.json["files"] == 1, "the link, and no directory"


def test_paths_outside_of_the_workspace_are_reached_with_the_rights_of_the_run(
    terminal: Terminal, node: str, here: Path
) -> None:
    on_node(terminal, "echo outside > /tmp/given")
    copied(terminal, f"{node}:/tmp/given", "name")
    assert (here / "name").read_text() == "outside\n"
    copied(terminal, "name", f"{node}:/tmp/")
    assert on_node(terminal, "cat /tmp/name") == "outside"
    if on_node(terminal, "test -w /usr/bin || echo closed") == "closed":  # root outside of a sandbox may
        said = terminal.muster("cp", "name", f"{node}:/usr/bin/name")
        assert said.code == 2 and node in said.err


def test_what_cannot_be_copied_is_named_with_the_reason(terminal: Terminal, node: str, here: Path) -> None:
    (here / "file").write_text("")
    for words, told in (
        (("missing", f"{node}:x"), "cannot copy missing: there is no such file"),
        ((f"{node}:missing", "x"), f"cannot copy missing on {node}: there is no such path"),
        (("file", "other"), "exactly one of them"),
        ((f"{node}:a", f"{node}:b"), "exactly one of them"),
        ((f"{node}:.", "x"), "name a file or a directory"),
        ((f"{node}:.", "."), "name a file or a directory"),
        ((f"{node}:a", "-"), "- is no path, and nothing is piped; write ./-"),
        (("-", f"{node}:a"), "- is no path"),
        (("file", "no-such-run:x"), "no-such-run"),
        (("file", "node-0000000000000000aa:x"), "cannot find node"),
        ((f"{node}:/proc/kcore", "x"), "cannot copy /proc/kcore"),
    ):
        said = terminal.muster("cp", *words)
        assert (said.code, told in said.err) == (2, True), said
    (here / "a:b").write_text("colon")
    copied(terminal, "./a:b", f"{node}:colon")
    assert on_node(terminal, "cat colon") == "colon"


def test_a_name_that_begins_with_a_hyphen_is_a_name(terminal: Terminal, node: str, here: Path) -> None:
    (here / "-n").write_text("a name")
    copied(terminal, "./-n", f"{node}:-rf")
    copied(terminal, f"{node}:-rf", "back")
    assert (here / "back").read_text() == "a name"


def test_what_a_node_cannot_bring_is_named_with_the_reason(terminal: Terminal, node: str, here: Path) -> None:
    on_node(terminal, f"truncate -s {TREE_BYTES_MAX + 1} gap")
    said = terminal.muster("cp", f"{node}:gap", "here")
    told = f"cannot copy gap on {node}: [muster-agent: cannot bring back the results: cannot pack: more than"
    assert (said.code, told in said.err) == (2, True), said


def test_a_copy_that_breaks_off_on_the_node_leaves_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(bytes(9000))
    gather = ["sh", "-c", 'ulimit -f 1; exec /bin/sh -euc "$0" sh stage long 99', copies._TAKE]
    assert subprocess.run(gather, cwd=tmp_path, check=False).returncode != 0
    assert [each.name for each in tmp_path.iterdir()] == ["long"]


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "stage/name/../../../escaped"])
def test_an_archive_of_a_hostile_node_writes_nothing_outside_of_its_place(tmp_path: Path, name: str) -> None:
    class Hostile:
        def download(self, _command_id: str, path: Path, **_more: object) -> int:
            with tarfile.open(path, "w:gz") as archive:
                member = tarfile.TarInfo(name)
                member.size = 4
                archive.addfile(member, io.BytesIO(b"evil"))
            return 1

    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(UsageProblem, match="leads elsewhere"):
        copies._unpacked(Hostile(), _Done(), inside / "name", "stage/name")  # type: ignore[arg-type]
    assert [str(each) for each in tmp_path.rglob("*")] == [str(inside)]


class _Done:
    id = "cmd-1"
    node_id = "node-1"
