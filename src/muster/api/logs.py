"""Write log lines: text for people, JSON for machines, the same fixed keys in both. Never a token or a body.

Each place in the code may write a limited number of lines within a few seconds. Further lines are counted
and summarised in one line, so that no caller can fill the disk with complaints.
"""

import json
import logging
import sys
import time
from typing import TextIO

KEYS = ("node_id", "operation_id", "template", "provider", "reason")
"""Named alike everywhere; they come first, then whatever else a line says."""
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


BURST = 100
PER_SECONDS = 10.0
Place = tuple[str, int]


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = " ".join(f"{key}={value}" for key, value in _extras(record).items())
        line = f"{_time(record)} {record.levelname.lower():7} {record.getMessage()}"
        line = f"{line} {said}" if said else line
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class Limit:
    """Which lines are said. `BURST` of each place within `PER_SECONDS`."""

    def __init__(self) -> None:
        self._begun: dict[Place, float] = {}
        self._said: dict[Place, int] = {}
        self._kept_back: dict[Place, logging.LogRecord] = {}

    def admits(self, record: logging.LogRecord) -> bool:
        place = (record.pathname, record.lineno)
        if record.created - self._begun.get(place, 0.0) >= PER_SECONDS:
            self._begun[place], self._said[place] = record.created, 0
        self._said[place] += 1
        if self._said[place] > BURST:
            self._kept_back[place] = record
            return False
        return True

    def over(self, now: float) -> list[logging.LogRecord]:
        """Return one summary line for each place whose limit was exceeded and whose time is over."""
        ended = [place for place in self._kept_back if now - self._begun[place] >= PER_SECONDS]
        return [self._summary(place) for place in ended]

    def _summary(self, place: Place) -> logging.LogRecord:
        last, count = self._kept_back.pop(place), self._said[place] - BURST
        text = f"left out {count} lines like this one: {last.getMessage()}"
        return logging.LogRecord(last.name, last.levelno, *place, text, None, None)


class LimitedHandler(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._limit = Limit()

    def emit(self, record: logging.LogRecord) -> None:
        for summary in self._limit.over(record.created):
            super().emit(summary)
        if self._limit.admits(record):
            super().emit(record)


def configure(*, form: str, level: str) -> None:
    """Log to standard error. Muster's own lines have the given level; libraries log warnings only."""
    handler = LimitedHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("muster").setLevel(level.upper())


def _extras(record: logging.LogRecord) -> dict[str, object]:
    given = {key: value for key, value in vars(record).items() if key not in _USUAL}
    first = {key: given.pop(key) for key in KEYS if key in given}
    return {**first, **given}


def _time(record: logging.LogRecord) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"
