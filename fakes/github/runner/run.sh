#!/bin/sh
# Listens for jobs until it is told to end, has done its one job, or was removed. Like the real one's, its exit
# code tells nothing: whatever ends the listener for good is no reason to start it again.
here=$(cd "$(dirname "$0")" && pwd)
trap 'kill -INT $listener' INT TERM
python3 "$here/bin/runner.py" run "$@" &
listener=$!
wait $listener
wait $listener
exit 0
