"""Machines made by an executable of the operator's choice. docs/provider-protocol.md is the protocol.

tables       the settings [command.NAME] and what a template says
calls        one call of an executable: JSON in, JSON out, bounded in time and size
protocol     the shapes of requests and answers
executable   the verbs of Muster's own protocol
garm         the same verbs for external provider binaries of GARM
machines     names, secrets and start scripts of the machines of a launch
provider     the NodeProvider over one of both dialects
identity     how a machine proves who it is
doctor       the lines of `muster doctor`
promises     what `muster provider check` tries
commands     `muster provider`
"""
