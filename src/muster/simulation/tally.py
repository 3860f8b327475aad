"""How often each fault struck: counted where it strikes, shown in the summary."""


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, kind: str, times: int = 1) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + times
