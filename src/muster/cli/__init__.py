"""The command line: one file per command, each importing what it needs when it runs."""


def main() -> None:
    """Where the `muster` command starts."""
    from muster.cli.app import app

    app()
