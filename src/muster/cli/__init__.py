"""The command line: one file per command, each importing what it needs when it runs.

app         the table of commands           durations   30m, 2h: read and shown
exits       exit codes, from errors          printing    text or JSON, tables that fit
connecting  where the server is              watching    an operation, live or line by line
streaming   output of commands, prefixed     packing     trees to send, results to unpack
"""


def main() -> None:
    """Where the `muster` command starts."""
    from muster.cli.app import run

    run()
