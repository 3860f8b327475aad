#!/usr/bin/env python3
"""A provider for Muster in one file: its machines are processes of this machine.

    [command.local]
    executable = "/path/to/processes.py"
    config = { directory = "/var/tmp/machines", capacity = 5 }

Copy it, and replace `start`, `alive` and `end` with calls of your cloud. The protocol is in
docs/provider-protocol.md; `muster provider check ./processes.py` tries whether yours keeps its promises.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HELLO = {
    "protocols": [1],
    "name": "processes",
    "version": "1",
    "features": ["idempotent", "batch", "console", "spot"],
    "visibility_window": 0,
    "call_timeout": 30,
    "types": [{"name": "process.small", "resource_class": "small"}],
}


class Failed(Exception):
    def __init__(self, error_class, message):
        self.answer = {"error": {"class": error_class, "message": message}}


def launch(asked, root):
    """Write down what will be made, then make it. A repeat reads what was written."""
    note = root / f"{asked['launch']}.launch"
    if not note.exists():
        room = asked["config"].get("capacity", 5) - sum(alive(each) for each in root.glob("*/pid"))
        names = [each["name"] for each in asked["machines"]][: max(0, room)]
        write(note, {"fingerprint": asked["fingerprint"], "names": names, "usage": asked["usage"]})
    noted = json.loads(note.read_text())
    if noted["fingerprint"] != asked["fingerprint"]:
        raise Failed("launch_spent", f"{asked['launch']} was asked for with other machines")
    for machine in asked["machines"]:
        place = root / machine["name"]
        if machine["name"] in noted["names"] and not (place / "pid").exists():
            start(place, machine["user_data"], noted["usage"])
    made = [seen(root / name) for name in noted["names"]]
    if len(made) == len(asked["machines"]):
        return {"machines": made}
    return {"machines": made, "reason": "capacity", "message": f"there was room for {len(made)}"}


def list_machines(asked, root):
    found = sorted(each.parent for each in root.glob(f"{asked['prefix']}*/pid") if alive(each))
    return {"machines": [seen(each) for each in found]}


def describe(asked, root):
    return {"machines": [seen(root / each) for each in asked["ids"] if known(root, each)]}


def console(asked, root):
    if not known(root, asked["id"]):
        return {"text": None}
    text = (root / asked["id"] / "console").read_text(errors="replace")
    return {"text": "\n".join(text.splitlines()[-asked["lines"] :])}


def terminate(asked, root):
    for each in asked["ids"]:
        if known(root, each):
            end(root / each)
    return {}


# --- what your cloud does instead ------------------------------------------------------------------


def start(place, user_data, usage):
    place.mkdir(exist_ok=True)
    write(place / "usage", usage)
    environment = {**os.environ, "MUSTER_MACHINE_DIR": str(place), "MUSTER_POWEROFF": "kill -9 0"}
    with (place / "console").open("ab") as output, (place / "lock").open("w") as lock:
        # The process and its children hold the lock: the machine lives for as long as one of them does.
        fcntl.flock(lock, fcntl.LOCK_EX)
        machine = subprocess.Popen(
            ["/bin/bash", "-c", user_data],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[lock.fileno()],
            env=environment,
            start_new_session=True,
        )
    write(place / "pid", machine.pid)


def alive(pid_file):
    with (pid_file.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def end(place):
    if alive(place / "pid"):
        os.killpg(json.loads((place / "pid").read_text()), signal.SIGKILL)


# ---------------------------------------------------------------------------------------------------


def known(root, machine_id):
    return "/" not in machine_id and (root / machine_id / "pid").exists()


def seen(place):
    state = "running" if alive(place / "pid") else "gone"
    usage = json.loads((place / "usage").read_text())
    return {"id": place.name, "name": place.name, "state": state, "type": "process.small", "usage": usage}


def write(path, value):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.replace(path)


VERBS = {
    "launch": launch,
    "list": list_machines,
    "describe": describe,
    "console": console,
    "terminate": terminate,
}


def main():
    asked, verb = json.load(sys.stdin), sys.argv[-1]
    if verb == "hello":
        return HELLO
    root = Path(asked["config"].get("directory", "/var/tmp/muster-processes"))
    root.mkdir(parents=True, exist_ok=True)
    with (root / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            return VERBS[verb](asked, root)
        except Failed as failed:
            return failed.answer


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
