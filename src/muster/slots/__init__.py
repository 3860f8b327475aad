"""Nodes as processes of one machine: what is on its disk, and what its kernel proves.

    tree         slots on disk, records and locks      processes  pids without confusion
    spawn        from a slot to a running keeper       keeper     the program that holds one slot's lock
    states       which slots live, stop or are gone    limits     rlimits and cgroups
    termination  from a request to "nothing is left"   pruner     what is left of the gone
    grants       a launch under the capacity           console    what a machine has said

The truth is on disk and in the kernel. A slot's lock is held exactly as long as its keeper lives, and a
keeper lives as long as anything of its node. So a server that died at any moment finds out what exists by
looking. Integrations use this package on the server's own machine, or send its files to another one. So it
runs on any Python from 3.8 on, and imports nothing but the standard library and itself.
"""
