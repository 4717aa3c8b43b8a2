"""Faults planted into the daemon, to prove that the simulation's checker can fail.

`python3 -m tests.mutants` runs seeds under each until it is caught. A mutant is the rewriting of one function's
source at run time, so that the table shows exactly what is wrong; nothing on the disk changes.
"""
