"""A real app that is a node: FastAPI on uvicorn, in a process of its own. Told what to do over HTTP.

Usage: service_app.py PORT GATE, where its start-up waits until the file GATE exists.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from muster.sdk import Node

PORT, GATE = int(sys.argv[1]), Path(sys.argv[2])
STEP = 0.02


@asynccontextmanager
async def own(_app: FastAPI) -> AsyncIterator[dict[str, str]]:
    while not GATE.exists():  # noqa: ASYNC110, ASYNC240 — a file is what another process can make
        await asyncio.sleep(STEP)
    yield {"kept": "of the app's own lifespan"}


node = Node(port=PORT, beat_seconds=2)
app = FastAPI(lifespan=node.lifespan(own))


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "fine"}


@app.get("/node")
async def about() -> dict[str, str | None]:
    return {"id": node.id, "status": node.status, "problem": node.problem}


@app.post("/degraded")
async def degraded(reason: str) -> None:
    node.degraded(reason)


@app.post("/ready")
async def ready() -> None:
    node.ready()


@app.get("/slow")
async def slow(until: str) -> dict[str, str]:
    """Work that takes until a file exists. That it began is shown by another."""
    Path(until + ".begun").touch()  # noqa: ASYNC240
    while not Path(until).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(STEP)
    return {"status": "done"}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="info")
