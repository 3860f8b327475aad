"""Containers as nodes, on one or several Docker or Podman engines. See docs/docker.md.

    tables, spec   settings and what a template says        api         the Engine API over httpx
    names          names, labels and machine ids            body        the request that makes a container
    journal        launches and fates, kept as volumes      view        what an engine shows of us
    placement      which engine takes how many              launcher    one launch: placed and recorded
    images         pulls, with progress                     starter     from a record to a container that runs
    answers        states and causes in our words           logs        consoles
    looks          which engines answer, and what ended     watcher     deaths, told by the engine's events
    pruner         what is left of ended machines           parts       all of it, for a server
    identity       who a joining agent is                   inspection  what `muster doctor` asks an engine

The journal is the only memory: any replica can go on after any other was killed. Everything in it is written
once, by the first writer, because a volume's labels never change.
"""
