"""Workflows on the simulated GitHub, and nodes that run their jobs.

faults      what goes wrong at GitHub                 transport  how one replica reaches it
github      GitHub in virtual time                    runner     a runner's process on a node
webhooks    deliveries: late, lost, repeated, forged  workflows  who begins runs, and cancels some
side        all of it, as the world builds it
"""
