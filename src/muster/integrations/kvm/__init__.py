"""Make nodes as microVMs of this machine: each is a QEMU process, kept by a keeper process, in a slot.

    qemu       the command line of one machine            accelerators   which accelerators work here
    spawner    from a slot to a running keeper            start          the script that the guest runs
    provider   the verbs of the port                      parts          all of it, for a server
    identity   what makes one machine unlike another      guest_identity its reader, inside the guest
    snapshots  one per template and class                 snapshot_maker the program that makes one
    recipe     what a snapshot is made from

`muster.slots` owns slots, keepers and endings. `muster.slot_provider` owns launches and proofs.
"""
