"""What runs on a node: one stdlib file. The package itself only hands out its text."""

from importlib import resources


def source() -> str:
    """The agent as a program: `python3 agent.py run …` on any Python from 3.8 on."""
    return resources.files(__name__).joinpath("agent.py").read_text(encoding="utf-8")
