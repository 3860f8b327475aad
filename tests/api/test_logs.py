import io
import json
import logging

from muster.api.logs import BURST, PER_SECONDS, JsonLines, LimitedHandler, TextLines


def _record(**extra: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"name": "muster.x", "levelname": "INFO", "msg": "took %d", "args": (3,)})
    record.created, record.msecs = 1777887000.25, 250.0
    for key, value in extra.items():
        setattr(record, key, value)
    return record


def test_the_fixed_keys_come_first_in_both_forms() -> None:
    record = _record(verb="x", reason="capacity", node_id="node-1")
    assert TextLines().format(record) == (
        "2026-05-04T09:30:00.250Z info    took 3 node_id=node-1 reason=capacity verb=x"
    )
    assert list(json.loads(JsonLines().format(record)).items()) == [
        ("at", "2026-05-04T09:30:00.250Z"),
        ("level", "info"),
        ("logger", "muster.x"),
        ("message", "took 3"),
        ("node_id", "node-1"),
        ("reason", "capacity"),
        ("verb", "x"),
    ]


def test_a_trace_stays_with_its_line() -> None:
    error = ValueError("inside")
    record = _record()
    record.exc_info = (type(error), error, error.__traceback__)
    assert "ValueError: inside" in json.loads(JsonLines().format(record))["trace"]
    assert TextLines().format(record).endswith("ValueError: inside")


def test_a_place_that_says_too_much_is_silenced_and_counted() -> None:
    written = io.StringIO()
    handler = LimitedHandler(written)
    handler.setFormatter(TextLines())

    def said(place: int, at: float) -> None:
        record = _record()
        record.lineno, record.created = place, at
        handler.emit(record)

    for _ in range(BURST + 7):
        said(1, 1000.0)
    said(2, 1000.0)
    assert written.getvalue().count("took 3\n") == BURST + 1, "another place is heard"
    said(2, 1000.0 + PER_SECONDS)
    assert "left out 7 lines like this one: took 3\n" in written.getvalue()
    said(1, 1000.0 + PER_SECONDS)
    assert written.getvalue().count("took 3\n") == BURST + 1 + 1 + 2
