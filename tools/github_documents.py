"""`python -m tools.github_documents`: get what GitHub publishes of its API, for the tests that hold us to it.

The documents are packages of npm, pinned by version and hash. They stay inside .venv, and nothing of them is
in git. Without npm or a network it prints one line, and the tests that need the documents skip.
"""

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.web.node import NoNode, of_pypi, of_this_machine

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".venv" / "github"
SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    package: str
    version: str
    integrity: str
    """As npm writes it: the algorithm, and the hash in base64."""
    member: str

    @property
    def path(self) -> Path:
        name = self.package.rpartition("/")[2]
        return PLACE / f"{name}-{self.version}.json"


WEBHOOKS = Document(
    package="@octokit/webhooks-examples",
    version="7.6.1",
    integrity="sha512-De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ==",
    member="package/api.github.com/index.json",
)
"""Examples of every webhook."""
REST = Document(
    package="@octokit/openapi",
    version="23.0.2",
    integrity="sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
    member="package/generated/api.github.com.json",
)
"""The OpenAPI document of the REST API."""
DOCUMENTS = (WEBHOOKS, REST)


class CannotGet(Exception):
    """The document can't be had here, or it is another one than expected."""


def get(document: Document, npm: tuple[str, ...]) -> None:
    """Fetch the package, check its hash, and keep the one file of it that tests read. Raises CannotGet."""
    named = f"{document.package}@{document.version}"
    with tempfile.TemporaryDirectory() as folder:
        asked = [*npm, "pack", named, "--pack-destination", folder, "--loglevel=error"]
        try:
            subprocess.run(asked, cwd=folder, check=True, capture_output=True, timeout=SECONDS)  # noqa: S603 — npm, with names of ours
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotGet(f"npm cannot fetch {named}") from error
        (archive,) = Path(folder).glob("*.tgz")
        algorithm, _, expected = document.integrity.partition("-")
        digest = hashlib.new(algorithm, archive.read_bytes()).digest()
        if base64.b64encode(digest).decode() != expected:
            raise CannotGet(f"{named} has another hash than tools/github_documents.py names")
        with tarfile.open(archive) as opened:
            member = opened.extractfile(document.member)
            if member is None:
                raise CannotGet(f"{named} has no {document.member}")
            PLACE.mkdir(parents=True, exist_ok=True)
            fresh = document.path.with_suffix(".part")
            fresh.write_bytes(member.read())
            fresh.rename(document.path)


def main() -> int:
    missing = [each for each in DOCUMENTS if not each.path.is_file()]
    if not missing:
        return 0
    try:
        node = of_this_machine() or of_pypi(ROOT / "web" / "node.lock", ROOT / ".venv" / "node")
        for each in missing:
            print(f"Getting {each.package}, for the tests that compare us with it")
            get(each, node.npm)
    except (NoNode, CannotGet) as error:
        print(f"note: {error}; the tests against GitHub's own documents will skip", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
