"""Workloads that were: the logs of batch systems, read line by line as the jobs of a simulated cluster."""
