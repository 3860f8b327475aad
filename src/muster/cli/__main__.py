"""Run `python -m muster.cli`: the same command, for a server that its own interpreter starts."""

from muster.cli import main

main()
