"""Numbers with what they count, as people write them."""


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `0 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
