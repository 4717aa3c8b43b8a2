"""What outlives a change of the configuration."""

from __future__ import annotations

import random
from typing import Mapping

import pytest

from elastiq.core import Core
from elastiq.interfaces import Pool
from elastiq.nodes import Node, State
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster


@pytest.fixture
def core() -> Core:
    cluster = Cluster(Settings("test", (Pool("ec2", "sim", ("small",)),)), {}, random.Random(1))
    daemon = cluster.start_daemon()
    return daemon.core


def with_sites(core: Core, sites: Mapping[str, str]) -> None:
    """Pools by name, each at a site."""
    cloud = next(iter(core.clouds.values()))
    core.settings = Settings("test", tuple(Pool(name, site, ("small",)) for name, site in sites.items()))
    core.clouds = dict.fromkeys(sites.values(), cloud)


@pytest.mark.parametrize(
    ("pool", "sites", "then"),
    [
        ("a", {"a": "cloud#new"}, "cloud#new"),
        ("a", {"a": "cloud#new", "b": "cloud#other"}, "cloud#new"),
        ("removed", {"b": "cloud#new"}, "cloud#new"),
        ("removed", {"b": "cloud#new", "c": "cloud#other"}, "cloud#old"),  # nobody knows which
        ("a", {"a": "elsewhere#new"}, "cloud#old"),  # another endpoint knows nothing of it
        ("a", {"a": "cloud#old"}, "cloud#old"),
    ],
)
def test_machines_stay_known_when_only_the_key_of_their_account_changes(
    core: Core, pool: str, sites: dict[str, str], then: str
) -> None:
    node = core.registry.add(Node("i-1", pool, "cloud#old", State.IDLE, instance_id="i-1"))
    with_sites(core, sites)
    core.follow_sites()
    assert node.site == then


def test_the_change_of_site_is_stored(core: Core) -> None:
    core.registry.add(Node("i-1", "a", "cloud#old", State.IDLE, instance_id="i-1"))
    with_sites(core, {"a": "cloud#new"})
    core.follow_sites()
    core.persist()
    assert [node.site for node in core.store.nodes()] == ["cloud#new"]
