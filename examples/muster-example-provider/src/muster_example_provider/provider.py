"""Machines as processes: one directory each, with what is known of it. The kernel's locks say what lives.

A launch is a file, written before anything starts, so that a repeat finds what it asked for the first time.
A machine's process holds the lock of its directory: while the lock is held, the machine lives.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import muster.agent
from muster.domain.errors import Forbidden, Refused, TokenSpent
from muster.domain.matching import type_matches
from muster.domain.reasons import Reason
from muster.domain.serialization import to_plain
from muster.domain.template import UsageClass
from muster.ports.identity import Identity
from muster.ports.provider import LaunchAnswer, Machine, MachineState
from muster_example_provider.tables import TEMPLATE

NAME = "example"
ID = re.compile(r"[\w-]+\.\d+", re.ASCII)
START = 'echo $$ > pid; exec nice -n "$0" "$@"'


def named(token):
    """A name for files. Tokens are Muster's to choose, and have slashes in them."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


class ExampleProvider:
    """Implements muster.ports.provider.NodeProvider."""

    name = NAME
    visibility_window = 0.0
    call_timeout = 30.0
    makes_way = frozenset({Reason.CAPACITY})

    def __init__(self, root, *, installation_id, servers, capacity):
        self.root = Path(root) / installation_id
        self._installation_id = installation_id
        self._servers = servers
        self._capacity = capacity
        self._children = {}
        """Those that this process started: it has to ask how they ended."""

    async def launch(self, request):
        return await asyncio.to_thread(self._launch, request)

    async def find(self, token):
        return [each for each in self._all() if each.token == token]

    async def list(self):
        for machine in self._all():
            yield machine

    async def describe(self, machine_ids):
        return {each: self._machine(each) for each in machine_ids if self._known(each)}

    async def console(self, machine_id, *, lines):
        if not self._known(machine_id) or not lines:
            return None
        text = (self.root / machine_id / "console").read_text(errors="replace")
        return "\n".join(text.split("\n")[-lines:]) or None

    async def terminate(self, machine_ids):
        for machine_id in filter(self._known, machine_ids):
            if self._alive(machine_id):
                os.killpg(int((self.root / machine_id / "pid").read_text()), signal.SIGKILL)
            if machine_id in self._children:
                self._children.pop(machine_id).wait()

    # --- launching --------------------------------------------------------------------------------

    def _launch(self, request):
        types = [f"{NAME}.{request.resource_class.name}"]
        if not any(type_matches(each, request.instance_types) for each in types):
            raise Refused(f"cannot launch: no type matches {request.instance_types}", Reason.PROVIDER_REFUSED)
        asked = hashlib.sha256(json.dumps(to_plain(request), sort_keys=True).encode()).hexdigest()
        with self._turn():
            path = self.root / f"{named(request.token)}.launch"
            if not path.exists():
                self._plan(path, request, asked, types[0])
            launch = json.loads(path.read_text())
            if launch["asked"] != asked:
                raise TokenSpent(f"cannot launch: token {request.token} was used for something else")
            for machine_id in launch["machines"]:
                if not (self.root / machine_id / "pid").exists():
                    self._start(machine_id, TEMPLATE.of(request.template).nice)
        short = len(launch["machines"]) < request.count
        return LaunchAnswer(
            machines=tuple(map(self._machine, launch["machines"])),
            reason=Reason.CAPACITY if short else None,
            message=f"there is room for {self._capacity} machines" if short else "",
        )

    def _plan(self, path, request, asked, kind):
        room = self._capacity - len(self._all())
        machines = [f"{named(request.token)}.{number}" for number in range(min(request.count, max(0, room)))]
        launch = {
            "token": request.token,
            "asked": asked,
            "machines": machines,
            "type": kind,
            "usage": request.usage_class,
        }
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(launch))
        partial.replace(path)

    def _start(self, machine_id, nice):
        place = self.root / machine_id
        place.mkdir(exist_ok=True)
        secret = secrets.token_urlsafe(32)
        (place / "secret").write_text(hashlib.sha256(secret.encode()).hexdigest())
        (place / "agent.py").write_text(muster.agent.source())
        read, write = os.pipe()
        os.write(write, secret.encode())
        os.close(write)
        argv = [sys.executable, str(place / "agent.py"), "run", "--dir", str(place), "--secret-fd", str(read)]
        argv += ["--proof-prefix", f"{NAME}:{machine_id}:", "--shared-net"]
        argv += [word for server in self._servers for word in ("--server", server)]
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with (place / "console").open("a") as console:
            self._children[machine_id] = subprocess.Popen(
                ["/bin/sh", "-c", START, str(nice), *argv],
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                pass_fds=(read, lock),
                start_new_session=True,
            )
        os.close(lock)
        os.close(read)
        while not (place / "pid").exists() or not (place / "pid").read_text():
            os.sched_yield()

    # --- looking ----------------------------------------------------------------------------------

    def _all(self):
        found = sorted(path.parent.name for path in self.root.glob("*/pid"))
        return [self._machine(each) for each in found if self._alive(each)]

    def _known(self, machine_id):
        return bool(ID.fullmatch(machine_id)) and (self.root / machine_id / "pid").exists()

    def _alive(self, machine_id):
        lock = os.open(self.root / machine_id / "lock", os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _machine(self, machine_id):
        launch = json.loads((self.root / f"{machine_id.rpartition('.')[0]}.launch").read_text())
        return Machine(
            id=machine_id,
            installation_id=self._installation_id,
            token=launch["token"],
            instance_type=launch["type"],
            usage_class=UsageClass(launch["usage"]),
            state=MachineState.RUNNING if self._alive(machine_id) else MachineState.GONE,
        )

    @contextmanager
    def _turn(self):
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "turn").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield


class ExampleVerifier:
    """Implements muster.ports.identity.IdentityVerifier: a machine shows the secret that it was started with."""

    def __init__(self, provider):
        self._provider = provider

    async def verify(self, proof):
        _, machine_id, secret = proof.split(":", 2) if proof.count(":") >= 2 else ("", "", "")
        known = await self._provider.describe([machine_id])
        path = self._provider.root / machine_id / "secret"
        shown = hashlib.sha256(secret.encode()).hexdigest()
        if machine_id not in known or not secrets.compare_digest(shown, path.read_text()):
            raise Forbidden("cannot accept the proof: it doesn't show the secret of a machine here")
        machine = known[machine_id]
        return Identity(
            provider=NAME,
            machine_id=machine_id,
            installation_id=machine.installation_id,
            token=machine.token,
        )
