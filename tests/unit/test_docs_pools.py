"""The example of docs/pools.md is a configuration, and means what the page says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from elastiq import config
from elastiq.cli.parser import VERBS
from elastiq.interfaces import JobGroup, Resources
from elastiq.keys import CORE, POOL
from elastiq.nodes import Registry
from elastiq.planner import plan
from elastiq.plugin_loader import batch_class, cloud_class
from elastiq.settings import Settings
from tests.unit.config_files import load
from tests.unit.values import situation

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "pools.md").read_text("utf-8")


def example() -> str:
    """The first block of the page."""
    lines = PAGE.split("## An example")[1].split("## ")[0].splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)


@pytest.fixture
def loaded(tmp_path: Path) -> config.Loaded:
    return load(tmp_path, example())


@pytest.fixture
def settings(loaded: config.Loaded) -> Settings:
    return loaded.settings


def test_it_is_read_without_a_warning(loaded: config.Loaded) -> None:
    assert loaded.warnings == []


def test_the_pools_of_one_account_are_one_site(settings: Settings) -> None:
    assert [[pool.name for pool in pools] for pools in settings.sites.values()] == [["ec2", "gpu"], ["aws"]]


def test_the_pools_have_the_terms_that_the_page_tells_of(settings: Settings) -> None:
    local, aws, gpu = settings.pools
    assert (local.min_vms, local.max_vms, local.terms.min_idle_vms, local.terms.priority) == (2, 20, 1, 10.0)
    assert (aws.min_vms, aws.max_vms, aws.terms.min_idle_vms, aws.terms.priority) == (0, 40, 0, 5.0)
    assert (gpu.min_vms, gpu.max_vms, gpu.terms.min_idle_vms, gpu.terms.priority) == (0, 4, 0, 0.0)
    assert (gpu.capacity.gpus, gpu.terms.worker_ad) == (1.0, ("HasCuda = true",))
    assert (local.capacity.cpus, local.capacity.gpus, aws.capacity) == (8.0, 0.0, Resources())
    assert [settings.idle_for_time_s_of(pool.name) for pool in settings.pools] == [1800.0, 300.0, 1800.0]
    assert [len(pool.offers()) for pool in settings.pools] == [1, 12, 1]
    assert (aws.price("c5.xlarge", "spot"), aws.price("c5.xlarge", "on-demand")) == (0.09, 0.19)


def jobs_of(asked: Resources, waiting: int, settings: Settings) -> dict[str, int]:
    """The machines of each pool for so many waiting jobs, all of which have waited long enough."""
    registry = Registry()
    site = settings.pools[1].site
    for name, cpus, memory_mb in (("c5.xlarge", 4, 8192), ("c5.2xlarge", 8, 16384), ("m5.xlarge", 4, 16384)):
        registry.catalogue[site, name] = Resources(cpus, memory_mb, gpus=0)
    group = JobGroup("g", asked, waiting, running=0)
    made = plan(situation(group, registry=registry, settings=settings, sites=frozenset(settings.sites), waited_s=100.0))
    counted: Counter[str] = Counter()
    for order in made.launches:
        counted[order.offer.pool] += order.count
    return dict(counted)


def test_jobs_go_to_the_local_cloud_first_then_to_aws_and_to_gpus_only_if_they_ask_for_them(settings: Settings) -> None:
    assert jobs_of(Resources(cpus=1), 0, settings) == {"ec2": 2}
    assert jobs_of(Resources(cpus=1), 16, settings) == {"ec2": 3}, "one is a spare"
    assert jobs_of(Resources(cpus=1), 8 * 25, settings) == {"ec2": 20, "aws": 5}
    assert jobs_of(Resources(cpus=1, gpus=1), 3, settings) == {"ec2": 2, "gpu": 3}


def test_its_schedules_change_what_they_say(settings: Settings) -> None:
    assert [(one.name, one.pool, one.limits) for one in settings.schedules] == [
        ("day", "ec2", (("min_idle_vms", 3),)),
        ("weekend", "", (("max_vms", 30),)),
    ]


def test_the_page_names_no_key_section_or_command_that_there_is_not() -> None:
    batch, cloud = batch_class("htcondor"), cloud_class("ec2")
    keys = {option.name for table in (*CORE.values(), POOL, batch.OPTIONS, cloud.OPTIONS) for option in table}
    named = set(re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", PAGE))
    assert named - keys == set()
    commands = set(re.findall(r"elastiqctl ([a-z-]+)", PAGE.replace("elastiqctl\n", "elastiqctl ")))
    assert commands <= set(VERBS)
