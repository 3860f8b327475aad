"""Redact and shorten what nodes say before it is stored, or withhold it.

Owns a node's own text on its way into events and records: how its boot failed, its script's step, an app's
reason. Fails closed: text that can't be redacted is not stored.
"""

import logging

from muster.domain.redaction import redact

logger = logging.getLogger(__name__)

SAID_MOST = 65_536
"""Of a node's words: what is longer isn't even read."""
DETAIL_MAX = 4096
"""Of what a node says about its failure: its exit code, then the end of its output."""
WITHHELD = "withheld: the text could not be redacted"


def how_it_failed(said: str) -> str:
    """How it ended comes first, and the last of its output tells most: what is too long loses its middle.
    Redacted before it is cut, because half a secret isn't recognised."""
    head, line_end, tail = said.partition("\n")
    if len(tail) > SAID_MOST:
        tail = tail[-SAID_MOST:].partition("\n")[2]
    told = _redacted(f"{head[:SAID_MOST]}{line_end}{tail}")
    if told is None:
        return f"it failed; {WITHHELD}"
    if len(told) <= DETAIL_MAX:
        return told
    head, _, tail = told.partition("\n")
    return f"{head[: DETAIL_MAX // 4]}\n{tail[-DETAIL_MAX // 2 :]}"


def in_short(said: str, *, longest: int) -> str:
    """A few words, as they stand."""
    if not said:
        return said
    told = _redacted(said)
    return (WITHHELD if told is None else told)[:longest]


def _redacted(said: str) -> str | None:
    try:
        return redact(said)
    except Exception:
        # The text must not be shown, so not the exception either: it may quote it.
        logger.error("a node's words were withheld: they could not be redacted")  # noqa: TRY400
        return None
