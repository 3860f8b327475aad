"""Storms: real servers, agents and callers, hurt at random for minutes, then audited.

The callers speak plain HTTP. The witness reads the process table and asks no server. A storm passes if every
acknowledged operation ended by its deadline plus a stated bound, if no cap was passed in any sample, if some
request succeeded at least every 30 seconds, and if the event feed rebuilds every record.
"""
