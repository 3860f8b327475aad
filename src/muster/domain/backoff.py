"""How long to wait before something that failed is tried again."""

_DOUBLINGS = 30
"""More doublings would exceed every useful pause."""


def backoff(tries: int, *, first: float, most: float) -> float:
    """Return `first` seconds, doubled with every try after it, and never more than `most`.

    `tries`: how many failed before this one, so that the pause after the first failure is `first`.
    """
    return min(first * 2.0 ** min(tries, _DOUBLINGS), most)


def spread(seconds: float, chance: float) -> float:
    """Return half of the pause and a random part of the rest: those who failed together come back apart."""
    return seconds * (0.5 + chance / 2)
