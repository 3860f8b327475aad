"""Log lines: text for people, JSON for machines, the same fixed keys in both. Never a token, never a body."""

import json
import logging
import sys
import time

KEYS = ("node_id", "operation_id", "template", "provider", "reason")
"""Named alike everywhere; they come first, then whatever else a line says."""
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


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


def configure(*, form: str, level: str) -> None:
    """To standard error, for this process. Only Muster's own lines below warnings; libraries stay quiet."""
    handler = logging.StreamHandler(sys.stderr)
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
