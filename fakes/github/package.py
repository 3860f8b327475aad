"""The runner package: an archive like the real one's, whose programs take the same words and say the same."""

import gzip
import hashlib
import io
import tarfile
from importlib import resources

VERSION = "2.999.0"
_FILES = {"config.sh": 0o755, "run.sh": 0o755, "bin/runner.py": 0o755}


def packed() -> tuple[bytes, str]:
    """The archive and its SHA-256: the same every time."""
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        for name, mode in _FILES.items():
            content = resources.files("fakes.github").joinpath("runner", name).read_bytes()
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    archive = gzip.compress(tarred.getvalue(), mtime=0)
    return archive, hashlib.sha256(archive).hexdigest()
