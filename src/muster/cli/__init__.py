"""The command line: one file per command, each importing what it needs when it runs.

app              the table of commands            options           options that commands share
connection       the server and its token         output            text or JSON, tables that fit
exits            exit codes, from errors          operation_watch   an operation, to its end
progress_views   progress, live or line by line   command_output    output of commands, prefixed
uploads          a tree of files for nodes        downloads         results of nodes
command_results  the worst exit code              durations         30m, 2h: read and shown
"""


def main() -> None:
    """Start the `muster` command."""
    from muster.cli.app import run

    run()
