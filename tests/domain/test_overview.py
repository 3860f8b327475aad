from muster.domain.ids import OperationId
from muster.domain.overview import Handover, warmth


def handover(seconds: float, *, nodes: int = 2, warm: int = 0) -> Handover:
    return Handover(
        operation_id=OperationId("op-1"), template="web", at=100.0, seconds=seconds, nodes=nodes, warm=warm
    )


def test_without_calls_there_is_no_rate_and_no_time() -> None:
    found = warmth(())
    assert (found.provisions, found.nodes, found.warm, found.rate, found.ready) == (0, 0, 0, None, None)


def test_the_warm_share_is_of_nodes_not_of_provisions() -> None:
    found = warmth([handover(1.0, nodes=8, warm=8), handover(30.0, nodes=2, warm=0)])
    assert (found.provisions, found.nodes, found.warm, found.rate) == (2, 10, 8, 0.8)


def test_the_time_to_ready_is_told_by_its_middle_and_its_tail() -> None:
    found = warmth([handover(float(n)) for n in range(1, 101)])
    assert found.ready is not None
    assert (found.ready.count, found.ready.p50, found.ready.p95) == (100, 50.5, 95.0)
