"""`muster apply`: store the templates and limits of a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls, open_client
from muster.cli.exits import UsageProblem
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.wire.templates import FieldChange, TemplatePlan

FILE = Path("muster.toml")
SHOWN_MOST = 60


def apply(
    *,
    file: Annotated[Path, typer.Option("--file", "-f", help="The file to apply.")] = FILE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change and what it costs. Change nothing.")
    ] = False,
) -> None:
    """Apply the templates and limits of a muster.toml. Warm nodes are replaced only if they would be made
    differently."""
    from muster.config import load

    if not file.exists():
        raise UsageProblem(f"cannot find {file}: name the file to apply with -f")
    wanted = load(file)
    with open_client() as client:
        cap = client.send(calls.installation()).max_nodes
        plans = client.send(calls.plan(wanted.templates)) if wanted.templates else ()
        _check(file, plans)
        if wanted.max_nodes is not None and not dry_run:
            client.send(calls.limit(wanted.max_nodes))
        applied = [] if dry_run else [client.send(calls.apply(spec)) for spec in wanted.templates]
    if output.wants_json():
        changed = [each.name for each in plans if each.effect != "none"]
        shown = {"plan": plans} if dry_run else {"items": applied, "plan": plans}
        output.print_json(
            {**shown, "changed": changed, "max_nodes": wanted.max_nodes, "max_nodes_before": cap}
        )
        return
    mark = "~" if dry_run else "✔"
    if wanted.max_nodes is not None:
        was = "" if not dry_run or wanted.max_nodes == cap else f" (now {cap})"
        output.say(f"{mark} at most {counted(wanted.max_nodes, 'node')} in all{was}")
    for each in plans:
        output.say(f"{mark} {each.name}: {_how(each)}")
        for change in each.fields if dry_run else ():
            output.say(f"    {_changed(change)}")
    if not plans and wanted.max_nodes is None:
        output.say(f"nothing to apply: {file} has neither [templates.NAME] nor installation.max_nodes")
    elif dry_run and all(each.effect == "none" for each in plans) and wanted.max_nodes in (None, cap):
        output.say(f"nothing would change: the server has all of {file} already")
    elif dry_run:
        output.say(f"nothing was changed: apply it with `muster apply -f {file}`")


def _check(file: Path, plans: "Sequence[TemplatePlan]") -> None:
    """Raise everything that the server would refuse, at once, before anything is applied."""
    refused = [
        f"cannot apply {file} (templates.{plan.name}.{error.field}): {error.rule}"
        for plan in plans
        for error in plan.errors
    ]
    if refused:
        raise UsageProblem("\n".join(refused))


def _how(plan: "TemplatePlan") -> str:
    if plan.effect == "new":
        return f"new, revision {plan.revision}"
    if plan.effect == "none":
        return f"unchanged, revision {plan.revision}"
    if plan.effect == "adjusted":
        return f"adjusted, still revision {plan.revision}; no node is replaced"
    costs = [f"{counted(plan.warm_nodes_replaced, 'warm node')} replaced"]
    if plan.boots_forgotten:
        costs.append(f"{counted(plan.boots_forgotten, 'learned boot')} forgotten")
    return f"revision {plan.current_revision} → {plan.revision}; {', '.join(costs)}"


def _changed(change: "FieldChange") -> str:
    if change.field == "outfit":
        return "this server gives nodes another agent, address or runner than before"
    before, after = _short(change.before), _short(change.after)
    if not change.remakes or len(before) + len(after) <= SHOWN_MOST:
        return f"{change.field}: {before} → {after}"
    return f"{change.field}: changed"


def _short(value: object) -> str:
    import json

    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
