"""elastiq: the cluster that scales itself.

A daemon for the head node of a virtual cluster: it launches instances when jobs wait and
drains and ends them when they stay idle, within quotas and never at the price of a running job.
"""

from __future__ import annotations

__version__ = "2.0.0.dev0"
