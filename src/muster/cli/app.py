"""The `muster` command: names its subcommands, and turns whatever ends them into an exit code.

A subcommand's module is imported when it is called, not when it is listed, so that `muster --help` and
completion stay fast however many there are.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from muster.domain.errors import MusterError

DAILY, CLUSTERS = "Nodes for runs", "Whole clusters"
LOOKING, OPERATING, TRYING = "Looking", "Operating", "Trying it out"


@dataclass(frozen=True, slots=True)
class Entry:
    panel: str
    help: str
    where: str = ""
    """The module, if it isn't named like the command."""


COMMANDS: Mapping[str, Entry] = {
    "provision": Entry(DAILY, "Ask for ready nodes, all or nothing, and watch them come."),
    "run": Entry(DAILY, "Provision, run a command on every node, give the nodes back."),
    "exec": Entry(DAILY, "Run a command on every node of a run."),
    "logs": Entry(DAILY, "Show what the commands of a run wrote."),
    "commands": Entry(DAILY, "List the commands of runs; show or cancel one."),
    "extend": Entry(DAILY, "Give a run more time."),
    "release": Entry(DAILY, "Give the nodes of a run back."),
    "clusters": Entry(CLUSTERS, "List clusters; create, show or delete one."),
    "status": Entry(LOOKING, "Show what is wrong first, and what to do about it."),
    "nodes": Entry(LOOKING, "List nodes; show, diagnose or terminate one."),
    "pools": Entry(LOOKING, "Show each template's nodes against its bounds."),
    "operations": Entry(LOOKING, "List operations; show, watch, cancel one, or ask why it waits."),
    "events": Entry(LOOKING, "Show what happened; follow what happens."),
    "templates": Entry(LOOKING, "List templates; show one."),
    "serve": Entry(OPERATING, "Run the server on this machine."),
    "apply": Entry(OPERATING, "Apply the templates and limits of a muster.toml."),
    "drain": Entry(OPERATING, "Never give a node to another run; end it once it is free."),
    "pause": Entry(OPERATING, "Hold back new claims and launches."),
    "resume": Entry(OPERATING, "Let a paused template, or everything, go on."),
    "tokens": Entry(OPERATING, "Create, list and revoke API tokens."),
    "iam": Entry(OPERATING, "Print what server and nodes must be allowed in AWS."),
    "store": Entry(OPERATING, "Create, check or back up the store of a server."),
    "doctor": Entry(OPERATING, "Check this machine and the server, and say what to do."),
    "demo": Entry(TRYING, "See it work: a server and three nodes, cold and warm."),
    "demo-aks": Entry(TRYING, "See clusters come and go on a simulated Azure.", where="demo_aks"),
    "simulate": Entry(TRYING, "Run the control plane in a simulated world of trouble."),
}


class LazyGroup(TyperGroup):
    """Knows its commands' names and help lines; loads one when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return loaded(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """From the table alone, in plain text: what draws boxes takes longer to load than all of the rest."""
        width = max(map(len, COMMANDS))
        for panel in dict.fromkeys(entry.panel for entry in COMMANDS.values()):
            with formatter.section(panel):
                of_panel = ((name, entry) for name, entry in COMMANDS.items() if entry.panel == panel)
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in of_panel])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # names alone, for suggestions
        return super().resolve_command(ctx, args)


def loaded(name: str) -> Any:
    """The command of that name: its module's function of the same name, or its `app` of several."""
    module = import_module(f"muster.cli.{COMMANDS[name].where or name}")
    several = getattr(module, "app", None)
    if several is None:
        several = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        several.command(name)(getattr(module, getattr(module, "NAME", name)))
    several.rich_markup_mode = None
    return typer.main.get_command(several)


app = typer.Typer(
    name="muster",
    cls=LazyGroup,
    help="A control plane that hands out ready compute.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        import muster

        typer.echo(f"muster {muster.__version__}")
        raise typer.Exit


@app.callback()
def root(
    *, version: bool = typer.Option(False, "--version", help="Show the version.", callback=_version)
) -> None:
    """A control plane that hands out ready compute."""


def run() -> NoReturn:
    """Run a command to its exit code. An error is one sentence on stderr; nobody sees a trace of one."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal that can't show a sign shows a question mark
    try:
        code = _ended()
    except BrokenPipeError:
        code = _unread()
    except SystemExit as end:
        # What reads the command line ends with 1 of its own accord if nobody reads what we write.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        code = _unread()
    sys.exit(code)


def _ended() -> int:
    if asks_for_json(sys.argv[1:]):
        # Known before the options are read: what is wrong with them is told as JSON too.
        from muster.cli.printing import Chosen, Form

        Chosen.form = Form.JSON
    try:
        code = app(prog_name="muster", standalone_mode=False)
    except typer.TyperException as problem:
        return _usage(problem)
    except MusterError as error:
        from muster.cli.printing import tell

        return tell(error)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        raise
    except Exception as surprise:
        if os.environ.get("MUSTER_DEBUG"):
            raise
        from muster.cli.printing import complain

        words = " ".join(str(surprise).split()) or type(surprise).__name__
        return complain("internal", f"cannot go on: {words} (MUSTER_DEBUG=1 shows where)", exit_code=1)
    return code if isinstance(code, int) else 0


def asks_for_json(words: Sequence[str]) -> bool:
    """Whether `--output json` stands among the words of a command line, however it is written."""
    asked = False
    for number, word in enumerate(words):
        if word == "--":
            break
        if word in ("--output", "-o"):
            asked = words[number + 1 : number + 2] == ["json"]
        elif word.startswith("--output=") or (word.startswith("-o") and word != "-o"):
            asked = word in ("--output=json", "-ojson")
    return asked


def _unread() -> int:
    """Whoever read our output has seen enough: `muster events | head -1` is no failure."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)  # what is still unwritten is written there at the end, without a word
    os.close(null)
    return 0


def _usage(problem: typer.TyperException) -> int:
    from muster.cli.printing import complain, wants_json

    if type(problem).__name__ == "NoArgsIsHelpError" and not wants_json():
        typer.echo(problem.format_message())
        return problem.exit_code
    message = problem.format_message().rstrip(".").replace("Value error, ", "")
    if type(problem).__name__ == "NoArgsIsHelpError":
        message = "a command is missing"
    where = getattr(getattr(problem, "ctx", None), "command_path", "muster")
    see = " See" if message.endswith("?") else "; see"
    said = f"{message[:1].lower()}{message[1:]}{see} `{where} --help`"
    return complain("usage", said, exit_code=problem.exit_code)
