import json
from pathlib import Path

import psycopg

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
