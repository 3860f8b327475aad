"""A process that starts a database and is killed leaves none behind."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.site import alive, until
from tests.stores.watchdog import _WATCH

ROOT = Path(__file__).parents[2]
_BENCH = """
import sys
from bench.postgres import server
from pathlib import Path
from psycopg.conninfo import conninfo_to_dict
with server() as url:
    folder = Path(conninfo_to_dict(url)["host"])
    print((folder / "postmaster.pid").read_text().split()[0], folder, flush=True)
    sys.stdin.read()
"""


def test_a_benchmark_that_is_killed_leaves_no_database_behind() -> None:
    bench = subprocess.Popen(
        [sys.executable, "-c", _BENCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with bench:
        assert bench.stdout is not None
        pid, folder = bench.stdout.readline().split()
        assert alive([int(pid)])
        bench.kill()
    until(lambda: not alive([int(pid)]), "the database to end")
    until(lambda: not Path(folder).exists(), "its files to be gone")


def test_what_has_ended_by_itself_is_left_alone() -> None:
    """Its number may be another's by then."""
    with subprocess.Popen(["sleep", "60"]) as kept, subprocess.Popen(["sleep", "60"]) as other:
        orders = f"watch {kept.pid} \nwatch {other.pid} \nforget {kept.pid} \n"
        subprocess.run([sys.executable, "-S", "-c", _WATCH], input=orders, text=True, check=True)
        assert alive([kept.pid, other.pid]) == [kept.pid]
        kept.kill()
