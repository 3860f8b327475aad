"""The program that a host runs for a server: one request per line comes in, one answer per line goes out.

The server sends it with `muster.slots` over ssh (`bundle`); nothing is installed on the host. Any Python from
3.8 on runs it. It starts nodes in slots below its directory, looks at them, and ends them. It ends with the
ssh session; the nodes stay. Every answer is true for itself: the next session finds the same slots.

    DIRECTORY/INSTALLATION/l-…/plan.json   which hosts serve a launch, and how many nodes each
    DIRECTORY/INSTALLATION/l-…/            the slots of that launch on this host (`muster.slots.tree`)
    DIRECTORY/INSTALLATION/programs/…/     agent and keeper, by their content
    DIRECTORY/INSTALLATION/drained         this host takes no new nodes
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from muster.integrations.ssh import facts, scopes
from muster.slots import grants, termination
from muster.slots.console import keepers_last_word, said
from muster.slots.grants import Granter
from muster.slots.limits import rlimits
from muster.slots.processes import boot_id, reap
from muster.slots.pruner import Keeping, prune
from muster.slots.spawn import SECRET_FD, Start, unwrapped_environment
from muster.slots.states import GONE, look
from muster.slots.tree import Grant, Tree, launching, read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from muster.slots.tree import Slot

    Request = Mapping[str, Any]

LOCK_WAIT = 8.0
STARTING = 15.0
"""Together inside the server's patience for a launch."""
GRACE = 10.0
CONSOLE_LIMIT = 1 << 20
PLANS_KEPT = 7 * 86400.0
LEAST_FREE = 64 << 20
"""Bytes that must be free on the disk before a host offers room."""


class Refusal(Exception):
    """The request can't be done. `kind` says what the server may conclude."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Host:
    """The slots of one installation on this host."""

    def __init__(self, directory: str, installation_id: str, wipe: Callable[[str, float], bool]) -> None:
        self.directory = Path(os.path.expanduser(directory))  # noqa: PTH111  # an unknown ~user must not raise
        self.tree = Tree(self.directory / installation_id, installation_id)
        self.wipe = wipe
        self._children: list[int] = []

    def answer(self, request: Request) -> Any:
        reap(self._children)
        try:
            return getattr(self, "do_" + request["verb"])(request)
        finally:
            reap(self._children)

    # --- launching --------------------------------------------------------------------------------

    def do_offer(self, request: Request) -> dict[str, Any]:
        """How much room there is, and what is known of a launch."""
        granter = Granter(tree=self.tree, capacity=request["slots"], grace=GRACE, now=time.time())
        free = facts.free_bytes(self.directory)
        return {
            "plan": self._plan(request["token"]),
            "free": granter.room() if free >= LEAST_FREE else 0,
            "drained": self._drained(),
            "why": "" if free >= LEAST_FREE else f"its disk is full: {free >> 20} MiB are free",
        }

    def do_plan(self, request: Request) -> dict[str, Any]:
        """Keep the plan of a launch; the first one wins."""
        with launching(self.tree.root, LOCK_WAIT) as mine:
            if not mine:
                raise Refusal("later", "another launch on this host takes long")
            return self._kept(request["token"], request["plan"])

    def do_launch(self, request: Request) -> dict[str, Any]:
        latest = time.monotonic() + LOCK_WAIT + STARTING
        with launching(self.tree.root, LOCK_WAIT) as mine:
            if not mine:
                raise Refusal("later", "another launch on this host takes long")
            plan = self._kept(request["token"], request["plan"])
            if plan["fingerprint"] != request["plan"]["fingerprint"]:
                raise Refusal("spent", f"token {request['token']} was used with other parameters")
            now = time.time()
            wanted = Grant(
                token=request["token"],
                installation_id=self.tree.installation_id,
                fingerprint=plan["fingerprint"],
                count=request["count"],
                granted=request["count"],
                instance_type=request["instance_type"],
                usage_class=request["usage_class"],
                at=now,
            )
            granter = Granter(
                tree=self.tree, capacity=request["slots"], grace=GRACE, now=now, keeps_nothing=True
            )
            try:
                programs = self._programs(request["agent"], request["keeper"])
                answer = granter.launch(
                    wanted,
                    lambda slot: self._children.append(self._start(slot, request, programs)),
                    latest=latest,
                )
            except grants.Spent as error:
                raise Refusal("spent", str(error)) from error
            except grants.Late as error:
                raise Refusal("late", str(error)) from error
            except (grants.Later, OSError) as error:
                raise Refusal("later", str(error)) from error
        shown = [self._shown(slot, state) for slot, state in answer.living]
        return {"machines": shown, "reason": answer.reason, "message": answer.message}

    def _plan(self, token: str) -> dict[str, Any] | None:
        return read(self.tree.directory(token) / "plan.json")

    def _kept(self, token: str, plan: dict[str, Any]) -> dict[str, Any]:
        found = self._plan(token)
        if found is not None:
            return found
        directory = self.tree.directory(token)
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            write(directory / "plan.json", {**plan, "at": time.time()})
        except OSError as error:
            raise Refusal("later", f"cannot write the plan of a launch: {error}") from error
        return plan

    def _programs(self, *sources: str) -> list[str]:
        """Agent and keeper as files, by their content: a new version doesn't change what runs."""
        name = hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]
        place = self.tree.root / "programs" / name
        paths = [place / "agent.py", place / "keeper.py"]
        if not paths[-1].exists():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path, source in zip(paths, sources):  # noqa: B905  # Python 3.8 has no strict=
                beside = path.with_name(f".{path.name}.{os.getpid()}")
                beside.write_text(source, encoding="utf-8")
                beside.replace(path)
        return [str(path) for path in paths]

    def _start(self, slot: Slot, request: Request, programs: list[str]) -> int:
        size = SimpleNamespace(**request["size"])
        with Start(slot) as start:
            scope = scopes.command(slot.machine_id, size, request["limits"])
            # Nothing of the session's. The Python that runs this surely works.
            environment = unwrapped_environment(slot, sys.executable, start.marker)
            plan = {
                "argv": [sys.executable, programs[0], "run", *self._options(slot, request)],
                "environment": environment,
                "rlimits": rlimits(size, memory_by_cgroup=bool(scope)),
                "grace": GRACE,
                "sandboxed": False,
                "console_limit": CONSOLE_LIMIT,
            }
            limits = scopes.words(size) if scope else []
            start.mark(plan, at=time.time(), isolation="none", limits=limits, group=None)
            argv = [*scope, sys.executable, "-I", "-S", programs[1], str(slot.path)]
            return start.spawn(argv, {**environment, **scopes.environment(scope)})

    def _options(self, slot: Slot, request: Request) -> list[str]:
        argv = [word for server in request["servers"] for word in ("--server", server)]
        argv += ["--dir", str(slot.work), "--secret-fd", str(SECRET_FD)]
        argv += ["--proof-prefix", request["proof"].replace("{}", slot.machine_id), "--shared-net"]
        return [*argv, "--dead-man", f"{request['dead_man']:g}"]

    # --- looking and ending -----------------------------------------------------------------------

    def do_look(self, request: Request) -> dict[str, Any]:
        """The machines of these ids or of this token, gone ones too; or all that live."""
        if "ids" in request:
            found = (self.tree.slot(each) for each in request["ids"])
            slots = [slot for slot in found if slot is not None]
        elif "token" in request:
            directory = self.tree.directory(request["token"])
            grant = self.tree.grant(directory)
            slots = [] if grant is None else list(self.tree.slots(directory, grant))
        else:
            slots = list(self.tree.all_slots())
        seen = look(slots, grace=GRACE, now=time.time())
        if "ids" not in request:
            seen = [(slot, state) for slot, state in seen if state != GONE]
        if request.get("prune"):
            self._prune()
        return {"machines": [self._shown(slot, state) for slot, state in seen], "boot_id": boot_id()}

    def do_terminate(self, request: Request) -> dict[str, Any]:
        for each in request["ids"]:
            slot = self.tree.slot(each)
            if slot is not None and slot.started and not slot.gone:
                termination.ask(slot, now=time.time())
        return self.do_look(request)

    def do_console(self, request: Request) -> dict[str, Any]:
        slot = self.tree.slot(request["machine"])
        return {"text": None if slot is None else said(slot, request["lines"])}

    def _shown(self, slot: Slot, state: str) -> dict[str, Any]:
        record = slot.record()
        why = ""
        if state == GONE and record is not None:
            rebooted = record.boot_id != boot_id()
            why = "the host was rebooted" if rebooted else keepers_last_word(slot)
        return {
            "id": slot.machine_id,
            "token": slot.grant.token,
            "type": slot.grant.instance_type,
            "usage": slot.grant.usage_class,
            "state": state,
            "why": why,
            "secret_sha256": "" if record is None else record.secret_sha256,
        }

    def _prune(self) -> None:
        with launching(self.tree.root, 0.0) as mine:
            if not mine:
                return
            # What can't be removed now is tried again at the next pruning.
            with suppress(OSError):
                prune(self.tree, Keeping(), self.wipe, now=time.time())
                for path in sorted(self.tree.root.glob("l-*/plan.json")):
                    plan = read(path) or {}
                    old = time.time() - plan.get("at", 0.0) > PLANS_KEPT
                    if old and not (path.parent / "grant.json").exists():
                        self.wipe(str(path.parent), LOCK_WAIT)

    # --- the host itself --------------------------------------------------------------------------

    def do_facts(self, request: Request) -> dict[str, Any]:
        living = look(list(self.tree.all_slots()), grace=GRACE, now=time.time())
        return {
            **facts.facts(self.directory, self.tree.root.name, request.get("urls", ())),
            "nodes": sum(state != GONE for _, state in living),
            "drained": self._drained(),
            "scope": scopes.kind(request.get("limits", "auto")),
        }

    def do_drain(self, request: Request) -> dict[str, Any]:
        mark = self.tree.root / "drained"
        try:
            if request["on"]:
                self.tree.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                write(mark, {"at": time.time()})
            elif mark.exists():
                mark.unlink()
        except OSError as error:
            raise Refusal("later", f"cannot change {mark}: {error}") from error
        return self.do_facts(request)

    def _drained(self) -> bool:
        return (self.tree.root / "drained").exists()


def serve(wipe: Callable[[str, float], bool]) -> None:
    """Answer until the session ends. Only answers are written to what was standard output."""
    os.umask(0o077)
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    host: Host | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["verb"] == "hello":
                host = Host(request["directory"], request["installation_id"], wipe)
                told: Any = {"boot_id": boot_id()}
            else:
                told = host.answer(request)  # type: ignore[union-attr]  # the server says hello first
            answer = {"n": request["n"], "answer": told}
        except Refusal as error:
            answer = {"n": request["n"], "error": error.kind, "message": str(error)}
        except Exception as error:  # whatever it is, the server hears of it
            words = f"{type(error).__name__}: {error}"
            answer = {"n": request["n"], "error": "failed", "message": words}
        out.write(json.dumps(answer) + "\n")
        out.flush()
