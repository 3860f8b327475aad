"""What a job can reach: with the sandbox nothing but its own node; without it, what it says at start."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.site import Site

SANDBOX = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed: there is no sandbox to test"
)
TRIES = """
cat {data}/admin.token && echo READ THE TOKEN
ls {data} && echo SAW THE DATA DIRECTORY
ls {neighbour} && echo SAW A NEIGHBOUR
touch {neighbour}/work/here && echo WROTE TO A NEIGHBOUR
kill -9 {pid} && echo SIGNALLED A NEIGHBOUR
kill -9 {server} && echo SIGNALLED THE SERVER
ls -d /proc/{pid} && echo SAW A PROCESS
env | grep -i -e token -e secret && echo HAS A SECRET
grep 'CapEff:.*[1-9a-f]' /proc/self/status && echo HAS CAPABILITIES
for fd in /proc/[0-9]/fd/[0-9]*; do
    case $(readlink $fd) in *secret*|*token*|/memfd*) echo FOUND $fd ;; esac
done
for process in /proc/[0-9]*; do
    case $(readlink $process/exe) in *python*) echo LOOKED INTO THE AGENT ;; esac
done
{python} -c '{by_number}' && echo OPENED THE DISK BY NUMBER
echo tried
"""
BY_NUMBER = """
import ctypes, os
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("inode", ctypes.c_uint * 2)]
root = ctypes.CDLL(None, use_errno=True).open_by_handle_at(
    os.open("/usr", os.O_RDONLY), ctypes.byref(Handle(8, 1, (2, 0))), os.O_RDONLY)
assert root >= 0, os.strerror(ctypes.get_errno())
os.listdir(root)
"""
"""The root of a disk, as ext4 numbers it, whatever is mounted where."""
DONE = b"tried\n"


def _tried(site: Site) -> bytes:
    """What a job achieves against another node, whose agent is still there afterwards."""
    held = site.succeeded(site.provision(1, run="neighbour"))
    (neighbour,) = site.members(held)
    body = site.body(neighbour)
    script = TRIES.format(
        data=site.data,
        neighbour=body.slot.path,
        pid=body.agent,
        server=site.pid,
        python=Path(sys.executable).resolve(),
        by_number=BY_NUMBER,
    )
    run = site.succeeded(site.run("sh", "-c", f"({script}) 2>/dev/null"))
    (command,) = site.commands(run)
    assert body.agent in body.tree()
    assert site.release(held).status == "succeeded"
    return site.output(command)


@SANDBOX
def test_a_job_in_the_sandbox_reaches_neither_token_nor_neighbour_nor_server(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(config='[process]\nisolation = "sandbox"\n').start()
    site.template()
    assert _tried(site) == DONE


@SANDBOX
def test_what_a_run_leaves_anywhere_on_its_node_is_gone_for_the_next_run_of_its_owner(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(config='[process]\nisolation = "sandbox"\n').start()
    site.template(boot_script="mkdir $MUSTER_HOME/venv /tmp/made")
    places = "$HOME /tmp /var/tmp /dev/shm $MUSTER_HOME $MUSTER_HOME/../bin $MUSTER_HOME/.."
    held = site.succeeded(site.provision(1, run="first"))
    leaving = f"for at in {places}; do echo secret > $at/.left || exit 1; done"
    site.succeeded(site.run("sh", "-c", leaving, run="second"))
    assert site.release(held).status == "succeeded"
    # Every node that could be taken, the one that was written to among them.
    looking = (
        f"ls -d $MUSTER_HOME/venv /tmp/made; for at in {places}; do cat $at/.left; done 2>/dev/null; true"
    )
    run = site.succeeded(site.run("sh", "-c", looking, count=2, run="third"))
    assert [site.output(each) for each in site.commands(run)] == [b"/node/home/venv\n/tmp/made\n"] * 2
    assert len(site.slots()) == 2


def test_without_a_sandbox_the_server_says_at_start_what_a_job_may_do(make_site: Callable[..., Site]) -> None:
    """`isolation none` keeps no job from this user's files; that is why it must be said."""
    site = make_site(config='[process]\nisolation = "none"\n').start()
    assert "local nodes run without a sandbox (isolation is set to none)" in site.words()
    assert "can read this user's files and signal its processes" in site.words()
    site.template()
    held = site.succeeded(site.provision(1))
    run = site.succeeded(site.run("cat", str(site.data / "server.json")))
    assert site.url.encode() in site.output(site.commands(run)[0])
    site.release(held)
