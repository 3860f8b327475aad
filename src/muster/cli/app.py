"""Define the `muster` command: list its subcommands, and turn every end into an exit code.

A subcommand's module is imported when it is called, not when it is listed, so that `muster --help` and
completion stay fast.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from muster.discovery import IntegrationBroken, entry_points
from muster.domain.errors import MusterError
from muster.integration import OPERATING, TRYING, Command

DAILY, CLUSTERS = "Nodes for runs", "Whole clusters"
LOOKING, ACCOUNTS = "Looking", "Servers and logins"
PANELS = (DAILY, CLUSTERS, LOOKING, ACCOUNTS, OPERATING, TRYING)
OWN: Mapping[str, tuple[str, str]] = {
    "provision": (DAILY, "Ask for ready nodes, all or nothing, and watch their progress."),
    "run": (DAILY, "Provision, run a command on every node, give the nodes back."),
    "exec": (DAILY, "Run a command on every node of a run."),
    "cp": (DAILY, "Copy files between this machine and a node."),
    "shell": (DAILY, "Open a terminal on a node of a run."),
    "logs": (DAILY, "Show what the commands of a run wrote."),
    "commands": (DAILY, "List the commands of runs; show or cancel one."),
    "extend": (DAILY, "Give a run more time."),
    "release": (DAILY, "Give the nodes of a run back."),
    "clusters": (CLUSTERS, "List clusters; create, show or delete one."),
    "status": (LOOKING, "Show problems first, with next steps."),
    "acknowledge": (LOOKING, "Mark findings of `muster status` as seen."),
    "nodes": (LOOKING, "List nodes; show, diagnose or terminate one."),
    "pools": (LOOKING, "Show each template's nodes against its bounds."),
    "jobs": (LOOKING, "List jobs that wait or run; show one, or see why it waits."),
    "operations": (LOOKING, "List operations; show, watch or cancel one, or see why it waits or ended."),
    "events": (LOOKING, "Show past events; follow new ones."),
    "audit": (LOOKING, "Show who did what; follow it or export it."),
    "templates": (LOOKING, "List templates; show one."),
    "login": (ACCOUNTS, "Log in to a server and use it from now on."),
    "logout": (ACCOUNTS, "End the login at a server."),
    "contexts": (ACCOUNTS, "List the servers that you logged in to; choose one."),
    "init": (OPERATING, "Write a commented muster.toml."),
    "serve": (OPERATING, "Run the server on this machine."),
    "service": (OPERATING, "Run the server as a systemd service."),
    "apply": (OPERATING, "Apply the templates and limits of a muster.toml."),
    "drain": (OPERATING, "Keep a node from further runs; terminate it when it is free."),
    "pause": (OPERATING, "Stop new claims and launches of a template, or of all."),
    "resume": (OPERATING, "End the pause of a template, or of all."),
    "tokens": (OPERATING, "Create, list and revoke API tokens."),
    "store": (OPERATING, "Create, check, back up or restore the store of a server."),
    "metrics": (OPERATING, "List metrics; print alert rules and a dashboard."),
    "doctor": (OPERATING, "Check this machine and the server, with next steps."),
}
_MODULES = {"resume": "pause"}
"""Commands whose module has another name."""


@cache
def commands() -> Mapping[str, Command]:
    """Return our own commands and those of integrations. `muster doctor` says why one can't be loaded."""
    found = {
        name: Command(*entry, module=f"muster.cli.{_MODULES.get(name, name)}") for name, entry in OWN.items()
    }
    for entry_point in entry_points():
        with suppress(IntegrationBroken), entry_point.usable():
            for name, command in entry_point.load().commands.items():
                if isinstance(command, Command):
                    found.setdefault(name, command)
    panels = dict.fromkeys((*PANELS, *(each.panel for each in found.values())))
    order = {panel: number for number, panel in enumerate(panels)}
    return dict(sorted(found.items(), key=lambda item: order[item[1].panel]))


class LazyGroup(TyperGroup):
    """Knows its commands' names and help lines; loads one when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load_command(cmd_name) if cmd_name in commands() else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table in plain text: drawing boxes takes longer to load than everything else."""
        width = max(map(len, commands()))
        for panel in dict.fromkeys(entry.panel for entry in commands().values()):
            with formatter.section(panel):
                of_panel = ((name, entry) for name, entry in commands().items() if entry.panel == panel)
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in of_panel])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(commands())  # type: ignore[assignment]  # names alone, for suggestions
        return super().resolve_command(ctx, args)


def load_command(name: str) -> Any:
    """Load a command: its module's function of the same name, or its `app` of several commands.

    It gets the option `--output`, which every command has.
    """
    from muster.cli.output import add_option

    module = import_module(commands()[name].module)
    several = getattr(module, "app", None)
    if several is None:
        several = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        several.command(name)(getattr(module, getattr(module, "NAME", name)))
    several.rich_markup_mode = None
    command = typer.main.get_command(several)
    add_option(command)
    return command


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


def _choose_context(name: str | None) -> None:
    if name is not None:
        os.environ["MUSTER_CONTEXT"] = name


@app.callback()
def root(
    *,
    version: bool = typer.Option(False, "--version", help="Show the version.", callback=_version),
    context: str | None = typer.Option(
        None, "--context", metavar="NAME", help="Ask this server, once.", callback=_choose_context
    ),
) -> None:
    """Run the `muster` command: a control plane that hands out ready compute."""


def run() -> NoReturn:
    """Run a command to its exit code. An error is one sentence on stderr, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal that can't show a sign shows a question mark
    try:
        code = _ended()
    except BrokenPipeError:
        code = _unread()
    except SystemExit as end:
        # The parser of the command line ends with 1 by itself if its output is not read.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        code = _unread()
    sys.exit(code)


def _ended() -> int:
    if asks_for_json(sys.argv[1:]):
        # Known before the options are read: what is wrong with them is told as JSON too.
        from muster.cli.output import Form, OutputSettings

        OutputSettings.form = Form.JSON
    try:
        code = app(prog_name="muster", standalone_mode=False)
    except typer.TyperException as problem:
        return _usage(problem)
    except MusterError as error:
        from muster.cli.output import report_error

        return report_error(error)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        raise
    except Exception as surprise:
        if os.environ.get("MUSTER_DEBUG"):
            raise
        from muster.cli.output import print_error

        words = " ".join(str(surprise).split()) or type(surprise).__name__
        return print_error(
            "internal", f"unexpected error: {words} (MUSTER_DEBUG=1 shows the traceback)", exit_code=1
        )
    return code if isinstance(code, int) else 0


def asks_for_json(words: Sequence[str]) -> bool:
    """Return whether a command line asks for `--output json`, in any of its spellings."""
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
    """End quietly when the reader stops: `muster events | head -1` is no failure."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)  # what is still unwritten is written there at the end, without a word
    os.close(null)
    return 0


def _usage(problem: typer.TyperException) -> int:
    from muster.cli.output import print_error, wants_json

    if type(problem).__name__ == "NoArgsIsHelpError" and not wants_json():
        typer.echo(problem.format_message())
        return problem.exit_code
    message = problem.format_message().rstrip(".").replace("Value error, ", "")
    if type(problem).__name__ == "NoArgsIsHelpError":
        message = "a command is missing"
    where = getattr(getattr(problem, "ctx", None), "command_path", "muster")
    see = " See" if message.endswith("?") else "; see"
    said = f"{message[:1].lower()}{message[1:]}{see} `{where} --help`"
    return print_error("usage", said, exit_code=problem.exit_code)
