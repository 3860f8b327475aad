"""The `muster` command: names its subcommands, and nothing more."""

import typer

from muster.cli.simulate import simulate

app = typer.Typer(
    name="muster",
    help="A control plane that hands out ready compute.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """A control plane that hands out ready compute."""


app.command()(simulate)
