import pytest

from muster.domain.text import counted


@pytest.mark.parametrize(("number", "words"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_one_is_not_many(number: int, words: str) -> None:
    assert counted(number, "node") == words
