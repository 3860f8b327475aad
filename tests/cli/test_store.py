import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from muster.config import DataDirectory
from tests.cli.terminal import Terminal
from tests.stores import postgres


def test_sqlites_file_is_made_checked_and_copied(alone: Terminal, tmp_path: Path) -> None:
    here = ("--data-dir", str(tmp_path / "data"))
    missing = alone.muster("store", "check", *here)
    assert missing.code == 2
    assert "`muster store create` makes one" in missing.err
    assert alone.muster("store", "create", *here).code == 0
    made = alone.muster("store", "check", *here, "--output", "json")
    report = json.loads(made.out)["report"]
    assert report["version"] == report["latest"]
    copy = tmp_path / "copy.db"
    assert alone.muster("store", "backup", *here, str(copy)).code == 0
    assert copy.stat().st_mode & 0o777 == 0o600
    again = alone.muster("store", "backup", *here, str(copy))
    assert (again.code, "the file exists" in again.err) == (2, True)
    copy.write_bytes(b"nothing of ours" * 1000)
    (tmp_path / "data" / "muster.db").write_bytes(copy.read_bytes())
    assert "no SQLite database" in alone.muster("store", "check", *here).err


def test_a_backup_is_put_back_and_the_present_file_is_kept(alone: Terminal, tmp_path: Path) -> None:
    here, file, copy = (
        ("--data-dir", str(tmp_path / "data")),
        tmp_path / "data" / "muster.db",
        tmp_path / "copy.db",
    )
    assert alone.muster("store", "create", *here).code == 0
    assert alone.muster("store", "backup", *here, str(copy)).code == 0
    with sqlite3.connect(file) as later:
        later.execute("CREATE TABLE later (x)")
    assert alone.muster("store", "restore", *here, str(copy)).code == 2, "it asks first"
    done = alone.muster("store", "restore", *here, str(copy), "--yes", "--output", "json")
    assert done.code == 0, done.err
    kept = Path(json.loads(done.out)["kept"])
    assert (_tables(kept) - _tables(file), kept.stat().st_mode & 0o777) == ({"later"}, 0o600)
    assert alone.muster("store", "check", *here).code == 0


def test_a_copy_that_fails_says_what_could_not_be_copied_where(alone: Terminal, tmp_path: Path) -> None:
    here = ("--data-dir", str(tmp_path / "data"))
    none = alone.muster("store", "backup", *here, str(tmp_path / "copy.db"))
    assert none.code == 2 and f"cannot copy {tmp_path}/data/muster.db: there is no such file" in none.err
    assert alone.muster("store", "create", *here).code == 0
    away = tmp_path / "away" / "copy.db"
    said = alone.muster("store", "backup", *here, str(away))
    assert said.code == 1 and f"cannot copy {tmp_path}/data/muster.db to {away}: the file can't" in said.err


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="a small disk needs root on Linux")
def test_a_full_disk_fails_backup_and_restore_and_leaves_nothing(alone: Terminal, tmp_path: Path) -> None:
    here, small = ("--data-dir", str(tmp_path / "data")), tmp_path / "small"
    there, copy = ("--data-dir", str(small / "data")), tmp_path / "copy.db"
    for data in (here, there):
        (small / "data").mkdir(parents=True, exist_ok=True)
        assert alone.muster("store", "create", *data).code == 0
    assert alone.muster("store", "backup", *there, str(copy)).code == 0
    present = (small / "data" / "muster.db").read_bytes()
    room = len(present) + copy.stat().st_size * 3 // 2  # for what is kept, and half of what is restored
    size = f"size={room // 1024}k"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", small / "data"], check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        (small / "data" / "muster.db").write_bytes(present)
        said = alone.muster("store", "restore", *there, str(copy), "--yes")
        assert said.code == 1 and "the disk is full" in said.err, said.err
        assert (small / "data" / "muster.db").read_bytes() == present
        left = {each.name for each in (small / "data").iterdir()}
        assert {each for each in left if not each.endswith(("-shm", "-wal"))} == {"muster.db", "muster.lock"}
        (small / "data" / "filler").write_bytes(b"x" * (copy.stat().st_size * 9 // 10))
        said = alone.muster("store", "backup", *here, str(small / "data" / "copy.db"))
        assert said.code == 1 and "the disk is full" in said.err, said.err
        assert {each.name for each in (small / "data").iterdir()} == left | {"filler"}
    finally:
        subprocess.run(["umount", small / "data"], check=True)


def _tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as open_file:
        return {row[0] for row in open_file.execute("SELECT name FROM sqlite_master")}


def test_what_is_no_backup_of_this_installation_is_refused(alone: Terminal, tmp_path: Path) -> None:
    here, copy = ("--data-dir", str(tmp_path / "data")), tmp_path / "copy.db"
    other = ("--data-dir", str(tmp_path / "other"))
    assert alone.muster("store", "create", *here).code == 0
    assert alone.muster("store", "create", *other).code == 0
    assert alone.muster("store", "backup", *other, str(copy)).code == 0
    (tmp_path / "data" / "installation").write_text("inst-of-this-directory\n")
    refused = alone.muster("store", "restore", *here, str(copy), "--yes")
    assert refused.code == 2 and "--other-installation" in refused.err
    assert alone.muster("store", "restore", *here, str(copy), "--yes", "--other-installation").code == 0
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"nothing of ours" * 1000)
    for path, words in ((garbage, "no SQLite database"), (tmp_path / "none.db", "no such file")):
        wrong = alone.muster("store", "restore", *here, str(path), "--yes")
        assert wrong.code != 0 and words in wrong.err
    with sqlite3.connect(copy) as newer:
        newer.execute("INSERT INTO schema_migrations (version, name) VALUES (9999, 'later')")
    assert "upgrade Muster first" in alone.muster("store", "restore", *here, str(copy), "--yes").err


def test_a_store_that_a_server_uses_is_not_replaced(alone: Terminal, tmp_path: Path) -> None:
    here, copy = ("--data-dir", str(tmp_path / "data")), tmp_path / "copy.db"
    assert alone.muster("store", "create", *here).code == 0
    assert alone.muster("store", "backup", *here, str(copy)).code == 0
    before = (tmp_path / "data" / "muster.db").stat().st_ino
    with DataDirectory(tmp_path / "data").held():
        refused = alone.muster("store", "restore", *here, str(copy), "--yes")
    assert refused.code != 0 and "another server holds it" in refused.err
    assert (tmp_path / "data" / "muster.db").stat().st_ino == before


def test_a_database_is_made_with_all_that_is_missing_and_a_newer_one_is_refused(alone: Terminal) -> None:
    there = ("--store", postgres.url("made_by_the_cli"))
    missing = alone.muster("store", "check", *there)
    assert missing.code == 1
    assert 'database "made_by_the_cli" does not exist' in missing.err
    for _ in range(2):
        made = alone.muster("store", "create", *there)
        assert made.code == 0, made.err
        assert "PostgreSQL" in made.out
    with psycopg.connect(postgres.url("made_by_the_cli"), autocommit=True) as admin:
        admin.execute("INSERT INTO schema_migrations (version, name) VALUES (9999, 'later')")
    newer = alone.muster("store", "check", *there)
    assert newer.code == 1
    assert "newer than this program (9999 >" in newer.err
    assert alone.muster("store", "create", *there).code == 1
