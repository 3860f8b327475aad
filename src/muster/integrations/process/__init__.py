"""Nodes on this machine: each is a real agent process, kept by a keeper process, in a slot of its own.

    slots      what is on disk, and what it proves        processes  pids without confusion
    spawning   from a slot to a running keeper            killing    from "please end" to "nothing is left"
    keeper     the program that holds one slot's lock     sandbox    how nodes and jobs are wrapped
    stage      the program that gives up root before it   probe      whether that works here
    entry      the program that enters it as root         identity   who a joining agent is
    limits     rlimits and cgroups
    pruning    what is left of the gone                   reporting  what is in force, in words
    hearing    what a machine has said

The truth is on disk and in the kernel: a slot's lock is held exactly as long as its keeper lives, and a
keeper lives as long as anything of its node. So a server that died at any moment finds out what exists by
looking.
"""
