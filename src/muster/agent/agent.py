#!/usr/bin/env python3
"""The Muster agent, for Python 3.8 or later: a pure step function, (state, event) → effects, and a shell.

Refuses to start a command twice and to report what isn't proven.
"""

from __future__ import annotations

import argparse
import calendar
import ctypes
import fcntl
import http.client
import json
import os
import queue
import random
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

POLL = 50  # seconds that the server may hold a long poll; proxies cut at 60
SELDOM = 15.0  # a node that beats less often keeps no connection for it
SILENCE = 30.0  # a stream without a line for so long is broken, or a proxy keeps its lines back
POLLS = 12  # long polls instead of the stream, before it is tried again
GRACE = 5.0  # from SIGTERM to SIGKILL
MIB = 1 << 20
OUTPUT_MAX = 64 * MIB  # kept per command
CHUNK = MIB // 4
BULK_MAX = 512 * MIB
TAIL = 4096
NOISE = 65536  # bytes received per beat: our own talk
LEFT_OUT = 3  # what `pack` ends with if it couldn't read all
LINUX = os.path.isdir("/proc/self")
MARGIN = 60  # for our own end, before the machine's switch acts


@dataclass(frozen=True)
class Desired:
    version: int = -1
    directive: str = "stay"
    assignment: str = ""
    run: str = ""
    dead_man: float = 0.0
    commands: tuple[dict[str, Any], ...] = ()
    kit: bool = False  # attaching takes a program, which is asked for


@dataclass(frozen=True)
class Line:
    """One request at a time, the next not before `due`."""

    busy: bool = False
    tries: int = 0
    due: float = 0.0
    said: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    id: str
    phase: str = ""
    code: int | None = None
    signal: int | None = None
    size: int = 0  # of its output
    sent: int = 0
    full: bool = False
    artifact: bool = False
    traffic: Any = None  # of a terminal: the bytes that came and went
    told: str = ""  # the phase that the server knows
    timeout: float | None = None
    kill_at: float | None = None
    kills: int = 0

    @property
    def ended(self) -> bool:
        return self.phase in ("exited", "lost")


@dataclass(frozen=True)
class State:
    key: str = ""
    boot_id: str = ""
    dead_man: float = 0.0
    dead_at: float = 0.0
    over: str = ""
    epoch: int = 0  # counts joins; answers to an earlier one are void
    joined: bool = False
    node_id: str = ""
    token: str = ""
    beat_seconds: float = 5.0
    boot: str = ""  # running, done, failed
    failure: str = ""
    boot_told: bool = False
    steps: tuple[str, ...] = ()
    notice: float | None = None  # the provider takes the machine back in so many seconds
    notice_told: bool = False
    desired: Desired = Desired()
    behind: int = -1  # the version that a beat heard of
    streams: bool = False  # a line came on the present stream
    spread: float = 1.0  # seconds over which all agents come back if the server goes
    polls: int = 0  # still to be held before the stream is tried again
    attached: str = ""
    attached_told: str = ""
    ready: str = ""  # what its program said of
    ended: str = ""  # what its program ended for
    moving: bool = False
    lines: dict[str, Line] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()


class Event:
    pass


@dataclass(frozen=True)
class Started(Event):
    key: str
    boot_id: str
    dead_man: float
    commands: tuple[Command, ...] = ()  # of an earlier life


@dataclass(frozen=True)
class Tick(Event):
    pass


@dataclass(frozen=True)
class Signalled(Event):
    name: str


@dataclass(frozen=True)
class Answered(Event):
    """To a Send. Status 0: no readable answer."""

    line: str
    what: str
    epoch: int
    status: int
    body: dict[str, Any]
    retry_after: float = 0.0


@dataclass(frozen=True)
class Heard(Event):
    """A line of the stream."""

    epoch: int
    body: dict[str, Any]


@dataclass(frozen=True)
class StepNamed(Event):
    name: str


@dataclass(frozen=True)
class Noticed(Event):
    seconds: float


@dataclass(frozen=True)
class ScriptEnded(Event):
    code: int  # negative: a signal
    tail: str


@dataclass(frozen=True)
class Moved(Event):
    """Attached to this, or detached: to none."""

    assignment: str


@dataclass(frozen=True)
class Ended(Event):
    """What attaching began is over: a kit's program ended, or none could begin."""

    assignment: str
    code: int
    tail: str


@dataclass(frozen=True)
class CommandIs(Event):
    id: str
    phase: str
    size: int = 0
    artifact: bool = False
    code: int | None = None
    signal: int | None = None
    traffic: Any = None


class Effect:
    slow = False  # wants a thread of its own


@dataclass(frozen=True)
class Send(Effect):
    """`what`: join, beat, stream, desired, report, kit; of a command, on the line /ID: output, state,
    artifact."""

    line: str
    what: str
    body: dict[str, Any]
    token: str
    epoch: int


@dataclass(frozen=True)
class StartBoot(Effect):
    script: str
    env: dict[str, str]
    slow = True


@dataclass(frozen=True)
class Attach(Effect):
    assignment: str
    run: str = ""
    program: str = ""  # a secret


@dataclass(frozen=True)
class Detach(Effect):
    assignment: str
    slow = True


@dataclass(frozen=True)
class StartCommand(Effect):
    order: dict[str, Any]
    assignment: str
    run: str
    slow = True


@dataclass(frozen=True)
class KillCommand(Effect):
    id: str
    hard: bool
    slow = True


@dataclass(frozen=True)
class Forget(Effect):
    id: str


@dataclass(frozen=True)
class Arm(Effect):
    seconds: float


@dataclass(frozen=True)
class Log(Effect):
    text: str


@dataclass(frozen=True)
class PowerOff(Effect):
    reason: str


def step(state: State, event: Event, now: float, chance: float) -> tuple[State, list[Effect]]:
    """Take one event and return the effects. `chance` is from 0 to 1."""
    turn = Turn(state, now, chance)
    if not state.over:
        if not isinstance(event, Tick):
            getattr(turn, "on_" + type(event).__name__.lower())(event)
        turn.advance()
    return turn.s, turn.out


def wake(s: State) -> float:
    """Return when a Tick is due."""
    lines = [s.lines.get(line, Line()) for line, _, _ in wants(s)]
    kills = [c.kill_at for c in s.commands.values() if c.kill_at is not None and not c.ended]
    return min([s.dead_at, *kills, *(line.due for line in lines if not line.busy)])


def wants(s: State) -> list[tuple[str, str, dict[str, Any]]]:
    """Return what to send, derived from facts, repeated until the server knows it."""
    if not s.joined:
        return [("join", "join", {"key": s.key, "boot_id": s.boot_id})]
    known, fact = {"known": s.desired.version}, news(s)
    found: list[tuple[str, str, dict[str, Any]]] = [("beat", "beat", {})]
    # What it is about to say is answered with what to do; asking as well would be answered twice.
    d = s.desired
    saying = d.directive == "attach" and (s.moving or fact) and s.boot == "done" and not d.kit
    if not s.polls:
        found.append(("poll", "stream", {}))
    elif not saying or s.lines.get("report", Line()).tries:
        found.append(("poll", "desired", {**known, "timeout": POLL}))
    if fact:
        found.append(("report", "report", fact))
    elif d.kit and wanted(s) and not s.attached and not s.moving and s.boot == "done":
        found.append(("report", "kit", {"assignment": d.assignment}))
    elif s.behind > s.desired.version:  # the poll may hang
        found.append(("report", "desired", {**known, "timeout": 0}))
    for c in s.commands.values():  # all output before the end
        if c.phase == "running" and not c.told:
            found.append(("/" + c.id, "state", {"state": c.phase}))
        elif c.sent < c.size and not c.full:
            found.append(("/" + c.id, "output", {"offset": c.sent}))
        elif c.artifact:
            found.append(("/" + c.id, "artifact", {}))
        elif c.ended:
            told = {"state": c.phase, "exit_code": c.code, "signal": c.signal, "size": c.size}
            told.update({"traffic": c.traffic} if c.traffic else {})
            late = {"timed_out": True} if c.kills and c.timeout is not None else {}
            found.append(("/" + c.id, "state", {**told, **late}))
    return found


def wanted(s: State) -> str:
    d = s.desired
    return d.assignment if d.directive == "attach" and d.assignment != s.ended else ""


def news(s: State) -> dict[str, Any]:
    d = s.desired
    if s.notice is not None and not s.notice_told:
        return {"interrupted": s.notice}
    if s.steps:
        return {"phase": "boot_script", **({"step": s.steps[0]} if s.steps[0] else {})}
    if not s.boot_told and s.boot in ("done", "failed"):
        return {"booted": True} if s.boot == "done" else {"failed": s.failure}
    if s.moving or s.attached != wanted(s):
        return {}
    if s.attached:
        waits = s.attached == s.attached_told or (d.kit and s.ready != s.attached)
        return {} if waits else {"attached": s.attached}
    failed = (
        {"failed": s.failure, "failed_assignment": s.ended} if s.failure and s.ended == d.assignment else {}
    )
    return {"detached": d.assignment, **failed} if d.assignment else {}


def backoff(tries: int, chance: float) -> float:
    return min(30.0, 2.0 ** min(tries + 1, 9)) * (0.5 + chance / 2)


def name(value: Any) -> str:
    if "/" in value or value[0] == ".":
        raise ValueError(value)
    return str(value)


def read_desired(body: Any) -> Desired:
    word, dead_man, orders = body["directive"], float(body["dead_man"]), tuple(body.get("commands") or ())
    bound = word in ("attach", "detach")
    if not (bound or word in ("stay", "stop")) or not dead_man < 1e9:
        raise ValueError(word)
    for order in orders:
        name(order["id"])
    assignment = name(body["assignment_id"]) if bound else ""
    kit = bool(body.get("kit"))
    return Desired(int(body["version"]), word, assignment, body.get("run") or "", dead_man, orders, kit)


class Turn:
    def __init__(self, s: State, now: float, chance: float) -> None:
        self.s, self.now, self.chance = s, now, chance
        self.out: list[Effect] = []

    def put(self, **changes: Any) -> None:
        self.s = replace(self.s, **changes)

    def line(self, name: str, *given: Any) -> None:
        self.put(lines={**self.s.lines, name: Line(*given)})

    def command(self, id: str, **changes: Any) -> None:
        self.put(commands={**self.s.commands, id: replace(self.s.commands[id], **changes)})

    def end(self, reason: str) -> None:
        self.put(over=reason)
        self.out.append(PowerOff(reason))

    def on_started(self, e: Started) -> None:
        self.put(key=e.key, boot_id=e.boot_id, dead_man=e.dead_man, dead_at=self.now + e.dead_man)
        self.put(
            seen=frozenset(c.id for c in e.commands), commands={c.id: c for c in e.commands if not c.told}
        )

    def on_signalled(self, e: Signalled) -> None:
        self.end("got " + e.name)

    def on_stepnamed(self, e: StepNamed) -> None:
        if self.s.boot == "running" and len(self.s.steps) < 100:
            self.put(steps=(*self.s.steps, e.name))

    def on_noticed(self, e: Noticed) -> None:
        self.put(notice=e.seconds, notice_told=False)
        self.out.append(Log(f"interrupted: the machine is taken back in {e.seconds:.0f} s"))

    def on_scriptended(self, e: ScriptEnded) -> None:
        self.put(boot="done")
        if e.code:
            how = f"was killed by signal {-e.code}" if e.code < 0 else f"ended with {e.code}"
            self.put(boot="failed", failure=f"the boot script {how}\n{e.tail}")
            self.out.append(Log(self.s.failure))

    def on_moved(self, e: Moved) -> None:
        self.put(moving=False, attached=e.assignment, attached_told="")

    def on_ended(self, e: Ended) -> None:
        failed = e.code and wanted(self.s) == e.assignment  # else it ended because we said so
        self.put(ended=e.assignment, failure=f"attaching ended with {e.code}\n{e.tail}" if failed else "")

    def on_commandis(self, e: CommandIs) -> None:
        c = self.s.commands.get(e.id)
        if e.id == self.s.attached:
            self.put(ready=e.id)
        if c and not c.ended:
            if not c.phase and c.timeout is not None and c.kill_at is None:
                self.command(e.id, kill_at=self.now + c.timeout)
            self.command(**vars(e))

    # got_… returns the pause on that line

    def on_answered(self, e: Answered) -> None:
        line, status = self.s.lines.get(e.line), e.status
        if not line or (e.what != "join" and (e.epoch != self.s.epoch or not self.s.joined)):
            return
        if status == 200 or (e.what == "output" and status == 409):
            try:
                self.line(e.line, False, 0, self.now)
                wait = getattr(self, "got_" + e.what)(e, line)
                if wait:
                    self.line(e.line, False, 0, self.now + wait)
                return
            except Exception:
                status = 0
        wait = e.retry_after or backoff(line.tries, self.chance)
        if e.line == "beat":
            wait = min(wait, self.s.beat_seconds)
        if e.what == "stream":
            if self.cut(status, self.now - line.due):
                return
            # Many agents find the server away in the same seconds: a backoff alone would bring them back so.
            wait += max(0.0, self.s.spread - State.spread) * self.chance
        self.line(e.line, False, line.tries + 1, self.now + wait)
        if not line.tries:
            said = f"the server answered {status}" if status else "the server did not answer"
            self.out.append(Log(f"{said}: {e.what}"))
        if (400 <= status < 500 and status not in (408, 409, 429)) or status == 507:  # no room, for long
            self.refused(e, line)

    def cut(self, status: int, after: float) -> bool:
        """Return whether the end of a stream is no failure: it worked, or it can't work here."""
        heard, unfit = self.s.streams, status in (404, 405) or (not status and after >= SILENCE)
        self.put(streams=False, polls=0 if heard else POLLS if unfit else self.s.polls)
        if heard or unfit:
            self.line("poll", False, 0, self.now + (self.s.spread * self.chance if heard else 0.0))
        if unfit and not heard:
            # Only a stream says that the interval became shorter.
            self.put(beat_seconds=min(self.s.beat_seconds, State.beat_seconds))
            self.out.append(Log(f"no stream here ({status}): polling"))
        return heard or unfit

    def on_heard(self, e: Heard) -> None:
        if e.epoch != self.s.epoch or not self.s.joined:
            return
        try:
            desired, beat = read_desired(e.body["desired"]), float(e.body["beat_seconds"])
            spread = min(max(float(e.body["spread"]), 0.0), 60.0)
        except Exception:
            return  # silence
        self.put(streams=True, beat_seconds=max(beat, 0.05), spread=spread)
        self.hear(desired)

    def refused(self, e: Answered, line: Line) -> None:
        if e.line == "join":
            if e.status in (403, 410):
                self.end(f"turned away ({e.status}): {e.body.get('detail')}")
        elif e.status == 401 or (e.status in (403, 404) and e.line[0] != "/"):
            self.put(joined=False)
        elif e.what == "output":
            self.command(e.line[1:], full=True)
        elif e.line[0] == "/":
            getattr(self, "got_" + e.what)(e, line)
        elif e.status == 410:
            self.end("this node is gone")
        elif "phase" in line.said:
            self.put(steps=self.s.steps[1:])
        elif "interrupted" in line.said:  # an older server
            self.put(notice_told=True)

    def got_join(self, e: Answered, line: Line) -> float:
        body, boot = e.body, e.body.get("boot") or {}
        desired, node_id, script = (
            read_desired(body["desired"]),
            name(body["node_id"]),
            boot.get("script") or "",
        )
        beat = max(float(body.get("beat_seconds") or 5), 0.05)
        if node_id != self.s.node_id:
            self.put(desired=Desired())
        # The server may have forgotten more than the token.
        self.put(
            joined=True, epoch=self.s.epoch + 1, node_id=node_id, token=str(body["token"]), beat_seconds=beat
        )
        self.put(boot_told=False, attached_told="", notice_told=False, behind=-1, lines={}, streams=False)
        self.line("beat", False, 0, self.now + beat * self.chance)
        self.out.append(Log("joined as " + node_id))
        if not self.s.boot and script:
            self.put(boot="running", steps=("",))
            self.out.append(StartBoot(script, boot.get("env") or {}))
        self.put(boot=self.s.boot or "done")
        self.hear(desired)
        return 1.0  # before joining anew

    def got_beat(self, e: Answered, line: Line) -> float:
        self.put(behind=int(e.body["version"]))
        if line.tries:  # the server is back
            self.put(lines={n: replace(x, due=min(x.due, self.now)) for n, x in self.s.lines.items()})
        return line.due - self.now

    def got_desired(self, e: Answered, line: Line) -> float:
        desired = read_desired(e.body)
        self.put(polls=max(0, self.s.polls - (e.line == "poll")))
        self.hear(desired)
        return 0.0 if desired.version > line.said["known"] else line.due - self.now  # no busy poll

    def got_stream(self, e: Answered, line: Line) -> float:
        raise ValueError

    def got_report(self, e: Answered, line: Line) -> float:
        desired, said = read_desired(e.body), line.said
        if "phase" in said:
            self.put(steps=self.s.steps[1:])
        elif "interrupted" in said:
            self.put(notice_told=True)
        elif "attached" in said:
            self.put(attached_told=said["attached"])
        elif "detached" not in said:
            self.put(boot_told=True)
        self.hear(desired)
        return GRACE if "detached" in said and news(self.s) == said else 0.0

    def got_kit(self, e: Answered, line: Line) -> float:
        s, program = self.s, str(e.body["program"])
        if wanted(s) == line.said["assignment"] and not s.attached and not s.moving:
            self.put(moving=True)
            self.out.append(Attach(s.desired.assignment, s.desired.run, program))
        return 0.0

    def got_output(self, e: Answered, line: Line) -> None:
        c, full = self.s.commands[e.line[1:]], bool(e.body.get("full"))
        has = min(max(int(e.body["offset"]), 0), c.size)
        if has == c.sent and not full:
            raise ValueError
        self.command(c.id, sent=has, full=full)

    def got_artifact(self, e: Answered, line: Line) -> None:
        self.command(e.line[1:], artifact=False)

    def got_state(self, e: Answered, line: Line) -> None:
        key, told = e.line[1:], line.said["state"]
        self.command(key, told=told)
        if told != "running":
            self.put(commands={k: c for k, c in self.s.commands.items() if k != key})
            self.put(lines={n: x for n, x in self.s.lines.items() if n != e.line})
            self.out.append(Forget(key))

    def hear(self, d: Desired) -> None:
        old = d.version < self.s.desired.version
        seconds = self.s.dead_man if old else d.dead_man
        self.put(dead_man=seconds, dead_at=self.now + seconds, desired=self.s.desired if old else d)
        self.out.append(Arm(seconds))
        if self.s.desired.directive == "stop":
            self.end("told to stop")

    def advance(self) -> None:
        if not self.s.over and self.now >= self.s.dead_at:
            self.end(f"dead man: no word for {self.s.dead_man:g} s")
        if not self.s.over:
            self.move()
            self.order()
            self.talk()

    def move(self) -> None:
        s = self.s
        if (
            s.boot == "done"
            and not s.moving
            and s.attached != wanted(s)
            and (s.attached or not s.desired.kit)
        ):
            self.put(moving=True)
            self.out.append(Detach(s.attached) if s.attached else Attach(wanted(s)))

    def order(self) -> None:
        d = self.s.desired
        here = d.directive in ("attach", "stay") and self.s.attached == d.assignment
        if here and not self.s.moving:  # told to stay: a person looks at what failed
            for order in d.commands:
                self.take(order, order["id"], bool(order.get("cancel")))
        for c in self.s.commands.values():
            if c.kill_at is not None and self.now >= c.kill_at and not c.ended:
                self.command(c.id, kill_at=self.now + GRACE, kills=c.kills + 1)
                self.out.append(KillCommand(c.id, c.kills > 0))

    def take(self, order: dict[str, Any], key: str, cancel: bool) -> None:
        c, s = self.s.commands.get(key), self.s
        if c and cancel and not c.kills:
            self.command(key, kill_at=self.now, timeout=None)
        elif key not in s.seen:
            c = Command(key, "exited", None, 15) if cancel else Command(key, timeout=order.get("timeout"))
            self.put(seen=s.seen | {key}, commands={**s.commands, key: c})
            if not cancel:
                self.out.append(StartCommand(order, s.attached, s.desired.run))

    def talk(self) -> None:
        for name, what, body in wants(self.s):
            line = self.s.lines.get(name, Line())
            if not line.busy and self.now >= line.due:
                due = self.now + (self.s.beat_seconds if what == "beat" else what == "desired")
                self.line(name, True, line.tries, due, body)
                self.out.append(Send(name, what, body, self.s.token, self.s.epoch))


# --- shell


class Proc(NamedTuple):
    parent: int
    group: int
    session: int
    state: str
    ticks: int = 0
    start: str = ""


def processes() -> dict[int, Proc]:
    found = {}
    if not LINUX:  # macOS: daemons may escape
        for row in subprocess.check_output(["ps", "-Ao", "pid=,ppid=,pgid=,stat="]).splitlines():
            f = row.decode().split()
            found[int(f[0])] = Proc(int(f[1]), int(f[2]), int(f[2]), f[3][0])
        return found
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", "rb", 0) as file:
                f = str(file.read(TAIL), errors="replace").rpartition(")")[2].split()
            found[int(pid)] = Proc(int(f[1]), int(f[2]), int(f[3]), f[0], sum(map(int, f[11:15])), f[19])
        except OSError:
            continue
    return found


def childless() -> bool:
    """Whether no process descends from us: orphans come to us, but not on macOS."""
    try:
        if LINUX:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def below(procs: dict[int, Proc], roots: Iterable[int]) -> set[int]:
    found: set[int] = set()
    fresh = set(roots)
    while fresh:
        found |= fresh
        fresh = {pid for pid, p in procs.items() if p.parent in fresh} - found
    return found


def marked(pid: int, *markers: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb", 0) as file:
            found = file.read().split(b"\0")
        return all(os.fsencode(marker) in found for marker in markers)
    except OSError:
        return False


def kill(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def opened(name: str, at: int | None = None) -> int:
    """Open a directory, never a link. Make one that its owner closed readable and writable."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        fd = os.open(name, flags, dir_fd=at)
    except PermissionError:
        shut = os.open(name, flags | getattr(os, "O_PATH", 0), dir_fd=at)
        try:
            os.chmod(f"/proc/self/fd/{shut}", 0o700)
        finally:
            os.close(shut)
        fd = os.open(name, flags, dir_fd=at)
    os.fchmod(fd, 0o700)
    return fd


def wipe(path: str, within: float = 60.0) -> bool:
    """Remove a tree; False if something is left. Every directory is moved to the top and emptied there, so
    that the tree's depth costs neither stack nor descriptors."""
    until = time.monotonic() + within
    try:
        top = opened(path)
    except OSError:  # a file or a link
        try:
            os.unlink(path)
        except OSError:
            pass
        return not os.path.lexists(path)
    try:
        while clear(top, top, until):
            pass
        os.rmdir(path)
    except OSError:
        pass
    finally:
        os.close(top)
    return not os.path.lexists(path)


def clear(fd: int, top: int, until: float) -> int:
    """Remove a directory's files and move its directories to the top, or empty them there; counts both."""
    done = 0
    with os.scandir(fd) as entries:
        for entry in entries:
            if time.monotonic() > until:
                return 0
            try:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=fd)
                else:
                    below = opened(entry.name, fd)
                    try:
                        if fd == top:
                            clear(below, top, until)
                            os.rmdir(entry.name, dir_fd=fd)
                        else:
                            os.rename(entry.name, os.urandom(9).hex(), src_dir_fd=fd, dst_dir_fd=top)
                    finally:
                        os.close(below)
                done += 1
            except OSError:
                continue
    return done


def inside(root: str, *names: str) -> bool:
    return (os.path.realpath(os.path.join(root, *names)) + "/").startswith(root + "/")


def unpack(archive: Any) -> None:
    """Unpack into the current directory."""
    root, count = os.getcwd(), bounded()
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in map(count, tar):
            linked = member.issym() and inside(root, os.path.dirname(member.name), member.linkname)
            if not (member.isfile() or member.isdir() or linked) or not inside(root, member.name):
                raise OSError(f"{member.name!r} leads out of the workspace")
            member.mode, member.uid, member.gid = member.mode & 0o777 | 0o600, os.getuid(), os.getgid()
            tar.extract(member, root, numeric_owner=True)


def pack(archive: Any, paths: list[str]) -> list[str]:
    """Pack the current directory. Return what can't be read and is left out."""
    root, count, left = os.getcwd(), bounded(), []
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        paths = [path for path in paths if inside(root, path) and os.path.lexists(os.path.join(root, path))]
        for path in paths:  # grows
            full = os.path.join(root, path)
            try:
                tar.add(full, path, False, filter=count)
                if os.path.isdir(full) and not os.path.islink(full):
                    paths += [os.path.join(path, name) for name in os.listdir(full)]
            except PermissionError:
                left.append(path)
    return left


def bounded() -> Callable[[tarfile.TarInfo], tarfile.TarInfo]:
    total = 0

    def count(member: tarfile.TarInfo) -> tarfile.TarInfo:
        nonlocal total
        total += member.size + 512
        if total > BULK_MAX:
            raise OSError(f"more than {BULK_MAX} bytes")
        return member

    return count


class Job:
    def __init__(self, path: str, assignment: str = "") -> None:
        self.path, self.assignment, self.pid, self.tail = path, assignment, 0, b""
        self.stop, self.over = threading.Event(), threading.Event()
        self.full = self.noted = False
        os.makedirs(os.path.dirname(path), 0o700, True)  # a job may have removed it
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.size = os.fstat(self.fd).st_size

    def append(self, data: bytes) -> None:
        self.tail = (self.tail + data)[-TAIL:]
        if self.full:
            return
        if self.size + len(data) > OUTPUT_MAX:
            data, self.full = data[: OUTPUT_MAX - self.size], True
        try:
            while data:
                done = os.pwrite(self.fd, data, self.size)
                self.size, data = self.size + done, data[done:]
        except OSError:
            self.full = True

    def drop(self) -> None:
        for path in (self.path, self.path + ".tgz", self.path + ".in"):
            wipe(path)  # by what comes first: what told its end, or detaching


class Link:
    def __init__(self, servers: list[str]) -> None:
        self.servers, self.url = servers, ""  # all links share the list, and ask the first one
        self.connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self.connection:
            self.connection.close()
            self.connection = None

    def leave(self) -> None:
        """Put this server last, for all links: each would take as long to find out that it is away."""
        self.close()
        self.servers.sort(key=self.url.__eq__)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str = "",
        timeout: float = 15.0,
        sink: Any = None,
        tell: Callable[[Any], None] | None = None,
        once: bool = False,  # the connection is not kept for the next call
    ) -> Any:
        headers = {"Authorization": "Bearer " + token} if token else {}
        if once:
            headers["Connection"] = "close"
        if isinstance(body, dict):
            headers["Content-Type"], body = "application/json", json.dumps(body).encode()
        answer: Any = (0, {}, 0.0)
        refused = 0
        for _ in range(len(self.servers) + 1):
            if self.url != self.servers[0]:
                self.close()
                self.url = self.servers[0]
            url, fresh = urlsplit(self.url), not self.connection
            try:
                if self.connection is None:
                    kind = getattr(http.client, url.scheme.upper() + "Connection")
                    self.connection = kind(url.hostname or "", url.port, timeout=GRACE)
                    self.connection.connect()
                self.connection.sock.settimeout(timeout)
                if hasattr(body, "seek"):
                    headers["Content-Length"] = str(body.seek(0, 2))
                    body.seek(0)
                path_there = url.path.rstrip("/") + "/api/v1/agent" + path
                with self.connection.sock.makefile("wb") as out:  # each send wakes the server
                    vars(self.connection)["send"] = out.write
                    self.connection.request(method, path_there, body, headers)
                response = self.connection.getresponse()
                if tell and response.status == 200:
                    return self.follow(response, tell)
                answer = self.read(response, sink)
                if once:
                    self.close()
                refused += 1
                if answer[0] < 500:
                    return answer
                self.leave()
                if refused == len(self.servers):
                    break
            except Exception as error:
                late = "timed out" in str(error)
                self.leave() if fresh or late else self.close()
                if late:
                    break
        return answer

    def follow(self, answer: http.client.HTTPResponse, tell: Callable[[Any], None]) -> Any:
        """Tell each line, until the stream ends or is silent for too long."""
        began = time.monotonic()
        try:
            row = b"\n"
            while row.endswith(b"\n"):
                row, began = answer.readline(8 * MIB), time.monotonic()
                tell(json.loads(row))
        except (OSError, http.client.HTTPException, ValueError, TypeError):
            pass
        self.close()
        if time.monotonic() - began >= SILENCE:
            self.leave()  # another server may speak
        return 0, {}, 0.0

    def read(self, answer: http.client.HTTPResponse, sink: Any) -> Any:
        if (answer.length or 0) > BULK_MAX:
            self.close()
            return 413, {}, 0.0
        if sink and answer.status == 200:
            sink.seek(0)
            sink.truncate()
            shutil.copyfileobj(answer, sink, CHUNK)
            sink.flush()
            return 200, {}, 0.0
        body, pause = answer.read(8 * MIB), answer.getheader("Retry-After", "")
        if not answer.isclosed():
            self.close()
        status, wait = answer.status, float(pause) if pause.isdigit() else 0.0
        try:
            return status, dict(json.loads(body)), wait
        except (ValueError, TypeError):
            return status if status != 200 else 0, {}, wait


class Agent:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.dir = options, os.path.abspath(options.dir)
        self.wrap: list[str] = json.loads(options.wrap)
        self.spawning, self.stopping, self.turn = threading.Lock(), False, threading.Condition()
        self.children: set[int] = set()
        self.kept: set[Any] = set()  # the boot script's: some have yet to call setsid
        self.jobs: dict[str, Job] = {}
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.roles: dict[str, queue.SimpleQueue[Any]] = {}
        self.output, self.active, self.ticks, self.received = 0, 0, 0, 0
        self.state, self.dead_at, self.ran = State(), 0.0, True
        self.do_arm(Arm(options.dead_man))
        self.spawn(self.watch_time)  # before anything that could hang

    def path(self, *names: str) -> str:
        return os.path.join(self.dir, *names)

    def log(self, text: str) -> None:
        try:
            sys.stderr.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) + text + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass

    def spawn(self, work: Callable[..., Any], *given: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=given, daemon=True)
        thread.start()
        return thread

    def do_arm(self, e: Arm) -> None:
        with self.turn:
            before, self.dead_at = self.dead_at, time.monotonic() + e.seconds
            if self.dead_at < before:  # else the watch looks again in time
                self.turn.notify()
        if self.options.switch:
            self.set_switch(e.seconds + MARGIN)

    def set_switch(self, seconds: float) -> None:
        """Set the machine's own switch: a file that says how long it may be up."""
        try:
            with open("/proc/uptime") as file:
                until = float(file.read().split()[0]) + seconds
            new = self.options.switch + ".new"
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(f"{until:.0f}\n")
            os.replace(new, self.options.switch)
        except (OSError, ValueError) as error:
            self.log(f"cannot move the switch: {error}")

    def watch_notice(self) -> None:
        while True:
            try:
                said = json.loads(metadata("meta-data/spot/instance-action"))
                ends = calendar.timegm(time.strptime(said["time"], "%Y-%m-%dT%H:%M:%SZ"))
                return self.events.put(Noticed(max(0.0, ends - time.time())))
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                time.sleep(GRACE)

    def watch_time(self) -> None:
        with self.turn:
            while self.dead_at > time.monotonic():
                self.turn.wait(min(self.dead_at - time.monotonic(), 3600.0))
        self.log("dead man: not renewed")
        self.spawn(self.slay_all).join(15.0)
        self.exit(1)

    def exit(self, code: int) -> None:
        try:
            subprocess.run(self.options.poweroff, shell=True, timeout=60.0, check=False)
        except Exception as error:
            self.log(f"cannot power off: {error}")
        if code and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(code)

    def slay_all(self) -> None:
        with self.spawning:
            self.stopping = True
        self.slay(lambda: self.hunt(os.getpid()))

    def end(self, reason: str, code: int) -> None:
        self.log("stopping: " + reason)
        self.slay_all()
        for name in ("work", "spool", "home"):
            wipe(self.path(name))
        self.exit(code)

    def crash(self, *_: Any) -> None:
        self.end("it crashed: " + traceback.format_exc(), 1)

    def do_poweroff(self, e: PowerOff) -> None:
        self.end(e.reason, 0)

    def do_log(self, e: Log) -> None:
        self.log(e.text)

    def run(self) -> None:
        os.makedirs(self.dir, mode=0o700, exist_ok=True)
        try:
            self.journal = os.open(self.path("journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(self.journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.log("cannot start: another agent runs in " + self.dir)
            os._exit(2)
        threading.excepthook = self.crash
        try:
            self.prepare()
            self.loop()
        except BaseException:
            self.crash()

    def prepare(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda n, _: self.events.put(Signalled(signal.Signals(n).name)))
        self.proof = proof_source(self.options)
        if LINUX:
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: jobs of this user can't read our token
        self.slay_all()
        self.stopping = False
        wipe(self.path("work"))
        for name in ("work", "home", "home.tmp", "spool", "bin"):
            os.makedirs(self.path(name), mode=0o700, exist_ok=True)
        wrapper, steps = self.path("bin", "muster-agent"), self.path("bin", "steps")
        with open(wrapper, "w") as file:
            file.write(f"#!/bin/sh\nexec '{sys.executable}' '{os.path.abspath(__file__)}' \"$@\"\n")
        os.chmod(wrapper, 0o700)
        if os.path.exists(steps):
            os.unlink(steps)
        os.mkfifo(steps, 0o600)
        self.spawn(self.watch_steps, os.open(steps, os.O_RDWR))
        self.made = self.tops()
        for role in ("beat", "poll", "report", "upload", "bulk"):
            self.roles[role] = queue.SimpleQueue()
            self.spawn(self.talk, self.roles[role], Link(self.options.server))
        if self.options.identity == "ec2":
            self.spawn(self.watch_notice)

    def loop(self) -> None:
        event: Any = Started(os.urandom(16).hex(), os.urandom(16).hex(), self.options.dead_man, self.recall())
        while True:
            self.state, effects = step(self.state, event, time.monotonic(), random.random())
            for effect in effects:
                perform = getattr(self, "do_" + type(effect).__name__.lower())
                self.spawn(perform, effect) if effect.slow else perform(effect)
            try:
                event = self.events.get(timeout=min(max(wake(self.state) - time.monotonic(), 0.0), 3600.0))
                event = event() if callable(event) else event
            except queue.Empty:
                event = Tick()

    def recall(self) -> tuple[Command, ...]:
        entries: dict[str, Command] = {}
        with open(self.path("journal"), errors="replace") as file:
            for row in file:
                try:
                    entry = Command(**json.loads(row))
                    entries[entry.id] = entry
                except (ValueError, TypeError):  # torn by a crash
                    continue
        for key, entry in entries.items():
            if not entry.told:
                self.jobs[key] = Job(self.path("spool", key))
                entries[key] = replace(entry, size=self.jobs[key].size)
        return tuple(entries.values())

    def note(self, **entry: Any) -> bool:
        try:
            os.write(self.journal, f"\n{json.dumps(entry)}\n".encode())
            os.fsync(self.journal)
            return True
        except OSError as error:
            self.log(f"cannot journal: {error}")
            return False

    def do_send(self, e: Send) -> None:
        role = "bulk" if e.what == "artifact" else "upload" if e.line[0] == "/" else e.line
        self.roles["report" if role == "join" else role].put(e)

    def talk(self, sends: Any, link: Link) -> None:
        while True:
            e = sends.get()
            self.events.put(Answered(e.line, e.what, e.epoch, *self.ask(e, link)))

    def ask(self, e: Send, link: Link) -> Any:
        body: Any = e.body
        if e.what == "join":
            try:
                body = {**body, "proof": self.proof()}
            except (OSError, http.client.HTTPException) as error:
                self.log(f"cannot prove who we are: {error}")
                return 0, {}, 0.0
            return link.call("POST", "/join", body)
        if e.what == "beat":
            once = self.state.beat_seconds >= SELDOM
            return link.call("POST", "/beat", {"activity": self.activity()}, e.token, once=once)
        if e.what == "stream":
            return link.call(
                "GET",
                "/stream",
                None,
                e.token,
                SILENCE,
                tell=lambda line: self.events.put(Heard(e.epoch, line)),
            )
        if e.what == "desired":
            path = "/desired?known={known}&timeout={timeout}".format(**body)
            return link.call("GET", path, None, e.token, body["timeout"] + 10)
        if e.what in ("report", "kit"):
            return link.call("POST", "/" + e.what, body, e.token)
        path, job = f"/commands{e.line}/{e.what}", self.jobs.get(e.line[1:])
        try:
            if job and e.what == "artifact":
                with open(job.path + ".tgz", "rb") as file:
                    return link.call("PUT", path, file, e.token)
            if job and e.what == "output":
                path, body = f"{path}?offset={body['offset']}", os.pread(job.fd, CHUNK, body["offset"])
        except OSError:  # wiped
            return 404, {}, 0.0
        return link.call("POST", path, body, e.token)

    def activity(self) -> int:
        procs = {} if childless() else self.reap()
        me, ticks, received = os.getpid(), int(sum(os.times()[2:4]) * 100), 0
        ticks += sum(procs[pid].ticks for pid in below(procs, [me]) if pid != me)
        try:
            with open(os.devnull if self.options.shared_net else "/proc/net/dev") as file:
                received = sum(int(f[1]) for f in map(str.split, file) if f[0][-1] == ":" and f[0] != "lo:")
        except OSError:
            pass
        gained = received - self.received
        self.active += max(0, ticks - self.ticks) + (gained if gained > NOISE else 0)
        self.ticks, self.received = ticks, received
        return self.active + self.output

    def reap(self) -> dict[int, Proc]:
        with self.spawning:
            procs = processes()
            for pid, p in procs.items():
                if p.parent == os.getpid() and p.state == "Z" and pid not in self.children:
                    try:
                        os.waitpid(pid, os.WNOHANG)
                    except OSError:
                        pass
        return procs

    def hunt(self, root: int, *markers: str, kept: Any = frozenset()) -> set[int]:
        procs = processes()
        found = below(procs, [pid for pid, p in procs.items() if root in (pid, p.group, p.session)])
        found -= below(procs, [pid for pid, p in procs.items() if kept & {p.session, (pid, p.start)}])
        found |= below(
            procs, [pid for pid in procs if marked(pid, "MUSTER_HOME=" + self.path("home"), *markers)]
        )
        return {pid for pid in found if procs[pid].state not in "ZX" and pid != os.getpid()}

    def slay(self, hunt: Callable[[], set[int]]) -> bool:
        until = time.monotonic() + 10
        while True:
            left = hunt()
            if not left or time.monotonic() > until:
                return not left
            kill(left, signal.SIGSTOP)  # so that none forks
            kill(left, signal.SIGKILL)
            time.sleep(0.01)
            self.reap()

    def start(
        self, job: Job, argv: list[str], cwd: str, *shown: str, late: bool = False, **given: Any
    ) -> Any:
        """Start a program in its own sandbox, where the machine has one. It may write only to `cwd` and its
        .tmp."""
        if self.wrap:
            tmp = cwd + ".tmp"
            binds = "--bind", tmp, "/tmp", "--bind", cwd, cwd, "--bind", tmp, tmp, *shown  # noqa: S108
            run = "--chdir", cwd, "--remount-ro", "/", "--", "/bin/sh", "-c", 'exec "$0" "$@"'
            at = self.wrap.index("")  # where they belong: later mounts lie on earlier ones
            argv = [*self.wrap[:at], *binds, *self.wrap[at + 1 :], *run, *argv]
            # keyctl, for this thread and its children: what a run puts into its session keyring goes with it.
            ctypes.CDLL(None).syscall({"x86_64": 250, "aarch64": 219}.get(os.uname().machine, -1), 1, None)
        with self.spawning:
            if self.stopping or (job.stop.is_set() and not late):
                raise InterruptedError
            self.ran = True
            process = subprocess.Popen(argv, cwd=cwd, start_new_session=True, **given)
            job.pid = process.pid
            self.children.add(job.pid)
        return process

    def aside(self, job: Job, work: str, verb: str, names: Any, **given: Any) -> str:
        """Run our own verb as a part of the job, with the job's rights. Return its complaint."""
        argv = [sys.executable, os.path.abspath(__file__), verb, json.dumps(names)]
        env = self.env(work, {}, MUSTER_ASSIGNMENT=job.assignment)
        late = verb == "pack"  # also of a command that was stopped
        process = self.start(job, argv, work, late=late, env=env, stderr=subprocess.PIPE, **given)
        said = str(process.communicate()[1], errors="replace").strip()[-TAIL:]
        self.children.discard(process.pid)
        if process.returncode not in (0, LEFT_OUT):
            raise OSError(said or f"{verb} ended with {process.returncode}")
        return said

    def execute(
        self,
        key: str,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        job: Job,
        *shown: str,
        given: str = "",
        source: str = os.devnull,
    ) -> tuple[int, int]:
        """Wait until the main process ends. Daemons may keep its output open."""
        stdin = subprocess.PIPE if given else os.open(source, os.O_RDONLY)
        output, inlet = os.pipe()
        bell, ring = os.pipe()
        status, entry = os.pipe()
        shown = *shown, "--json-status-fd", str(entry)
        passed = (entry,) if self.wrap else ()
        try:
            process = self.start(
                job, argv, cwd, *shown, env=env, stdin=stdin, stdout=inlet, stderr=inlet, pass_fds=passed
            )
        except BaseException:
            for fd in (output, bell, ring, status):
                os.close(fd)
            raise
        finally:
            os.close(inlet)
            os.close(entry)
            if stdin >= 0:
                os.close(stdin)

        def wait() -> None:
            try:
                process.communicate(given.encode() or None)
            finally:
                os.close(ring)

        def grew() -> Event:
            job.noted = False
            return CommandIs(key, "running", job.size)

        self.spawn(wait)
        poll, late = select.poll(), 0
        poll.register(output, select.POLLIN)
        poll.register(bell, select.POLLIN)
        while late <= MIB:
            ready = dict(poll.poll())
            data = os.read(output, 65536) if output in ready else b""
            job.append(data)
            self.output += len(data)
            if data and not job.noted:  # one event at a time
                job.noted = True
                self.events.put(grew)
            if bell in ready:
                late += len(data) or OUTPUT_MAX
            elif not data:
                poll.unregister(output)
        os.close(bell)
        self.children.discard(job.pid)
        code = process.returncode
        if not entered(status) and self.wrap and code > 0 and not job.stop.is_set():
            os.close(output)
            raise OSError("its sandbox could not start; ask `muster doctor` on the node's machine")
        if self.wrap and job.stop.is_set() and code > 128:  # how a sandbox says that its job was killed
            code = 128 - code
        return code, output

    def drain(self, output: int) -> None:
        while os.read(output, 65536):
            pass
        os.close(output)

    def env(self, home: str, given: dict[str, str], **more: str) -> dict[str, str]:
        path = os.environ.get("PATH") or os.defpath
        return {
            "PATH": path,
            "HOME": home,
            "LANG": "C.UTF-8",
            **given,
            "MUSTER_SLOT": os.environ.get("MUSTER_SLOT", ""),
            "MUSTER_NODE": self.state.node_id,
            "MUSTER_HOME": self.path("home"),
            **more,
        }

    def do_startboot(self, e: StartBoot) -> None:
        tools, home, job = self.path("bin"), self.path("home"), Job(self.path("log"))
        script = self.path("bin", "boot")
        try:
            with open(script, "w") as file:
                file.write(e.script)
            os.chmod(script, 0o700)
            env = self.env(home, e.env, MUSTER_STEPS=self.path("bin", "steps"))
            env["PATH"] = f"{tools}:{env['PATH']}"
            argv = [script] if e.script.startswith("#!") else ["/bin/sh", script]
            code, output = self.execute("", argv, env, home, job, "--ro-bind", tools, tools)
        except Exception as error:
            lacks = isinstance(error, FileNotFoundError) and "no interpreter: " + e.script.split("\n")[0]
            self.events.put(ScriptEnded(127, f"cannot start it: {lacks or error}"))
            return
        tail, procs, self.made = job.tail.decode(errors="replace"), processes(), self.tops()
        for pid in below(procs, [os.getpid()]) - {os.getpid()}:
            self.kept |= {procs[pid].session, (pid, procs[pid].start)}
        self.events.put(ScriptEnded(code, tail))
        self.drain(output)

    def watch_steps(self, fd: int) -> None:
        rest = b""
        while True:
            *lines, rest = (rest[-TAIL:] + os.read(fd, TAIL)).split(b"\n")
            for line in lines:
                name = "".join(filter(str.isprintable, line.decode(errors="replace")))[:200]
                if self.state.boot == "running":
                    self.log("step: " + name)
                    self.events.put(StepNamed(name))

    def do_attach(self, e: Attach) -> None:
        self.ran = False
        try:
            for name in (e.assignment, e.assignment + ".tmp"):
                os.mkdir(self.path("work", name), 0o700)
            self.events.put(Moved(e.assignment))
            if e.program:
                job = self.jobs[e.assignment] = Job(self.path("spool", e.assignment), e.assignment)
                self.spawn(self.host, e, self.path("work", e.assignment), job)
        except OSError as error:
            self.events.put(Ended(e.assignment, 126, f"cannot make the workspace: {error}"))
            self.events.put(Moved(""))

    def host(self, e: Attach, work: str, job: Job) -> None:
        """Start a host program. Its first output means that it is ready."""
        code, output = 126, -1
        try:
            env = self.env(work, {"TMPDIR": work + ".tmp"}, MUSTER_RUN=e.run, MUSTER_ASSIGNMENT=e.assignment)
            code, output = self.execute(e.assignment, [sys.executable, "-"], env, work, job, given=e.program)
        except Exception as error:
            job.append(str(error).encode())
        self.events.put(Ended(e.assignment, code, job.tail.decode(errors="replace")))
        job.over.set()
        if output >= 0:
            self.drain(output)

    def tops(self) -> set[str]:
        tops = self.path("work"), *os.environ.get("MUSTER_WIPE", self.path("home")).split("\n")
        for top in tops:
            if not os.path.isdir(top):
                if os.path.lexists(top):
                    os.remove(top)
                os.makedirs(top, 0o700)
        return {os.path.join(t, name) for t in tops if not os.path.islink(t) for name in os.listdir(t)}

    def do_detach(self, e: Detach) -> None:
        job = self.jobs.get(e.assignment)
        if job:  # a signal that it can catch first: it may have to say goodbye
            self.do_killcommand(KillCommand(e.assignment, False))
            job.over.wait(GRACE)
        while not self.cleared(e.assignment):
            self.log("cannot prove that nothing is left of " + e.assignment)
            time.sleep(GRACE)
        if job:
            os.close(self.jobs.pop(e.assignment).fd)
        self.events.put(Moved(""))

    def cleared(self, assignment: str) -> bool:
        def left() -> set[int]:
            marker = "MUSTER_ASSIGNMENT=" + assignment
            return self.hunt(os.getpid(), marker, kept=self.kept) if self.ran or not childless() else set()

        jobs = [job for job in list(self.jobs.values()) if job.assignment == assignment]
        with self.spawning:
            for job in jobs:
                job.stop.set()
        gone = self.slay(left)
        for job in jobs:
            gone = job.over.wait(GRACE) and gone
            job.drop()
        for path in self.tops() - self.made:
            gone = wipe(path) and gone
        return gone and not left()

    def do_startcommand(self, e: StartCommand) -> None:
        order, key = e.order, e.order["id"]
        work = self.path("work", e.assignment) if e.assignment else self.path("home")
        code, output, artifact, traffic = 126, -1, False, None
        if not self.note(id=key, phase="lost"):
            self.events.put(CommandIs(key, "exited", code=126))
            return
        job = self.jobs[key] = Job(self.path("spool", key), e.assignment)
        if self.state.moving or self.state.attached != e.assignment:  # detaching didn't see it
            job.stop.set()
        try:
            source = os.devnull
            if order.get("archive"):
                with open(self.fetch(job, name(order["archive"]), ".tgz"), "rb") as file:
                    self.aside(job, work, "unpack", [], stdin=file)
            if order.get("stdin"):
                source = self.fetch(job, name(order["stdin"]), ".in")
            env = self.env(work, {"TMPDIR": work + ".tmp", **(order.get("env") or {})})
            env.update(MUSTER_RUN=e.run, MUSTER_ASSIGNMENT=e.assignment, MUSTER_COMMAND=key)
            self.events.put(CommandIs(key, "running", job.size))
            if order.get("terminal"):
                code, traffic = self.part(job, "terminal")["serve"](self, order, env, work, job)
            else:
                code, output = self.execute(key, order["argv"], env, work, job, source=source)
            if job.stop.is_set():
                self.slay(lambda: self.hunt(job.pid, "MUSTER_COMMAND=" + key))
            if order.get("collect"):
                with open(job.path + ".tgz", "wb") as file:
                    said = self.aside(
                        job, work, "pack", order["collect"], stdin=subprocess.DEVNULL, stdout=file
                    )
                artifact = True
                if said:
                    raise OSError(said)
        except InterruptedError:
            code = -15
        except Exception as error:
            code = 127 if isinstance(error, FileNotFoundError) and output < 0 else code
            what = "run it" if output < 0 else "bring back the results"
            job.append(f"[muster-agent: cannot {what}: {error}]\n".encode(errors="replace"))
        how = (None, -code) if code < 0 else (code, None)
        end = CommandIs(key, "exited", job.size, artifact, how[0], how[1], traffic)
        self.note(id=key, phase="exited", code=end.code, signal=end.signal)
        self.events.put(end)
        job.over.set()
        if output >= 0:
            self.drain(output)

    def part(self, job: Job, name: str) -> dict[str, Any]:
        """Load a part of ourselves that few nodes need: the server has it."""
        found: dict[str, Any] = {}
        with open(self.fetch(job, name, ".in")) as file:
            exec(file.read(), found)  # noqa: S102 — as trusted as this file, and from where it came
        return found

    def fetch(self, job: Job, blob: str, ending: str) -> str:
        link, tries = Link(self.options.server), 0
        with open(job.path + ending, "wb") as file:
            while not job.stop.is_set():
                status = link.call("GET", "/blobs/" + blob, None, self.state.token, sink=file)[0]
                if status == 200:
                    link.close()
                    return str(file.name)
                if 400 <= status < 500 and status not in (401, 408, 429):
                    raise OSError(f"no archive {blob} ({status})")
                job.stop.wait(backoff(tries, random.random()))
                tries += 1
        raise InterruptedError

    def do_killcommand(self, e: KillCommand) -> None:
        job = self.jobs.get(e.id)
        if not job:
            return
        with self.spawning:
            job.stop.set()
        if job.pid and not job.over.is_set():
            pids = self.hunt(job.pid, "MUSTER_COMMAND=" + e.id)
            if self.wrap and not e.hard:
                pids.discard(job.pid)  # the sandbox itself: it ends with the job
            kill(pids, signal.SIGKILL if e.hard else signal.SIGTERM)

    def do_forget(self, e: Forget) -> None:
        job = self.jobs.pop(e.id, None)
        if job:
            job.drop()
            os.close(job.fd)
        self.note(id=e.id, told="all")


def metadata(path: str) -> str:
    """Read EC2's metadata with a session token. Raises OSError if there is none."""
    url = urlsplit(os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or "http://169.254.169.254")
    link, base, header = (
        http.client.HTTPConnection(url.hostname or "", url.port, timeout=GRACE),
        url.path.rstrip("/") + "/latest/",
        "X-aws-ec2-metadata-token",
    )
    try:
        link.request("PUT", base + "api/token", headers={header + "-ttl-seconds": "60"})
        token = link.getresponse().read(TAIL).decode()
        link.request("GET", base + path, headers={header: token})
        answer = link.getresponse()
        if answer.status != 200:
            raise OSError(f"the metadata service answered {answer.status}")
        return answer.read(CHUNK).decode()
    finally:
        link.close()


def entered(status: int) -> bool:
    """Whether a sandbox that has ended had started its program. Others may hold this pipe open."""
    os.set_blocking(status, False)
    with open(status, "rb", 0) as file:
        return b"exit-code" in (file.read(TAIL) or b"")


def proof_source(options: argparse.Namespace) -> Callable[[], str]:
    if options.identity == "ec2":
        return lambda: "ec2:" + "".join(metadata("dynamic/instance-identity/rsa2048").split())
    with open(options.secret_fd, "rb") as file:
        secret = file.read(TAIL).decode().strip()
    random.seed()  # a machine restored from a snapshot shares its memory with others up to here
    return lambda: str(options.proof_prefix) + secret


def main() -> None:
    parser = argparse.ArgumentParser(prog="muster-agent")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("--server", action="append", required=True)
    run.add_argument("--secret-fd", type=int)
    run.add_argument("--dead-man", type=float, default=1740.0)
    for flag in ("--dir", "--proof-prefix", "--poweroff", "--identity", "--switch"):
        run.add_argument(flag, default="")
    run.add_argument("--shared-net", action="store_true")
    run.add_argument("--wrap", default="[]")
    for verb in ("step", "pack", "unpack"):
        verbs.add_parser(verb).add_argument("name")
    options = parser.parse_args()
    if options.verb == "run":
        Agent(options).run()
    try:
        act(options.verb, options.name)
    except (KeyError, OSError, tarfile.TarError, ValueError) as error:
        sys.exit(f"cannot {'name a step' if options.verb == 'step' else options.verb}: {error}")


def act(verb: str, name: str) -> None:
    if verb == "step":
        with open(os.open(os.environ["MUSTER_STEPS"], os.O_WRONLY | os.O_NONBLOCK), "w") as file:
            file.write(name + "\n")
    elif verb == "unpack":
        unpack(sys.stdin.buffer)
    else:
        left = pack(sys.stdout.buffer, json.loads(name))
        if left:
            sys.stderr.write(f"can't read {left[:9]}")
            sys.exit(LEFT_OUT)


if __name__ == "__main__":
    main()
