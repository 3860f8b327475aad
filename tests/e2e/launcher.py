"""The real server, as a process of its own, with some things that only tests want.

A fault injector kills it, with SIGKILL, in the moment after a named event was committed and before it was
told. Or it stops the server, with SIGSTOP, when a named write was decided and is not yet sent. Then it logs
what becomes of that write when the server continues.

| option | what it does |
|---|---|
| `pace` | the periodic duties tick faster by this factor, so that a test needn't wait for a minute |
| `bug` | this verb of the store fails for the first operation that gets to it, each time |
| `lease` | seconds of a lease |
| `ticks` | a path to which every tick of a duty is written |
| `user` | the user of the server, where root starts it |
| `namespaces` | false: root can't make user namespaces |
| `reserve` | true: the store keeps room for a full disk, 20 MiB of writes at each start |

Usage: launcher.py CONFIG DATA_DIR PORT ORDER OPTIONS, the last as JSON: {"pace": 0.1, "cgroups": true}

Without arguments it is a fork server. It imports everything once, and forks off a server for each line on its
input: {"argv": […], "log": path, "ready": path}. It answers with the pid, and a line {"wait": pid} with the
exit status. So a test can start a hundred.
"""

import asyncio
import gc
import importlib
import json
import logging
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from muster import agent, serve
from muster.config import load
from muster.controllers import standing_duties
from muster.controllers.duties import Duties
from muster.discovery import installed
from muster.domain.events import Draft, Entity
from muster.domain.operation import Fence
from muster.domain.settings import Settings
from muster.integrations.github import set_listener
from muster.integrations.github.api import trusted_certificates
from muster.integrations.process import drop_root, provider, sandbox_entry
from muster.integrations.process.provider import ProcessProvider
from muster.plane import ControlPlane, Ports
from muster.ports.commits import AfterCommit, Written
from muster.ports.duties import Duty
from muster.ports.store import Store
from muster.ports.wakeups import Wakeups
from muster.stores import factory
from muster.stores.sql.disk_reserve import Reserve

logger = logging.getLogger("muster.launcher")


class FaultInjector:
    """Reads its orders from a file: a label, at which occurrence of it to send a signal, and which signal."""

    def __init__(self, order: Path) -> None:
        self._order_file = order
        self._kinds: dict[str, str] = {}
        self._met: dict[str, int] = {}

    def committed(self, written: Sequence[Written]) -> None:
        for each in written:
            self.met(self._label(each.draft))

    def _label(self, draft: Draft) -> str:
        if draft.entity is not Entity.OPERATION:
            return f"{draft.entity}:{draft.name}"
        if "kind" in draft.changes:
            self._kinds[draft.entity_id] = str(draft.changes["kind"])
        return f"{self._kinds.get(draft.entity_id, 'operation')}:{draft.name}"

    def met(self, label: str) -> bool:
        """Return whether the process was signalled and continues."""
        try:
            order = self._order_file.read_text()
        except FileNotFoundError:
            return False
        wanted, count, number = order.split()
        if label == wanted:
            self._met[order] = self._met.get(order, 0) + 1
            if self._met[order] == int(count):
                self._order_file.unlink()
                os.kill(os.getpid(), int(number))
                return True
        return False


class Planted(Exception):
    """A bug that was put there."""


class Halting:
    """The store, with verbs before which the injector may act, and one of which may have a bug."""

    def __init__(self, store: Store, injector: FaultInjector, bug: str | None) -> None:
        self._store = store
        self._injector = injector
        self._bug = bug
        self._victim: str | None = None

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not callable(verb):
            return verb

        async def halted(*args: Any, **kwargs: Any) -> Any:
            self._stumble(name, kwargs.get("fence"))
            if not self._injector.met(f"before:{name}"):
                return await verb(*args, **kwargs)
            late = asyncio.ensure_future(verb(*args, **kwargs))
            late.add_done_callback(lambda done: _log_late(name, done))
            # Its caller may be told to stop meanwhile. The write goes on all the same.
            return await asyncio.shield(late)

        return halted

    def _stumble(self, verb: str, fence: Fence | None) -> None:
        if verb == self._bug and fence is not None:
            self._victim = self._victim or fence.operation_id
            if fence.operation_id == self._victim:
                raise Planted(f"{verb} with password=hunter2hunter2")


def _log_late(verb: str, done: "asyncio.Future[Any]") -> None:
    error = done.exception()
    outcome = "accepted" if error is None else type(error).__name__
    logger.warning("late write", extra={"verb": verb, "outcome": outcome})


def main(argv: Sequence[str]) -> int:
    config, data, port, order, given = argv
    options = json.loads(given)
    injector = FaultInjector(Path(order))
    if options.get("user"):
        lower(options["user"])
    if not options.get("namespaces", True):
        without_user_namespaces()

    class Brisk(ControlPlane):
        def __init__(self, ports: Ports, *, owner: str, **more: Any) -> None:
            halting = cast("Store", Halting(ports.store, injector, options.get("bug")))
            super().__init__(replace(ports, store=halting), owner=owner, **more)
            brisk = [replace(duty, every=duty.every * options["pace"]) for duty in self.duties]
            if "ticks" in options:
                brisk = [replace(duty, work=_Noted(duty, Path(options["ticks"]), owner)) for duty in brisk]
            self._duties = Duties(ports, owner, brisk, lease=lease)

    really = factory.after_commit

    def telling(wakeups: Wakeups, saw: AfterCommit) -> AfterCommit:
        tell = really(wakeups, saw)

        def both(written: Sequence[Written]) -> None:
            injector.committed(written)
            tell(written)

        return both

    def step(name: str) -> None:
        injector.met(f"provider:{name}")

    def ready(serving: serve.Serving) -> None:
        sys.stdout.write(serving.url + "\n")
        sys.stdout.flush()

    lease = options.get("lease") or Settings().lease

    class Near(ProcessProvider):
        call_timeout = min(ProcessProvider.call_timeout, lease / 2)

    with (
        patch.object(Reserve, "keep", Reserve.keep if options.get("reserve") else lambda _: None),
        patch.object(serve, "ControlPlane", Brisk),
        patch.object(serve, "Settings", partial(Settings, lease=lease, renew_every=lease / 4)),
        patch.object(serve, "PRICED_LEASE", lease),
        patch.object(serve, "PRICED_RENEW_EVERY", lease / 4),
        patch.object(standing_duties, "LOOK_EVERY", standing_duties.LOOK_EVERY * options["pace"]),
        patch.object(set_listener, "SESSION_EVERY", set_listener.SESSION_EVERY * options["pace"]),
        patch.object(set_listener, "TICK", set_listener.TICK * options["pace"]),
        patch.object(factory, "after_commit", telling),
        patch.object(provider, "ProcessProvider", partial(Near, on_step=step, cgroups=options["cgroups"])),
    ):
        flags = {"port": int(port), "data_dir": data, "log_format": "json"}
        return serve.run(load(Path(config), flags=flags), ready=ready)


class _Noted:
    """A duty that says when it was done, and by which replica."""

    def __init__(self, duty: Duty, path: Path, owner: str) -> None:
        self._duty = duty
        self._path = path
        self._owner = owner

    async def reconcile(self) -> None:
        with self._path.open("a") as file:
            file.write(f"{self._duty.name} {self._owner}\n")
        await self._duty.work.reconcile()


def without_user_namespaces() -> None:
    """Go on as root in a user namespace of all users, the last one that can be made."""
    told, tell = os.pipe()
    pid = os.getpid()
    writer = os.fork()
    if writer == 0:
        os.read(told, 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(f"0 0 {(1 << 32) - 1}")
        os._exit(0)
    sandbox_entry.checked(sandbox_entry.LIBC.unshare(sandbox_entry.CLONE_NEWUSER), "make a user namespace")
    os.write(tell, b"!")
    assert os.waitpid(writer, 0)[1] == 0
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def lower(uid: int) -> None:
    """Go on as a normal user, who reaches this Python wherever it lies."""
    prefix = Path(sys.base_prefix)
    top = Path("/", prefix.parts[1])
    if not top.stat().st_mode & 0o001:
        drop_root.checked(drop_root.LIBC.unshare(drop_root.CLONE_NEWNS), "make a mount namespace")
        drop_root.mount("none", "/", None, drop_root.MS_REC | drop_root.MS_PRIVATE)
        aside = tempfile.mkdtemp()
        drop_root.mount(str(prefix), aside, None, drop_root.MS_BIND | drop_root.MS_REC)
        drop_root.mount("tmpfs", str(top), "tmpfs", 0, "mode=0755")
        prefix.mkdir(parents=True)
        drop_root.mount(aside, str(prefix), None, drop_root.MS_BIND | drop_root.MS_REC)
    drop_root.become(uid)
    os.environ["HOME"] = "/nonexistent"


def fork_server() -> None:
    _prepare()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                _leave_home(Path(order["log"]), Path(order["ready"]))
                os._exit(main(order["argv"]))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _prepare() -> None:
    """Do what each server would else do again: import its parts, find the integrations, pack the agent,
    read the certificates of this machine."""
    installed()
    agent.source()
    trusted_certificates()
    for module in ("aks.provider", "github.parts", "process.parts"):
        importlib.import_module(f"muster.integrations.{module}")
    gc.freeze()


def _leave_home(log: Path, ready: Path) -> None:
    """Keep nothing of the fork server: neither its session, nor its descriptors, nor its random state."""
    os.setsid()
    random.seed()
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(ready, os.O_WRONLY)
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for mine, usual in ((nothing, 0), (said, 1), (words, 2)):
        os.dup2(mine, usual)
        os.close(mine)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        fork_server()
    else:
        sys.exit(main(sys.argv[1:]))
