"""Nodes on machines that you own, reached by ssh: see docs/ssh.md.

    on the server                                         on a host, on any Python from 3.8 on
    inventory   hosts from the settings                   remote   answers requests over one ssh session
    command     how `ssh` is called                       facts    what the host is and has
    session     one ssh session to one host               scopes   limits by systemd
    hosts       all hosts: reachable, or away             (and `muster.slots`)
    placement   which hosts a launch gets
    launcher    one launch over several hosts             bundle   these files as one text
    provider    the port                                  identity who a joining agent is
    tunnels     the way back for hosts without one        trust    host keys

The truth about nodes is on the hosts. A host that can't be reached is uncertain: its nodes are neither
alive nor gone, and it takes no new ones until it answers again.
"""
