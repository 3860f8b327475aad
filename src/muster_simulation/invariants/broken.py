"""A broken promise, with its name and what was seen."""


class Broken(AssertionError):
    def __init__(self, name: str, explanation: str) -> None:
        self.name = name
        self.explanation = explanation
        super().__init__(f"{name}: {explanation}")


def require(condition: bool, name: str, explanation: str) -> None:
    """For checks whose explanation costs nothing to make; elsewhere test first and raise."""
    if not condition:
        raise Broken(name, explanation)
