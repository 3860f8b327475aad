#!/bin/sh
# Listens for jobs until it is told to end, or has done its one job.
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/bin/runner.py" run "$@"
