"""What runs on a node. One stdlib file, so that it can be sent anywhere; nothing here is imported by it."""

from functools import cache
from importlib import resources

from muster.agent.minifier import bare


@cache
def source() -> str:
    """Return the agent as a program: `python3 agent.py run …` on any Python from 3.8 on.

    Leaves out what only readers need. Each line keeps its number, so that a traceback fits the file. It is
    computed once: it takes a quarter of a second, and each machine gets the same.
    """
    return bare(resources.files(__name__).joinpath("agent.py").read_text(encoding="utf-8"))


@cache
def terminal_source() -> str:
    """Return what an agent loads when a command has a terminal."""
    return bare(resources.files(__name__).joinpath("terminal.py").read_text(encoding="utf-8"))
