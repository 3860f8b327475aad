"""Make nodes on EC2: instant fleets, launch templates by content, machines that prove their identity.

    fleet             the request for machines              launch_templates    made and found by content hash
    user_data         the program of a new machine          placement           images and subnets, read once
    api               the SDK, at a bounded rate            describer           one batched look for all
    machines, tags    AWS's answers as machines             errors              AWS's error codes, translated
    identity          the proof of a joining machine        identity_documents  signed identity documents
    inspection        what `muster doctor` asks AWS         policies            what `muster iam` prints

Every decision is a pure function of its arguments. Only `api` knows the SDK, which is an extra.
"""
