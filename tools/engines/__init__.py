"""Real container engines for tests, the demo and benchmarks: Podman and dockerd, each with a root of its own.

    getting    what `make engines` installs or unpacks           running    start, stop, kill and restart one
    image      a small image with this machine's Python          registry   a registry that serves one image

An engine here shares nothing with one that the machine has: socket, storage and state are in its directory.
"""
