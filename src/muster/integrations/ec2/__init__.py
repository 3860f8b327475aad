"""Nodes on EC2: instant fleets, launch templates by content, machines that prove who they are.

    fleet             the request for machines                  launching    launch templates kept in step
    launch_template   what a machine is, and its hash           survey       images and subnets, seen once
    user_data         the program that a machine starts with    describer    one batched look for everybody
    api, pacing       the SDK, at a bounded rate                reading      AWS's words into ours
    documents         signed identity documents                 identity     who a joining machine is
    inspection        what `muster doctor` asks AWS             policies     what `muster iam` prints

Everything that decides is a pure function of its arguments; only `api` knows the SDK, which is an extra.
"""
