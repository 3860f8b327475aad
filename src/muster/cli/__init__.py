"""The command line: one file per command, each importing what it needs when it runs.

app         the table of commands           durations   30m, 2h: read and shown
exits       exit codes, from errors          printing    text or JSON, tables that fit
connecting  where the server is              watching    an operation, live or line by line
streaming   output of commands, prefixed     choosing    which files of a tree are sent
packing     a tree as an archive             syncing     packed and sent
unpacking   an archive of results            fetching    results of each node, in their place
stdin       sent, or refused                 liveness    nodes that fall silent under commands
"""


def main() -> None:
    """Where the `muster` command starts."""
    from muster.cli.app import run

    run()
