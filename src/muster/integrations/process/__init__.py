"""Make nodes on this machine: each is a real agent process, kept by a keeper process, in a slot of its own.

    spawner           from a slot to a running keeper      sandbox        how nodes and jobs are wrapped
    drop_root         the program that gives up root       probe          whether a sandbox works here
    sandbox_entry     the program that enters as root      parts          all of it, for a server
    isolation_report  what is in force, in words

`muster.slots` owns slots, keepers and endings. `muster.slot_provider` owns launches and proofs.
"""
