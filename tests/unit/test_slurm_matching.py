"""Which jobs of Slurm a would-be machine could run: partitions, features, gres."""

from __future__ import annotations

from typing import Optional

import pytest

from elastiq.interfaces import JobGroup, Machine, Resources
from elastiq.plugins.batch import slurm_matching as matching
from elastiq.plugins.batch.slurm_options import own_nodes
from elastiq.plugins.batch.slurm_records import Node


@pytest.mark.parametrize(
    ("constraint", "features", "serves"),
    [
        ("gpu", "gpu,fast", True),
        ("gpu", "fast", False),
        ("gpu&fast", "gpu,fast", True),
        ("gpu&fast", "gpu", False),
        ("gpu,fast", "gpu", False),
        ("gpu|fast", "fast", True),
        ("gpu|fast", "slow", False),
        ("a&b|c", "c", True),
        ("a&(b|c)", "c", False),
        ("a&(b|c)", "a,c", True),
        ("[rack1|rack2]", "rack2", True),
        ("[rack1|rack2]", "rack3", False),
        ("[rack1|rack2]&gpu", "rack2", False),
        ("[rack1*2&rack2*4]", "rack2", True),
        ("[rack1*2&rack2*4]", "rack3", False),
        ("[(knl&snc4)*2&haswell*1]", "knl,snc4", True),
        ("[(knl&snc4)*2&haswell*1]", "knl", False),
        ("gpu*4", "gpu", True),
        ("GPU", "gpu", False),  # Slurm distinguishes
        ("", "gpu", None),
        ("gpu&", "gpu", None),
        ("(gpu", "gpu", None),
        ("gpu)", "gpu", None),
        ("[gpu)", "gpu", None),
    ],
)
def test_whether_a_node_can_be_one_of_the_jobs(constraint: str, features: str, serves: Optional[bool]) -> None:
    assert matching.satisfies(constraint, frozenset(features.split(","))) is serves


def why_not(*ad: str, worker_ad: tuple[str, ...] = (), portrait: str = "", cpus: float = 1) -> str:
    group = JobGroup("key", Resources(cpus=cpus), 1, ad=ad)
    machine = Machine("pool", "flavour", Resources(cpus=4), portrait, worker_ad)
    return matching.matched([group], [machine])["key", machine]


def test_what_nobody_knows_of_a_machine_is_no_reason_against_it() -> None:
    assert why_not("Partitions = long", "Features = gpu", "Gres = gpu:tesla:1") == ""


def test_sizes_count_first() -> None:
    assert "64" in why_not(cpus=64)


def test_a_pool_says_its_partitions_features_and_gres() -> None:
    pool = ("Features = gpu,fast", "Partitions = long", "Gres = gpu:tesla:2")
    assert why_not("Partitions = long,short", "Features = gpu&fast", "Gres = gpu:tesla:2", worker_ad=pool) == ""
    assert "partition short" in why_not("Partitions = short", worker_ad=pool)
    assert "slow" in why_not("Features = slow", worker_ad=pool)
    assert "gpu:tesla:4" in why_not("Gres = gpu:tesla:4", worker_ad=pool)
    assert "gpu:a100:1" in why_not("Gres = gpu:a100:1", worker_ad=pool)
    assert "none" in why_not("Features = gpu", worker_ad=("Features =",))


def test_lines_of_worker_ad_are_taken_as_people_write_them() -> None:
    assert why_not("Features = gpu", worker_ad=('feature = "gpu"', "HasThis = true")) == ""
    assert why_not("Features = cpu", worker_ad=('feature = "gpu"',))


def test_what_the_last_worker_showed_counts_where_the_pool_does_not_say() -> None:
    node = Node("w1", "IDLE", frozenset(), features=("slow",), partitions=("main", "long"), gres="")
    seen = matching.portrait(node)
    assert why_not("Partitions = long", portrait=seen) == ""
    assert "features" in why_not("Features = gpu", portrait=seen)
    assert why_not("Features = gpu", portrait=seen, worker_ad=("Features = gpu",)) == ""
    assert "no gres" in why_not("Gres = gpu:tesla:1", portrait=seen)


def test_a_constraint_that_cannot_be_read_is_left_to_slurm() -> None:
    assert why_not("Features = gpu&&fast", worker_ad=("Features = slow",)) == ""


# --------------------------------------------------------------------------- the key predeclared_nodes


def test_nodes_are_named_for_a_pool_or_for_any() -> None:
    found = own_nodes(["GPU: gpu[1-2]", "cloud[01-02],x1", "gpu: extra"])
    assert found == {"gpu": ["gpu1", "gpu2", "extra"], "": ["cloud01", "cloud02", "x1"]}


@pytest.mark.parametrize("line", ["gpu: a b", "gpu[1-", ": x", "a: b: c", "gpu:"])
def test_what_names_no_nodes_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        own_nodes([line])
