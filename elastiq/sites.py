"""Nodes whose site is not configured any more. Imported when there are some."""

from __future__ import annotations

from typing import Collection

from elastiq.nodes import Registry
from elastiq.settings import Settings


def follow(registry: Registry, settings: Settings, sites: Collection[str]) -> None:
    """A site's name ends in ``#account``: when only that has changed, as with a new access key, the machines are
    still there and their nodes go along."""
    for node in [node for node in registry if node.site not in sites]:
        endpoint = node.site.partition("#")[0]
        same = [site for site in sites if site.partition("#")[0] == endpoint]
        pool = settings.pool(node.pool)
        if pool is not None and pool.site in same:
            same = [pool.site]
        if len(same) == 1:
            node.site = same[0]
            registry.touched[node.id] = node
