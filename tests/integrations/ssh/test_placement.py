import pytest

from muster.integrations.ssh.launcher import placed, ranked
from muster.integrations.ssh.tables import Place

SPREAD, PACKED = Place.SPREAD, Place.PACKED


@pytest.mark.parametrize(
    ("count", "free", "place", "expected"),
    [
        (1, {"a": 1, "b": 3}, SPREAD, {"b": 1}),
        (3, {"a": 1, "b": 3}, SPREAD, {"a": 1, "b": 2}),
        (4, {"a": 4, "b": 4, "c": 4, "d": 4}, SPREAD, {"a": 1, "b": 1, "c": 1, "d": 1}),
        (9, {"a": 1, "b": 3}, SPREAD, {"a": 1, "b": 3}),
        (2, {"a": 0, "b": -1}, SPREAD, {}),
        (2, {"a": 3, "b": 2, "c": 4}, PACKED, {"b": 2}),
        (3, {"a": 3, "b": 2, "c": 4}, PACKED, {"a": 3}),
        (5, {"a": 3, "b": 2, "c": 4}, PACKED, {"c": 4, "b": 1}),
        (9, {"a": 3, "b": 2, "c": 4}, PACKED, {"c": 4, "a": 3, "b": 2}),
        (10, {"a": 3, "b": 2, "c": 4}, PACKED, {"c": 4, "a": 3, "b": 2}),
        (1, {"a": 0}, PACKED, {}),
    ],
)
def test_nodes_are_placed_by_the_rule_and_never_beyond_the_room(
    count: int, free: dict[str, int], place: Place, expected: dict[str, int]
) -> None:
    assert placed(count, free, place) == expected


def test_the_order_of_hosts_depends_on_the_token_alone() -> None:
    names = [f"web{number}" for number in range(10)]
    assert ranked("t1", names) == ranked("t1", list(reversed(names)))
    assert len({ranked(f"t{number}", names)[0] for number in range(50)}) > 5
    first = ranked("t1", names)[0]
    assert ranked("t1", [each for each in names if each != first]) == ranked("t1", names)[1:]
