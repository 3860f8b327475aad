"""`muster provider`: tries an executable that makes machines, and prints the protocol's schema."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import output
from muster.domain.errors import InvalidRequest
from muster.domain.template import RESOURCE_CLASSES, TemplateSpec

if TYPE_CHECKING:
    from muster.integrations.command.promises import Outcome, Trial

app = typer.Typer(help="Try an executable that makes machines.", no_args_is_help=True, add_completion=False)
MACHINES_MOST = 10


@app.callback()
def root() -> None:
    """Try an executable that makes machines (docs/provider-protocol.md)."""


@app.command()
def schema() -> None:
    """Print the JSON Schema of the protocol."""
    from muster.integrations.command import protocol

    output.print_json(protocol.schema())


@app.command()
def check(
    executable: Annotated[Path, typer.Argument(metavar="EXECUTABLE", help="The file to try.")],
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="TOML with the keys of [command.NAME], and settings and resource_class of a template.",
        ),
    ] = None,
    machines: Annotated[
        int, typer.Option(min=1, max=MACHINES_MOST, help="How many machines it may make at once.")
    ] = 2,
    dry: Annotated[bool, typer.Option("--dry", help="Make no machine.")] = False,
) -> None:
    """Try each promise of the protocol against the real thing, and end what was made.

    Exits with 1 if a promise was not kept.
    """
    import asyncio

    from muster.integrations.command.promises import Verdict

    outcomes = asyncio.run(_tried(_trial(executable, file, machines), dry=dry))
    broken = sum(each.verdict is Verdict.FAILED for each in outcomes)
    if output.wants_json():
        output.print_json({"kept": not broken, "promises": outcomes})
    else:
        output.say(f"{broken} of {len(outcomes)} promises not kept" if broken else "every promise kept")
    raise typer.Exit(1 if broken else 0)


async def _tried(trial: "Trial", *, dry: bool) -> "list[Outcome]":
    from muster.integrations.command.promises import tried

    found = []
    async for outcome in tried(trial, dry=dry):
        found.append(outcome)
        if not output.wants_json():
            words = f": {outcome.words}" if outcome.words else ""
            output.say(f"{outcome.verdict:<8}{outcome.promise}{words}")
    return found


def _trial(executable: Path, file: Path | None, machines: int) -> "Trial":
    from muster.integrations.command.promises import Trial
    from muster.integrations.command.tables import SETTINGS

    content = _read(file)
    settings = content.pop("settings", {})
    size = content.pop("resource_class", "small")
    if size not in RESOURCE_CLASSES:
        raise InvalidRequest("resource_class", size, f"must be one of {', '.join(RESOURCE_CLASSES)}")
    given = {key: SETTINGS.keys[key](key, value) for key, value in content.items()}
    config = SETTINGS.kind(**{**given, "name": "check", "executable": executable.absolute()})
    template = TemplateSpec(
        name="check", provider=config.provider, tables={"command": {"settings": settings}}
    )
    return Trial(config=config, template=template, resource_class=RESOURCE_CLASSES[size], count=machines)


def _read(file: Path | None) -> dict[str, Any]:
    import tomllib

    from muster.config.settings_file import nearest
    from muster.integrations.command.tables import SETTINGS

    if file is None:
        return {}
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest("file", str(file), f"can't be read: {error}") from error
    known = {*SETTINGS.keys, "settings", "resource_class"} - {"executable"}
    for key in content:
        if key not in known:
            raise InvalidRequest(key, content[key], nearest(key, known))
    return content
