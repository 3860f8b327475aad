"""A whole server in a process of its own, put together as `muster serve` does, on a free loopback port."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.children import Child, child, say, told
from bench.claims import home
from muster.config import DataDirectory, load
from muster.serve import Serving, run


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str
    admin: str
    """The secret of its admin token."""
    child: Child

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


@contextmanager
def data_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home()) as folder:
        yield Path(folder).absolute()


@asynccontextmanager
async def served(
    data: Path,
    *,
    capacity: int = 20,
    config: Path | None = None,
    store: str | None = None,
    machines: Path | None = None,
    port: int = 0,
) -> AsyncIterator[Server]:
    """Start a server; stop it in the end. `port` 0: any that is free."""
    given = {
        "port": port,
        "data": str(data),
        "capacity": capacity,
        "config": config and str(config),
        "store": store,
        "machines": machines and str(machines),
    }
    async with child("bench.server_process", given) as process:
        said = await process.line()
        yield Server(url=said["url"], admin=DataDirectory(data).admin_token() or "", child=process)


def main() -> int:
    given = told()
    flags = {"port": given["port"], "data_dir": given["data"], "log_level": "error"}
    path = Path(given["config"]) if given["config"] else None
    environment = {
        "MUSTER_PROCESS_CAPACITY": str(given["capacity"]),
        "MUSTER_STORE": given["store"] or "",
        "MUSTER_PROCESS_DIRECTORY": given["machines"] or "",
    }
    config = load(path, environment=environment, flags=flags)

    def ready(serving: Serving) -> None:
        say({"url": serving.url, "pid": os.getpid()})

    return run(config, ready=ready)


if __name__ == "__main__":
    sys.exit(main())
