"""Consoles: what an engine kept of a container's output, from the end and bounded.

Without a terminal, an engine sends frames: eight bytes (stream, three zeros, length) and the data. Frames are
writes, not lines, so lines are counted once all frames are joined.
"""

import struct

from muster.integrations.docker.api import Engine, EngineError, path_of
from muster.integrations.docker.names import MachineName

MOST = 8 * 1024 * 1024
"""More than the log's own bound (`body.LOG`)."""
_HEADER = struct.Struct(">BxxxL")
_STREAMS = (0, 1, 2)


async def console(engine: Engine, machine: MachineName, *, lines: int) -> str | None:
    """The last lines, at most so many; None if nothing was said, or nothing is left of it."""
    if lines <= 0:
        return None
    # Of one more, because the engine counts an unfinished line.
    asked = {"stdout": "true", "stderr": "true", "tail": str(lines + 1)}
    try:
        data = await engine.read(
            "GET", path_of("containers", machine.container, "logs"), params=asked, most=MOST
        )
    except EngineError as error:
        if error.missing:
            return None
        raise
    text = joined(data).decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
    found = text.split("\n")[-lines:] if text else []
    return "\n".join(found) if found else None


def joined(data: bytes) -> bytes:
    """The data of all frames. What doesn't look like frames is taken as it is."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        if at + _HEADER.size > len(data):
            break
        stream, length = _HEADER.unpack_from(data, at)
        if stream not in _STREAMS or data[at + 1 : at + 4] != b"\0\0\0":
            return data if not found else b"".join(found)
        found.append(data[at + _HEADER.size : at + _HEADER.size + length])
        at += _HEADER.size + length
    return b"".join(found)
