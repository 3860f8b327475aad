#!/bin/sh
# Registers this directory as a runner, or removes it: the same words as the real one's.
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" = remove ]; then
    shift
    exec python3 "$here/bin/runner.py" remove "$@"
fi
exec python3 "$here/bin/runner.py" configure "$@"
