"""Run storms: real servers, agents and callers, hurt at random for minutes, then audited.

The callers speak plain HTTP. A sampler reads the process table and asks no server. A storm passes on four
conditions. Every acknowledged operation ended by its deadline plus a stated bound. No sample passed a cap.
Some request succeeded at least every 30 seconds. The event feed rebuilds every record.
"""
