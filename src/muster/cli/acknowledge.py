"""`muster acknowledge`: hide findings that were seen, until they happen again."""

from typing import Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls, open_client
from muster.cli.exits import UsageProblem


def acknowledge(
    findings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FINDING]...", help="As `muster status` names them, e.g. paused.ci."),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All present findings.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Show the finding again.")] = False,
) -> None:
    """Hide findings. They come back when they happen again or get worse.

    A finding without a known start, such as a slow store, comes back after an hour.
    """
    if bool(findings) == everything:
        raise UsageProblem(
            "cannot acknowledge without a finding: name some as in `muster status`, or use --all"
        )
    with open_client() as client:
        seen = client.send(calls.overview())
        if everything and undo:
            findings = [each.finding.id for each in seen.acknowledged]
        elif everything:
            findings = [each.id for each in seen.findings]
        for name in findings or ():
            seen = client.send(calls.unacknowledge(name) if undo else calls.acknowledge(name))
    done = "told again" if undo else "acknowledged"
    none = "nothing was acknowledged" if undo else "there is nothing to acknowledge"
    output.show(seen, *([f"✔ {name} is {done}" for name in findings or ()] or [f"✔ {none}"]))
