"""Build the server's image: `python -m tools.image [--tag TAG] [--base IMAGE] [--engine podman|docker]`.

Gathers the wheel of Muster and the wheels that requirements.lock pins, for the Python that runs this. The
build then needs no network, and has the versions that the tests had.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.environment import ROOT
from tools.environment import settings as index
from tools.progress import run

EXTRAS = ("aws", "github", "oidc", "postgres")
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
UV = Path(sys.executable).with_name("uv")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def base_image() -> str:
    return f"docker.io/library/python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def gather(place: Path) -> int:
    """Put Muster's wheel, what it needs and pip itself below `place`/wheels."""
    wheels = place / "wheels"
    wheels.mkdir(parents=True)
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    pinned = place / "requirements.txt"
    extras = [word for name in EXTRAS for word in ("--extra", name)]
    asked = [*(str(UV), "pip", "compile", "--quiet", "--generate-hashes", "--no-header"), *extras, *index()]
    asked += ["--constraint", str(ROOT / "requirements.lock"), "--output-file", str(pinned), "pyproject.toml"]
    fetched = [*PIP, "download", "--quiet", "--only-binary", ":all:", "--dest", str(wheels)]
    return (
        run("Building the wheel of Muster", built, cwd=ROOT, quiet=True)
        or run("Choosing what the image needs", asked, cwd=ROOT, quiet=True)
        or run("Gathering its wheels", [*fetched, "--require-hashes", "-r", str(pinned)], quiet=True)
        or run("Gathering pip", [*fetched, "pip"], quiet=True)
    )


def building(engine: str, place: Path, *, base: str, tag: str) -> list[str]:
    """Return the words after the engine's name. Podman's own format of images has no health checks."""
    shape = ["--format", "docker"] if Path(engine).name == "podman" else []
    given = [f"BASE={base}", f"EXTRAS={','.join(EXTRAS)}"]
    arguments = [word for each in given for word in ("--build-arg", each)]
    return ["build", *shape, "--file", str(CONTAINERFILE), *arguments, "--tag", tag, str(place)]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.add_argument("--tag", default="localhost/muster:latest")
    parser.add_argument("--base", default=base_image())
    parser.add_argument("--engine", default=next(filter(shutil.which, ("podman", "docker")), "podman"))
    given = parser.parse_args(argv)
    if shutil.which(given.engine) is None:
        print(
            f"error: cannot build the image: there is no {given.engine}; install podman or docker",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        failed = gather(place)
        if failed:
            return failed
        asked = building(given.engine, place, base=given.base, tag=given.tag)
        done = subprocess.run([given.engine, *asked], check=False)  # noqa: S603
    if not done.returncode:
        print(f"built {given.tag}; try it: {given.engine} run --rm -p 8420:8420 {given.tag}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
