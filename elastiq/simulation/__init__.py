"""The daemon's surroundings in virtual time: clock, executor, batch system and cloud, all from one seed.

Only the standard library is used here, so that the simulated cluster runs where neither boto3 nor
HTCondor's bindings are installed.
"""
