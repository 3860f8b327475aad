"""The core knows no provider, runtime or cloud by name: what is specific is in `muster/integrations`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.discovery import installed

SOURCE = Path(__file__).parents[2] / "src" / "muster"
CORE = ("domain", "ports", "operations", "controllers", "enrolment", "plane.py", "serve.py", "integration.py")
CLOUDS = ("aws", "amazon", "boto", "azure", "arm", "actions", "hetzner", "gcp", "podman", "virsh")
THINGS = ("resource.?group", "rbac", "kubelet", "provisioning.state")
"""Things that only one of them has."""
GLOSSARY = ("exec", "service", "command")
"""Names of integrations that are words of the core: docs/glossary.md."""
ORDINARY = ("process", "external", "simulated", "simulation")
"""Names of integrations that are also words of plain English: they count only as a whole string."""
EXCEPT = {
    (
        "domain/redaction.py",
        "*",
    ): "a list of the world's secrets by their shape: any job may print any of them",
    ("domain/template.py", "external"): "the core's own word for apps that enrol themselves",
    (
        "domain/cluster.py",
        "kubelet",
    ): "a word of Kubernetes, and a column of every store: a migration only adds columns, for old replicas",
    ("domain/verdicts.py", "webhooks"): "the command that an operator types",
    ("integration.py", "hetzner"): "an example that is never installed",
}
PROMISED = {"arm_elapsed_seconds"}
"""Fields of the API that keep their names: the payload of progress was promised to clients."""


def names() -> set[str]:
    """The words that each integration brings: of itself, its providers, runtimes and tables."""
    every = installed().integrations.values()
    found = {word for each in every for word in (each.name, *each.providers, *each.runtimes)}
    return found - {*GLOSSARY}


def files() -> Iterator[Path]:
    for each in CORE:
        yield from (SOURCE / each).rglob("*.py") if (SOURCE / each).is_dir() else (SOURCE / each,)


@pytest.mark.parametrize("path", sorted(files()), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_of_the_core_names_no_provider_runtime_or_cloud(path: Path) -> None:
    place, text = str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8")
    told = {word for word in {*names(), *CLOUDS, *THINGS} - {*ORDINARY} if _stands(word, text)}
    told |= {
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in ORDINARY and node.value in names()
    }
    assert not {word for word in told if (place, word) not in EXCEPT and (place, "*") not in EXCEPT}


@pytest.mark.parametrize("path", sorted((SOURCE / "wire").glob("*.py")), ids=lambda path: path.name)
def test_a_field_of_the_wire_names_no_provider_runtime_or_cloud(path: Path) -> None:
    fields = {
        field.target.id
        for shape in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(shape, ast.ClassDef)
        for field in shape.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }
    words = {*names(), *CLOUDS, *THINGS, "subscription", "portal"}
    assert {field for field in fields if any(_stands(word, field) for word in words)} <= PROMISED


def test_each_exception_is_needed() -> None:
    for place, word in EXCEPT:
        text = (SOURCE / place).read_text(encoding="utf-8")
        assert word == "*" or _stands(word, text), (place, word)


def _stands(word: str, text: str) -> bool:
    """Whether a word stands in a text, also as a part of a name: `aws_key`."""
    return re.search(rf"(?<![a-z]){word}(?![a-z])", text, re.IGNORECASE) is not None
