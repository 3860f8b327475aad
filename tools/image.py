"""Build the server's image: `python -m tools.image [--tag TAG] [--base IMAGE] [--engine podman|docker]`.

Installs Muster and what requirements.lock pins into a directory, for the Python that runs this. The build
copies it, needs no network, and has the versions that the tests had.
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
UV_PIP = (str(Path(sys.executable).with_name("uv")), "pip")


def base_image() -> str:
    return f"docker.io/library/python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def gather(place: Path) -> int:
    """Install Muster and what it needs into `place`/muster."""
    place.mkdir(parents=True)
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    pinned = place / "requirements.txt"
    extras = [word for name in EXTRAS for word in ("--extra", name)]
    asked = [*UV_PIP, "compile", "--quiet", "--generate-hashes", "--no-header", *extras, *index()]
    asked += ["--constraint", str(ROOT / "requirements.lock"), "--output-file", str(pinned), "pyproject.toml"]
    installed = [*UV_PIP, "install", "--quiet", "--python", sys.executable, "--target", str(place / "muster")]
    needs = [*installed, *index(), "--only-binary", ":all:", "--require-hashes", "--requirement", str(pinned)]
    return (
        run("Building the wheel of Muster", built, cwd=ROOT, quiet=True)
        or run("Choosing what the image needs", asked, cwd=ROOT, quiet=True)
        or run("Installing it for the image", needs, quiet=True)
        or run(
            "Installing Muster for the image",
            [*installed, "--no-deps", *map(str, place.glob("*.whl"))],
            quiet=True,
        )
    )


def building(engine: str, place: Path, *, base: str, tag: str) -> list[str]:
    """Return the words after the engine's name. Podman's own format of images has no health checks."""
    shape = ["--format", "docker"] if Path(engine).name == "podman" else []
    given = ["--file", str(CONTAINERFILE), "--build-arg", f"BASE={base}", "--tag", tag]
    return ["build", *shape, *given, str(place)]


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
