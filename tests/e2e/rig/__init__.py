"""A real HTCondor pool, an EC2 API over HTTP, and instances that become workers; see ../README.md.

Layers, each importing only those above it:
    places      names, addresses and directories
    process     commands and background processes that can be ended surely
    debian      HTCondor's packages unpacked into a root of their own
    network     the network namespaces
    htcondor    configurations, the head, the tools
    worker      one machine of the pool
    ec2_*       the EC2 API and the machines behind it
    client      what the tests use of all this
"""
