"""The port of node providers over `muster.slots`, for every integration whose nodes are processes here.

    provider   the verbs of the port, answered from the slots     launcher   one launch under the capacity
    identity   the proof of a joining agent

An integration subclasses `SlotProvider` and says how a slot is started. This package knows no integration.
"""
