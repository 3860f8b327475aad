"""What a job can reach: with the sandbox nothing but its own node; without it, what it says at start."""

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.template import Reuse
from muster.integrations.process.tables import Demand, Home, ProcessSpec
from tests.e2e.site import Body, Site, until

SANDBOX = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed: there is no sandbox to test"
)
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start such a server")
IN_TMP = {
    path.parts[2]
    for path in (Path(sys.executable).resolve(), Path(__file__))
    if path.is_relative_to("/tmp")  # noqa: S108
}
"""Of this checkout and its Python, what a job's own /tmp shows."""
ELSEWHERE = pytest.mark.skipif(bool(IN_TMP), reason="a server in /tmp needs user namespaces for its sandbox")
SERVERS = pytest.mark.parametrize(
    "server",
    [
        pytest.param({}, id="by this user"),
        pytest.param({"user": 70_123}, id="by a normal user", marks=ROOT),
        pytest.param({"namespaces": False}, id="by root without user namespaces", marks=[ROOT, ELSEWHERE]),
    ],
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


LEAVES = """
left() {{ {{ "$@"; }} 2>/dev/null && echo "DID: $*"; }}
for at in / /etc /run /dev /home /var /usr /opt /proc/sys/kernel; do left touch $at/left; done
for at in . home home/venv spool bin work; do left touch /node/$at/left; done
put() {{ echo "$1" > "$2"; }}
left put /tmp/evil.so /etc/ld.so.preload
left put x /node/journal
left put x /node/bin/muster-agent
left put x /node/home/venv/tool
left put '|/tmp/evil' /proc/sys/kernel/core_pattern
left put b /proc/sysrq-trigger
left rm -rf /node/home/venv
left mv /node/home /node/home.away
left ln -sfn /tmp /node/home
left ls /node/journal
left ls /node/spool
left ls /node/log
left head -c 1 /proc/kcore
left unshare --user --map-root-user true
left grep -l sleep /proc/*/comm
test $(id -un) = node || echo NOT THE USER node
head -c 30000000 /dev/zero > /dev/shm/left
touch $HOME/left /tmp/left $TMPDIR/left
{python} -c '{keys}' add
setsid sleep 4242 > /dev/null 2>&1 &
mkfifo go
echo tried
read word < go
"""
LOOKS = """
ls -A . /tmp /var/tmp /dev/shm /run $MUSTER_HOME $MUSTER_HOME/venv
cat $MUSTER_HOME/venv/tool
grep -l sleep /proc/*/comm
{python} -c '{keys}' search
"""
KEYS = """
import ctypes, os, sys
call = ctypes.CDLL(None).syscall
add, ctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
for ring in (-3, -4, -5):
    if sys.argv[1] == "add": call(add, b"user", b"left", b"secret", 6, ring)
    elif call(ctl, 10, ring, b"user", b"left", 0) >= 0: print("FOUND A KEY IN", ring)
"""
"""Of a session, a user, and a user's session."""


def _statuses(pids: list[int]) -> list[dict[str, str]]:
    """What the kernel says of each of these processes that is still there: the first word of each field."""
    found = []
    for pid in pids:
        with suppress(OSError):
            lines = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
            found.append({words[0].rstrip(":"): words[1] for words in lines if len(words) > 1})
    return found


def _world(body: Body) -> tuple[int, set[str]]:
    """A node from outside: how many processes it has, and the mounts of which memory could be left in."""
    mounts = []
    for pid in body.tree():
        with suppress(OSError):
            mounts.append(str(Path(f"/proc/{pid}/ns/mnt").readlink()))
    return len(mounts), set(mounts)


@SANDBOX
@SERVERS
def test_a_run_leaves_nothing_for_the_next_owner_of_its_node(
    make_site: Callable[..., Site], server: dict[str, Any]
) -> None:
    config = '[process]\nisolation = "sandbox"\n'
    site = make_site(config=config, **server).start()
    script = "mkdir $MUSTER_HOME/venv; echo made > $MUSTER_HOME/venv/tool; sleep 4242 > /dev/null 2>&1 &"
    site.template(boot_script=script, reuse=Reuse.ALWAYS, max_nodes=1)
    site.succeeded(site.run("true", owner="first"))
    (node,) = site.nodes("idle")
    body = site.body(node)
    before, held = _world(body), sorted(path.name for path in body.slot.work.iterdir())
    python = Path(sys.executable).resolve()

    run = site.run("sh", "-c", LEAVES.format(python=python, keys=KEYS), owner="second")
    (command,) = site.commands_in("running", run)
    until(lambda: b"tried" in site.output(command), "the attack")
    jobs = _statuses(body.jobs)
    assert {(job["CapEff"], job["NoNewPrivs"]) for job in jobs} == {("0" * 16, "1")}
    # Without user namespaces, bubblewrap itself keeps the user id 0, but no power.
    programs = [job for job in jobs if server.get("namespaces", True) or job["Name"] != "bwrap"]
    assert programs and "0" not in {job["Uid"] for job in programs}
    (work,) = (path for path in (body.slot.work / "work").iterdir() if path.suffix != ".tmp")
    (work / "go").write_text("go\n")
    site.succeeded(run)
    assert site.output(command) == DONE

    assert site.node_in("idle", node.id).machine_id == node.machine_id
    assert _world(body) == before
    assert sorted(path.name for path in body.slot.work.iterdir()) == held
    for emptied in ("work", "spool"):
        assert list((body.slot.work / emptied).iterdir()) == []
    assert [path.name for path in (body.slot.work / "home").rglob("*")] == ["venv", "tool"]
    looking = site.succeeded(site.run("sh", "-c", LOOKS.format(python=python, keys=KEYS), owner="third"))
    (looked,) = site.commands(looking)
    seen = [word for word in site.output(looked).decode().split() if word not in IN_TMP]
    assert " ".join(seen) == ".: /dev/shm: /node/home: venv /node/home/venv: tool /run: /tmp: /var/tmp: made"


def test_without_a_sandbox_the_server_says_at_start_what_a_job_may_do(make_site: Callable[..., Site]) -> None:
    """`isolation none` keeps no job from this user's files; that is why it must be said."""
    site = make_site(config='[process]\nisolation = "none"\n').start()
    assert "local nodes run without a sandbox (isolation is set to none)" in site.words()
    assert "can read this user's files and signal its processes" in site.words()
    with pytest.raises(
        InvalidRequest, match="only with a sandbox around each run, and process has none here"
    ):
        site.template(reuse=Reuse.ALWAYS)
    site.template()
    held = site.succeeded(site.provision(1))
    run = site.succeeded(site.run("cat", str(site.data / "server.json")))
    assert site.url.encode() in site.output(site.commands(run)[0])
    site.release(held)


@SANDBOX
@SERVERS
def test_a_run_may_change_what_the_boot_script_left_and_the_next_one_does_not_see_it(
    make_site: Callable[..., Site], server: dict[str, Any]
) -> None:
    site = make_site(config='[process]\nisolation = "sandbox"\n', **server).start()
    script = "mkdir $MUSTER_HOME/venv; echo made > $MUSTER_HOME/venv/tool; echo kept > $MUSTER_HOME/kept"
    spec = ProcessSpec(isolation=Demand.SANDBOX, home=Home.OVERLAY)
    site.template(boot_script=script, tables={"process": spec}, reuse=Reuse.ALWAYS, max_nodes=1)
    change = (
        "cd $MUSTER_HOME; echo mine >> venv/tool; rm kept; mkdir new; mv venv moved; cat moved/tool; ls -A"
    )
    first = site.succeeded(site.run("sh", "-ec", change, owner="first"))
    assert site.output(site.commands(first)[0]).split() == [b"made", b"mine", b"moved", b"new"]
    (node,) = site.nodes("idle")
    work = site.body(node).slot.work
    assert list((work / "work").iterdir()) == []
    look = "cd $MUSTER_HOME; cat venv/tool kept; ls -A"
    second = site.succeeded(site.run("sh", "-ec", look, owner="second"))
    assert site.output(site.commands(second)[0]).split() == [b"made", b"kept", b"kept", b"venv"]
    assert site.node_in("idle", node.id).machine_id == node.machine_id


@SANDBOX
def test_a_sandbox_that_cannot_start_is_told_apart_from_a_job_that_fails(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(config='[process]\nisolation = "sandbox"\n').start()
    site.template()
    (own,) = site.commands(site.ended(site.run("sh", "-c", "echo bwrap: no; exit 1", run="own")))
    assert own.exit_code == 1 and b"muster-agent" not in site.output(own)
    (node,) = site.nodes("idle")
    home = site.body(node).slot.work / "home"
    home.rename(home.with_name("home.away"))  # what the sandbox of every job mounts
    (broken,) = site.commands(site.ended(site.run("true", run="broken")))
    said = site.output(broken).decode()
    assert broken.exit_code == 126
    assert "bwrap: " in said and "[muster-agent: cannot run it: its sandbox could not start" in said
