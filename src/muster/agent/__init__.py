"""What runs on a node: one stdlib file. This package only hands out its text, for those who put it on machines."""

from importlib import resources


def source() -> str:
    """The agent as a program: `python3 agent.py run …` on any Python from 3.8 on."""
    return resources.files(__name__).joinpath("agent.py").read_text(encoding="utf-8")
