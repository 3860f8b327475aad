"""Containers as nodes, on one or several Docker or Podman engines. See docs/docker.md.

    tables, spec   settings and what a template says        api         the Engine API over httpx
    names          names, labels and machine ids            body        the request that makes a container
    journal        launches and fates, kept as volumes      view        what an engine shows of us
    placing        which engine takes how many              launching   one launch: placed and recorded
    pulling        images, with progress                    starting    from a record to a container that runs
    reading        states and causes in our words           logs        consoles
    watching       deaths, told by the engine's events      pruning     what is left of ended machines
    identity       who a joining agent is                   inspection  what `muster doctor` asks an engine

The journal is the only memory: any replica can go on after any other was killed. Everything in it is written
once, by the first writer, because a volume's labels never change.
"""
