"""`python -m muster.cli`: the same command, for a server that is started by its own interpreter."""

from muster.cli import main

main()
