import pytest

from muster.domain import traces
from muster.domain.ids import OperationId
from muster.domain.traces import HEADER_MOST, SpanContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{SPAN}-01"
OPERATION = OperationId("op-1")


def test_a_parent_is_read_and_written_alike() -> None:
    read = traces.parse(HEADER)
    assert read == SpanContext(trace_id=TRACE, span_id=SPAN, sampled=True)
    assert str(read) == HEADER


def test_a_caller_that_samples_nothing_is_believed() -> None:
    read = traces.parse(f"00-{TRACE}-{SPAN}-00")
    assert read is not None
    assert not read.sampled
    assert not traces.of_operation(OPERATION, f"00-{TRACE}-{SPAN}-00").sampled


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        HEADER.upper(),
        HEADER[:-1],
        f"{HEADER}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01-{'x' * HEADER_MOST}",
    ],
)
def test_what_breaks_the_standard_is_ignored(header: str) -> None:
    assert traces.parse(header) is None


def test_a_later_version_of_the_standard_may_say_more() -> None:
    assert traces.parse(f"01-{TRACE}-{SPAN}-01-more") == SpanContext(trace_id=TRACE, span_id=SPAN)


def test_an_operation_joins_the_trace_of_its_caller_with_a_span_of_its_own() -> None:
    own = traces.of_operation(OPERATION, HEADER)
    assert own.trace_id == TRACE
    assert own.span_id != SPAN
    assert traces.parse(str(own)) == own


def test_every_replica_gives_an_operation_the_same_ids_and_each_operation_its_own() -> None:
    assert traces.of_operation(OPERATION, "") == traces.of_operation(OPERATION, "")
    other = traces.of_operation(OperationId("op-2"), "")
    assert other.trace_id != traces.of_operation(OPERATION, "").trace_id
    assert other.span_id != traces.of_operation(OPERATION, "").span_id
