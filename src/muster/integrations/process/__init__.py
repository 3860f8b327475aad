"""Make nodes on this machine: each is a real agent process, kept by a keeper process, in a slot of its own.

    launcher          one launch under the capacity        machines       a slot as a machine of the port
    spawner           from a slot to a running keeper      sandbox        how nodes and jobs are wrapped
    drop_root         the program that gives up root       probe          whether a sandbox works here
    sandbox_entry     the program that enters as root      identity       the proof of a joining agent
    isolation_report  what is in force, in words           parts          all of it, for a server

`muster.slots` owns slots, keepers and endings.
"""
