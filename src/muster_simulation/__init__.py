"""A world in one process: virtual time, mortal processes, a simulated cloud, fault plans and invariants.

Everything here is deterministic: the same seed gives the same history, event by event, on any machine.
"""
