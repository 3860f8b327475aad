"""Fetches the Actions runner at boot, for Python 3.8 or later: this version, checked, or not at all.

Where the image has the runner, only looks whether it can run.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

TRIES = 3
PAUSE = 5.0
TIMEOUT = 60
ARCHITECTURES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64", "armv7l": "arm"}


def address(given: dict[str, Any]) -> str:
    system = "osx" if sys.platform == "darwin" else "linux"
    arch = ARCHITECTURES.get(platform.machine().lower(), platform.machine().lower())
    return (
        str(given["url"])
        .replace("{version}", given["version"])
        .replace("{os}", system)
        .replace("{arch}", arch)
    )


def fetched(url: str, path: str) -> str:
    """Download the package; return its SHA-256. Raises OSError or HTTPException if it didn't come whole."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, open(path, "wb") as file:
        for block in iter(lambda: answer.read(1 << 20), b""):
            digest.update(block)
            file.write(block)
        wanted = answer.headers.get("Content-Length")
        if wanted is not None and file.tell() != int(wanted):
            raise OSError("it broke off after %d of %s bytes" % (file.tell(), wanted))
    return digest.hexdigest()


def owned(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Make its files ours: the archive's own user ids may be those of the user that jobs run as."""
    for member in tar:
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        yield member


def check_icu(root: str) -> None:
    """Check for ICU. Without it the runner, a .NET program, ends before it speaks to GitHub."""
    path = os.environ.get("PATH", "") + ":/sbin:/usr/sbin"
    tool = shutil.which("ldconfig", path=path)
    if tool is None or not os.path.exists(os.path.join(root, "bin", "libcoreclr.so")):
        return
    known = subprocess.run([tool, "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if not known.returncode and b"libicuuc" not in known.stdout:
        sys.exit(
            "cannot run the Actions runner: there is no libicu; install it in the image or the boot script"
            " (Amazon Linux, Fedora: dnf install -y libicu; Debian, Ubuntu: apt-get install -y libicu-dev)"
        )


def main(given: dict[str, Any]) -> None:
    if given["path"]:
        if not os.access(os.path.join(given["path"], "run.sh"), os.X_OK):
            sys.exit("there is no Actions runner in " + given["path"])
        check_icu(given["path"])
        return
    home = os.environ["MUSTER_HOME"]
    root, archive, url = (
        os.path.join(home, "actions-runner"),
        os.path.join(home, "runner.tgz"),
        address(given),
    )
    found = ""
    for left in reversed(range(TRIES)):
        try:
            found = fetched(url, archive)
            break
        except (OSError, http.client.HTTPException) as error:
            if not left:
                sys.exit("cannot fetch the Actions runner from %s: %s" % (url, error))
            time.sleep(PAUSE)
    if found not in given["sha256"]:
        os.unlink(archive)
        sys.exit(
            "cannot use what %s gave: its SHA-256 is %s, which is not the one that is expected" % (url, found)
        )
    os.umask(0o022)  # another user may be the one who runs it
    fresh = root + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    with tarfile.open(archive, "r:gz") as tar:
        tar.extractall(fresh, members=owned(tar))
    os.unlink(archive)
    check_icu(fresh)
    os.rename(fresh, root)
