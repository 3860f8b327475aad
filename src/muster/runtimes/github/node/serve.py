"""Runs one Actions runner on a node, for Python 3.8 or later. Ends when the runner ends.

Says one word when the runner listens for jobs, and nothing before, except for why it failed. The secret comes
with `given` and reaches the runner in the environment of the one program that reads it and strikes it out;
no command line, no file of ours and no job's environment ever holds it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import Any

LISTENS = "Listening for Jobs"
TAIL = 20
CONFIGURING = 90


def linked(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
        return target
    except OSError:  # another file system, or one without links
        return str(shutil.copy2(source, target, follow_symlinks=False))


def configured(root: str, given: dict[str, Any], env: dict[str, str]) -> None:
    """Several jobs until release: the runner registers itself."""
    done = subprocess.run(
        [os.path.join(root, "config.sh"), *given["arguments"]],
        env={**env, "ACTIONS_RUNNER_INPUT_TOKEN": given["token"]},
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=CONFIGURING,
        check=False,
    )
    if done.returncode:
        fail("the runner could not be configured", done.stdout.decode(errors="replace").splitlines())


def fail(what: str, lines: list[str]) -> None:
    print("\n".join([what, *lines[-TAIL:]]), flush=True)
    sys.exit(1)


def main(given: dict[str, Any]) -> None:
    source = given["path"] or os.path.join(os.environ["MUSTER_HOME"], "actions-runner")
    root = os.path.join(os.getcwd(), "actions-runner")
    shutil.copytree(source, root, symlinks=True, copy_function=linked)
    env = {**os.environ, "RUNNER_ALLOW_RUNASROOT": "1", "RUNNER_MANUALLY_TRAP_SIG": "1"}
    if "jit" not in given:
        configured(root, given, env)
    secret = {"ACTIONS_RUNNER_INPUT_JITCONFIG": given["jit"]} if "jit" in given else {}
    runner = subprocess.Popen(
        [os.path.join(root, "run.sh")],
        env={**env, **secret},
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    secret.clear()
    # It was told to end together with us, and we go when it has.
    signal.signal(signal.SIGTERM, lambda *_: None)
    lines: list[str] = []
    ready = False
    for row in runner.stdout or ():
        lines = [*lines[-TAIL:], row.decode(errors="replace").rstrip()]
        if LISTENS in lines[-1] and not ready:
            ready = True
            print("listening", flush=True)
    code = runner.wait()
    if not ready:
        fail(f"the runner ended with {code} before it listened for jobs", lines)
    sys.exit(code and 1)
