"""The program of a host, as text: the files that it is made of, and how they become modules there."""

import json
from functools import cache
from importlib import resources

import muster.agent
from muster.agent.minifier import bare

MODULES = (
    "muster.slots.processes",
    "muster.slots.limits",
    "muster.slots.tree",
    "muster.slots.console",
    "muster.slots.spawn",
    "muster.slots.termination",
    "muster.slots.states",
    "muster.slots.grants",
    "muster.slots.pruner",
    "muster.integrations.ssh.facts",
    "muster.integrations.ssh.scopes",
    "muster.integrations.ssh.remote",
)
"""In an order in which each finds what it imports."""
LEAST_PYTHON = "needs Python 3.8 or later"
COMMAND = (
    "import sys,json;"
    f'sys.version_info>=(3,8) or sys.exit("muster: {LEAST_PYTHON}, and this is "+sys.version.split()[0]);'
    "exec(json.loads(sys.stdin.readline()))"
)
"""Read the program from the first line: nothing of it stands in the command line."""
_LOADER = """
import sys, types
for name in {packages!r}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, source in {sources!r}:
    module = types.ModuleType(name)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, module)
    exec(compile(source, name, "exec"), module.__dict__)
sys.modules["muster.integrations.ssh.remote"].serve(sys.modules["muster.agent"].wipe)
"""


@cache
def program() -> str:
    """The first line that a host reads."""
    packages = ("muster", "muster.slots", "muster.integrations", "muster.integrations.ssh")
    sources = [(name, source(name)) for name in MODULES]
    sources.insert(0, ("muster.agent", agent()))
    return json.dumps(_LOADER.format(packages=packages, sources=sources))


@cache
def source(module: str) -> str:
    """A file as it is sent: without what only readers need."""
    package, _, name = module.rpartition(".")
    return bare(resources.files(package).joinpath(f"{name}.py").read_text(encoding="utf-8"))


@cache
def agent() -> str:
    return muster.agent.source()


def keeper() -> str:
    return source("muster.slots.keeper")
