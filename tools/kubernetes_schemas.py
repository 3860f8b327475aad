"""`python -m tools.kubernetes_schemas`: get the schemas of Kubernetes' objects, for the test of the chart.

They are in a package of PyPI, pinned by version and hash. Two of its files stay inside .venv, and nothing of
them is in git. Without a network it prints one line, and the test that needs them skips.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".venv" / "kubernetes"
PACKAGE = "kubernetes-validate==1.37.0"
HASH = "sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9"
MEMBER = "kubernetes_validate/kubernetes-json-schema/{}-local-strict/_definitions.json"
VERSIONS = ("v1.25.0", "v1.37.0")
"""The oldest and the newest Kubernetes whose schemas the package has."""
HINT = "the schemas of Kubernetes are missing: run `make documents`"


def path(version: str) -> Path:
    return PLACE / f"{version}.json"


def fetch() -> bool:
    """Fetch the package and keep what the test reads. Returns whether it could be had."""
    quiet = ["--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=30"]
    with tempfile.TemporaryDirectory() as folder:
        named = Path(folder) / "requirements.txt"
        named.write_text(f"{PACKAGE} --hash={HASH}\n")
        asked = ["download", *quiet, "--no-deps", "--require-hashes", "--dest", folder, "--requirement"]
        if subprocess.run([sys.executable, "-m", "pip", *asked, str(named)], check=False).returncode:  # noqa: S603 — our own command line
            return False
        (wheel,) = Path(folder).glob("*.whl")
        PLACE.mkdir(parents=True, exist_ok=True)
        with ZipFile(wheel) as opened:
            for version in VERSIONS:
                fresh = path(version).with_suffix(".part")
                fresh.write_bytes(opened.read(MEMBER.format(version)))
                fresh.rename(path(version))
    return True


def main() -> int:
    if not all(path(version).is_file() for version in VERSIONS):
        print("Getting the schemas of Kubernetes from PyPI (23 MB, once)", flush=True)
        if not fetch():
            print(f"note: the test of the chart's objects will skip: {HINT}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
