"""The data directory: who holds it, and the few files in it that others look for.

muster.db      the store                 server.json   where the server is while it runs, for the CLI here
muster.lock    held while a server runs  admin.token   the first admin token; only its owner may read it
               (it says where the last one listened)
installation   whose directory it is: the id that the store must have
"""

import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from muster.config.contexts import LOCAL, Context, ContextsFile
from muster.config.schema import PORT
from muster.domain.errors import MusterError

OWNER_ONLY = 0o600


class DirectoryInUse(MusterError):
    """Another server holds the data directory."""


class DirectoryUnusable(MusterError):
    """The data directory can't be made, read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach a server, and where each half was found."""

    url: str
    token: str | None
    data_dir: Path
    withheld: bool = False
    """There is a local token, but it is not for the server that was named."""
    context: str | None = None
    """The context that names the server; None: the environment does, or it is this machine's own."""
    ca_file: Path | None = None
    """The certificate of the authority that signed the server's; None: those that this machine trusts."""
    elsewhere: bool = False
    """Whether the environment or a context names the server."""


def default_data_directory(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "muster"
    given = environment.get("XDG_DATA_HOME", "")
    base = Path(given) if given and Path(given).is_absolute() else Path.home() / ".local" / "share"
    return base / "muster"


def find_server(environment: Mapping[str, str], data_dir: Path | None = None) -> Connection:
    """Return the server's address and token.

    The first of these counts: MUSTER_SERVER, MUSTER_CONTEXT, a data directory that is named, the context in
    use, the default data directory. MUSTER_TOKEN counts in place of any token. Raises ContextError.
    """
    given = environment.get("MUSTER_DATA_DIR")
    directory = DataDirectory(data_dir or (Path(given) if given else default_data_directory(environment)))
    context = _context(environment, named=data_dir is not None or bool(given))
    # A line end after a secret is never intended.
    token: str | None = environment.get("MUSTER_TOKEN", "").strip()
    ca_file = environment.get("MUSTER_CA_FILE", "") or (context.ca_file if context else "")
    found = Connection(
        url=f"http://127.0.0.1:{PORT}",
        token=token or None,
        data_dir=directory.path,
        ca_file=Path(ca_file) if ca_file else None,
    )
    if context is not None:
        return replace(
            found,
            url=context.url.rstrip("/"),
            token=token or context.token or None,
            context=context.name,
            elsewhere=True,
        )
    url = environment.get("MUSTER_SERVER") or directory.url() or found.url
    local = None if token else directory.admin_token()
    # The local token is for the local server: it is never sent to one that was named by hand.
    withheld = local is not None and "MUSTER_SERVER" in environment
    return replace(
        found,
        url=url.rstrip("/"),
        token=found.token if withheld else (token or local or None),
        withheld=withheld,
        elsewhere=bool(environment.get("MUSTER_SERVER")),
    )


def _context(environment: Mapping[str, str], *, named: bool) -> Context | None:
    """Return the context that counts; None: the environment or a data directory does. `named`: which one."""
    if environment.get("MUSTER_SERVER"):
        return None
    wanted = environment.get("MUSTER_CONTEXT", "")
    if named and not wanted:
        return None
    contexts = ContextsFile(environment).read()
    name = wanted or contexts.current
    return None if name == LOCAL else contexts.find(name)


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def database(self) -> Path:
        return self.path / "muster.db"

    @property
    def nodes(self) -> Path:
        return self.path / "nodes"

    def keep_private(self) -> None:
        """Let only the owner read the store, whatever the umask: it holds what runs were asked to do."""
        try:
            os.close(os.open(self.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY))
            for name in ("muster.db", "muster.db-wal", "muster.db-shm"):
                with suppress(FileNotFoundError):
                    (self.path / name).chmod(OWNER_ONLY)
        except OSError as error:
            why = error.strerror or str(error)
            raise DirectoryUnusable(f"cannot use the store in {self.path}: {why}") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it alone, until the end of the block or of this process. Raises DirectoryInUse."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path / "muster.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
        except OSError as error:
            why = error.strerror or str(error)
            raise DirectoryUnusable(f"cannot use the data directory {self.path}: {why}") from error
        try:
            self._lock(lock)
            yield
        finally:
            os.close(lock)

    def check_free(self) -> None:
        """Raise DirectoryInUse if a server holds the directory. Creates nothing."""
        with suppress(OSError):
            lock = os.open(self.path / "muster.lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                self._lock(lock)
            finally:
                os.close(lock)

    def _lock(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self.url() or "unknown address"
            raise DirectoryInUse(
                f"cannot use the data directory {self.path}: another server holds it ({holder}); "
                "stop it first, or choose another with --data-dir"
            ) from None

    # --- files that others look for ---------------------------------------------------------------

    def admin_token(self) -> str | None:
        with suppress(OSError, UnicodeDecodeError):
            return (self.path / "admin.token").read_text(encoding="ascii").strip() or None
        return None

    def keep_admin_token(self, secret: str) -> Path:
        return self._write("admin.token", secret + "\n")

    def installation(self) -> str | None:
        """Return the id of the installation that owns the directory, or None if it is unknown."""
        with suppress(OSError, UnicodeDecodeError):
            return (self.path / "installation").read_text(encoding="ascii").strip() or None
        return None

    def keep_installation(self, name: str) -> None:
        if self.installation() != name:
            self._write("installation", name + "\n")

    def url(self) -> str | None:
        return self._said("server.json")

    def pid(self) -> int | None:
        """Return the pid of the server that announced itself last, running or not."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads((self.path / "server.json").read_text(encoding="utf-8"))["pid"])
        return None

    def earlier_url(self) -> str | None:
        """Return where the last server listened, running or not."""
        return self._said("muster.lock") or self.url()

    def _said(self, name: str) -> str | None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads((self.path / name).read_text(encoding="utf-8"))["url"])
        return None

    def settings(self) -> Path | None:
        """Return the settings file of the running server, or None."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads((self.path / "server.json").read_text(encoding="utf-8"))["settings"]
            return Path(said) if isinstance(said, str) else None
        return None

    def announce(self, url: str, settings: Path | None = None) -> Path:
        """Write where the server listens. `settings`: the file that the server was started with."""
        file = None if settings is None else str(settings.absolute())
        words = json.dumps({"url": url, "pid": os.getpid(), "settings": file}) + "\n"
        try:
            (self.path / "muster.lock").write_text(words, encoding="utf-8")
            return self._write("server.json", words)
        except OSError as error:
            why = error.strerror or str(error)
            raise DirectoryUnusable(f"cannot write to the data directory {self.path}: {why}") from error

    def withdraw(self) -> None:
        """Remove the announcement of a stopped server, if it can be removed."""
        with suppress(OSError):
            (self.path / "server.json").unlink()

    def _write(self, name: str, text: str) -> Path:
        """Write a file whole or not at all, never readable by others."""
        path, partial = self.path / name, self.path / f".{name}.{os.getpid()}"
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w") as file:
            file.write(text)
        partial.replace(path)
        return path
