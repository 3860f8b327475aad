"""`muster apply`: the templates and limits of a file become those of the installation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.printing import Output
from muster.domain.counting import counted

if TYPE_CHECKING:
    from muster.client.results import Template

FILE = Path("muster.toml")


def apply(
    *,
    file: Annotated[Path, typer.Option("--file", "-f", help="The file to apply.")] = FILE,
    _output: Output = None,
) -> None:
    """Apply the templates and limits of a muster.toml. What is the same stays the same revision."""
    from muster.cli import printing
    from muster.cli.connecting import connected
    from muster.cli.exits import UsageProblem
    from muster.client import calls
    from muster.config import load

    if not file.exists():
        raise UsageProblem(f"cannot find {file}: name the file to apply with -f")
    wanted = load(file)
    with connected() as client:
        before = {template.name: template.revision for template in client.send(calls.templates())}
        if wanted.max_nodes is not None:
            client.send(calls.limit(wanted.max_nodes))
        applied = [client.send(calls.apply(spec)) for spec in wanted.templates]
    if printing.wants_json():
        changed = [each.name for each in applied if before.get(each.name) != each.revision]
        printing.document({"items": applied, "changed": changed, "max_nodes": wanted.max_nodes})
        return
    if wanted.max_nodes is not None:
        printing.say(f"✔ at most {counted(wanted.max_nodes, 'node')} in all")
    for each in applied:
        printing.say(f"✔ {each.name}: {_how(each, before.get(each.name))}")
    if not applied and wanted.max_nodes is None:
        printing.say(f"nothing to apply: {file} has neither [templates.NAME] nor installation.max_nodes")


def _how(template: "Template", before: int | None) -> str:
    if before is None:
        return f"new, revision {template.revision}"
    if before == template.revision:
        return f"unchanged, revision {before}"
    return f"revision {before} → {template.revision}; warm nodes of the old one are replaced"
