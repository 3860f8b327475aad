"""Nodes on this machine: each is a real agent process, kept by a keeper process, in a slot of its own.

    launching  one launch under the capacity              machines   a slot as a machine of the port
    spawning   from a slot to a running keeper            sandbox    how nodes and jobs are wrapped
    stage      the program that gives up root before it   probe      whether that works here
    entry      the program that enters it as root         identity   who a joining agent is
    reporting  what is in force, in words

Slots, keepers and endings are those of `muster.slots`.
"""
