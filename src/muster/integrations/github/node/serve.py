"""Run one Actions runner on a node, for Python 3.8 or later. Ends when the runner ends.

The program prints one word when the runner listens for jobs, and before that only why it failed. The secret
comes with `given`. It reaches the runner in the environment of the one program that reads it and removes it.
No command line, no file of ours and no job's environment ever holds it.

On a machine of its own, the runner is another user than the agent. So jobs can't read or change the agent's
files, nor the runner's files that the next run will use. That user's home is the workspace, also for programs
that ask the system for it (OpenSSH). What they leave there goes with the workspace.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

LISTENS = "Listening for Jobs"
TAIL = 20
CONFIGURING = 90
MEANINGS = {
    2: ": it met an error that may pass",
    3: ": it updates itself; give runners of this kind the newest runner_version",
    4: ": it updates itself; give runners of this kind the newest runner_version",
    5: ": a runner of the same name has a session; it ends by itself after some minutes",
    6: ": GitHub changed its configuration; the next one has the new one",
    7: ": GitHub refuses its version; set runner_version to the newest release",
}
BUSY = 8
"""What usermod ends with where the user has processes since the boot: then its home stays where it is."""


def linked(source: str, target: str) -> str:
    """Link the runner's files if they are ours, because then only we can change them; else copy."""
    try:
        if os.lstat(source).st_uid != os.geteuid():
            raise PermissionError(source)
        os.link(source, target, follow_symlinks=False)
        return target
    except OSError:  # another's, on another file system, or on one without links
        return str(shutil.copy2(source, target, follow_symlinks=False))


def handed_to(user: pwd.struct_passwd, *owns: str) -> Callable[[], None]:
    """Give these paths to the user; return what turns a new process into that user."""
    for path in owns:
        os.chown(path, user.pw_uid, user.pw_gid)
    above = os.path.dirname(os.getcwd())
    while not os.stat(above).st_mode & 0o001:  # to pass, not to look around
        os.chmod(above, os.stat(above).st_mode | 0o011)  # noqa: S103 — what is in there is for its owner
        above = os.path.dirname(above)

    def become() -> None:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        os.umask(0o022)

    return become


def house(name: str, home: str) -> None:
    """Move the user's home to here."""
    moved = subprocess.run(
        ["usermod", "-d", home, name],  # noqa: S607 — from where the boot had useradd
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if moved.returncode not in (0, BUSY):
        lines = moved.stdout.decode(errors="replace").splitlines()
        fail("the home of user %s could not be moved to its workspace" % name, lines)


def configured(
    root: str, given: dict[str, Any], env: dict[str, str], become: Callable[[], None] | None
) -> None:
    """Register the runner by itself, for several jobs until release."""
    done = subprocess.run(
        [os.path.join(root, "config.sh"), *given["arguments"]],
        preexec_fn=become,
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
    env = {**os.environ, "RUNNER_MANUALLY_TRAP_SIG": "1"}
    become = None
    if given["user"] and not os.geteuid():
        become = handed_to(pwd.getpwnam(given["user"]), os.getcwd(), env["TMPDIR"], root)
        house(given["user"], os.getcwd())
        env.update(USER=given["user"], LOGNAME=given["user"])
    else:
        env["RUNNER_ALLOW_RUNASROOT"] = "1"
    if "jit" not in given:
        configured(root, given, env, become)
    secret = {"ACTIONS_RUNNER_INPUT_JITCONFIG": given["jit"]} if "jit" in given else {}
    runner = subprocess.Popen(
        [os.path.join(root, "run.sh")],
        preexec_fn=become,  # noqa: PLW1509 — there are no threads
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
        why = MEANINGS.get(code, "")
        fail(f"the runner ended with {code} before it listened for jobs{why}", lines)
    sys.exit(code and 1)
