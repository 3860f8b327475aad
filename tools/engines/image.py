"""A small image with this machine's own Python, as a tar archive: no registry is needed to have one.

Has the interpreter with its standard library, a shell, and the programs that jobs in tests use, each with the
libraries that the linker names. Owns no file: the archive is written once to where the caller says.
"""

import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import which

_PROGRAMS = """
    sh bash cat chmod cp date dd echo env grep head hostname id kill ls mkdir mv nice ps rm setsid sleep sort
    stat tail tar touch true uname
"""
LEFT_OUT = re.compile(
    r"(site|dist)-packages|tests?|idlelib|ensurepip|lib2to3|tkinter|turtledemo|config-.*|venv|pydoc_data"
)
LOADED = (
    *("libnss_files.so.2", "libnss_dns.so.2", "libgcc_s.so.1", "libstdc++.so.6", "libm.so.6"),
    *("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"),
)
DIRECTORIES = {"dev": 0o755, "proc": 0o755, "sys": 0o755, "run": 0o755, "root": 0o700}
WRITABLE = {"tmp": 0o1777, "var/tmp": 0o1777}
TOPS = ("bin", "sbin", "lib", "lib64")
"""On most systems these are links into /usr."""
USERS = "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
GROUPS = "root:x:0:\nnode:x:1000:\nnogroup:x:65534:\n"
WHERE = (
    "import json, os, sys, sysconfig; print(json.dumps([os.path.realpath(sys.executable),"
    " sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib')]))"
)


def write(path: Path) -> None:
    """Write the archive, for `POST /images/create?fromSrc=-`."""
    seen: dict[str, bool] = {}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, mode in (DIRECTORIES | WRITABLE).items():
            _directory(archive, name, mode)
        for name, text in {"etc/passwd": USERS, "etc/group": GROUPS}.items():
            _text(archive, name, text)
        merged = {top: str(Path("/", top).readlink()) for top in TOPS if Path("/", top).is_symlink()}
        for name, target in merged.items():
            _link(archive, name, target)
        for source in _files():
            top, _, rest = str(source).lstrip("/").partition("/")
            name = f"{merged.get(top, top).lstrip('/')}/{rest}"
            if name not in seen:
                seen[name] = True
                archive.add(source.resolve(), name, recursive=False)
        python = _python()[0].lstrip("/")
        for link in ("usr/bin/python3", "usr/local/bin/python3"):
            if link not in seen and link != python:
                _link(archive, link, f"/{python}")


@cache
def _python() -> tuple[str, tuple[str, ...]]:
    """The system's interpreter if there is one: it is smaller than what developers build for themselves."""
    for each in ("/usr/bin/python3", sys.executable):
        if Path(each).exists():
            asked = subprocess.run([each, "-I", "-c", WHERE], capture_output=True, check=True)  # noqa: S603
            executable, *libraries = json.loads(asked.stdout)
            return executable, tuple(dict.fromkeys(libraries))
    raise FileNotFoundError("there is no Python to put into an image")


def _files() -> Iterator[Path]:
    executable, libraries = _python()
    programs = [
        Path(found) for each in _PROGRAMS.split() if (found := which(each, path="/usr/bin:/bin")) is not None
    ]
    modules = [path for library in libraries for path in _below(Path(library))]
    linked = [Path(executable), *programs, *(path for path in modules if path.suffix == ".so")]
    yield from (Path(executable), *programs, *modules)
    # Loaded without a linker's word: by the C library when names are looked up, and by compiled wheels.
    loaded = [path for name in LOADED for path in Path("/lib").glob(f"*/{name}")]
    yield from loaded
    yield from shared((*linked, *loaded))


def _below(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if LEFT_OUT.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from _below(path)
        elif path.exists():
            yield path


def shared(linked: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the libraries that the linker names for these programs."""
    asked = subprocess.run(["ldd", *map(str, linked)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    for found in dict.fromkeys(re.findall(r"(/\S+)(?= \(0x)", asked.stdout)):
        yield Path(found)


def _directory(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)
