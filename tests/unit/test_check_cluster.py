"""elastiqctl check: whether workers and instances can be matched, and what each pool may have."""

from __future__ import annotations

from typing import Any, Optional, cast

import pytest

from elastiq.cli import check, cluster_checks
from elastiq.interfaces import (
    Instance,
    Instances,
    InstanceState,
    Owner,
    Pool,
    SourceError,
    Worker,
    Workers,
    WorkerState,
)
from elastiq.plugin_loader import batch_class
from elastiq.settings import Settings

OWNER = Owner("test", "0123456789abcdef" * 2, frozenset({"10.0.0.1"}), "i-head")


def worker(name: str, address: str, instance_id: Optional[str] = None) -> Worker:
    return Worker(name, WorkerState.IDLE, frozenset({address}), instance_id)


def instance(name: str, address: str, state: InstanceState = InstanceState.RUNNING) -> Instance:
    return Instance(name, state, frozenset({address}))


SITES = [
    Instances((instance("i-1", "10.0.1.1"), instance("i-old", "10.0.1.9", InstanceState.TERMINATED))),
    Instances((instance("i-2", "10.0.2.2"),), foreign=1, foreign_addresses=frozenset({"10.0.3.3"})),
]


@pytest.mark.parametrize(
    ("workers", "level", "words"),
    [
        ([worker("w1", "10.0.1.1", "i-1"), worker("w2", "10.9.9.9", "i-2")], "ok", "2 by their id, 0 by address"),
        ([worker("w1", "10.0.1.1")], "ok", "1 by address; the id is surer"),
        ([worker("w1", "10.0.1.1", "i-1"), worker("x", "10.0.3.3")], "ok", "x: on an instance that is not elastiq's"),
        ([worker("w1", "10.0.1.1", "i-1"), worker("x", "10.7.7.7")], "warning", "x: no instance has its id or address"),
        (
            [worker("w1", "10.0.1.1"), worker("w2", "10.0.1.1")],
            "warning",
            "w1, w2: more than one worker has the id or an",
        ),
        ([worker("w1", "10.9.9.8", "i-1"), worker("w2", "10.9.9.9", "i-1")], "warning", "an address of i-1"),
        ([worker("w1", "10.0.1.1", "i-1"), worker("w2", "10.0.1.1", "i-2")], "ok", "2 by their id"),
        ([worker("x", "10.7.7.7", "i-else")], "warning", "x: its instance has ended, or no site lists it"),
        ([worker("x", "10.0.1.9", "i-old")], "warning", "x: its instance has ended"),
    ],
)
def test_a_worker_is_told_by_its_id_or_an_address(workers: list[Worker], level: str, words: str) -> None:
    made = cluster_checks.judged(workers, SITES)
    assert made.level == level and words in made.text and (made.remedy or level == "ok")
    assert "EC2" not in made.remedy, "words of one batch system for all"


class Batch:
    def __init__(self, *workers: Worker) -> None:
        self._workers = workers

    def workers(self) -> Workers:
        return Workers(self._workers)


class Site:
    def instances(self, known: frozenset[str]) -> Instances:
        return SITES[0]


def of_cluster(batch: Any, site: Any, **settings: Any) -> Any:
    looks = cluster_checks.looks(Settings("test", **settings), OWNER, batch, [site])
    return list(looks[cluster_checks.SUBJECT]())


def test_the_head_node_and_static_workers_need_no_instance() -> None:
    others = (worker("head", "10.0.0.1"), worker("old", "10.7.7.7"))
    (found,) = of_cluster(Batch(*others, worker("w1", "10.0.1.1", "i-1")), Site(), static_workers=("old",))
    assert found.level == "ok"
    (found,) = of_cluster(Batch(*others), Site(), static_workers=("old",))
    assert found.level == "warning" and "shows no worker yet" in found.text


class NamingBatch(Batch):
    def __init__(self, *named: tuple[str, str, bool]) -> None:
        super().__init__()
        self._named = named

    def pools_named(self) -> Any:
        return self._named


@pytest.mark.parametrize(
    ("named", "levels", "words"),
    [
        ([("complex_values", "Large", True), ("complex_values", "m5.Large", True)], {"ok"}, "are there"),
        ([], {"ok"}, "none is named"),
        ([("complex_values", "nosuch", True)], {"warning"}, "complex_values names `nosuch`, which is no pool and no"),
        ([("`jobs`", "m5.large", False)], {"warning"}, "`jobs` names `m5.large`, which is no pool"),
        ([("`jobs`", f"p{number}", False) for number in range(5)], {"warning"}, "(and 2 more)"),
    ],
)
def test_a_name_that_is_no_pools_is_told_where_the_batch_system_names_them(
    named: list[tuple[str, str, bool]], levels: set[str], words: str
) -> None:
    settings = Settings("test", pools=(Pool("large", "site", ("m5.large",)),))
    made = list(cluster_checks.looks(settings, OWNER, cast(Any, NamingBatch(*named)), [])[cluster_checks.POOLS]())
    assert {check.level for check in made} == levels and words in made[0].text
    assert cluster_checks.POOLS not in cluster_checks.looks(settings, OWNER, cast(Any, Batch()), [])


@pytest.mark.parametrize(
    ("plugin", "keys", "named"),
    [
        ("gridengine", {"complex_values": ["Large: slots=4"]}, [("complex_values", "large", True)]),
        ("slurm", {"predeclared_nodes": ["large: n[1-2]", "n3"]}, [("predeclared_nodes", "large", False)]),
        ("celery", {"queues": ["render pools=large"]}, [("the queue render", "large", False)]),
    ],
)
def test_the_plugins_whose_keys_name_pools_tell_which(plugin: str, keys: Any, named: Any) -> None:
    chosen = batch_class(plugin)
    values = {**{option.name: option.default for option in chosen.OPTIONS}, **keys}
    batch = chosen.from_config(values, OWNER)
    assert isinstance(batch, cluster_checks.NamesPools) and list(batch.pools_named()) == named


def test_a_site_that_does_not_answer_leaves_it_unknown() -> None:
    class Silent:
        def instances(self, known: frozenset[str]) -> Instances:
            raise SourceError("no answer")

    with pytest.raises(SourceError):
        of_cluster(Batch(worker("w1", "10.0.1.1")), Silent())


@pytest.mark.parametrize(
    ("settings", "pools", "limits"),
    [
        ({"min_vms": 2, "max_vms": 5}, [{}], [(2, 5)]),
        ({"min_vms": 2, "max_vms": 5}, [{"min_vms": 3, "max_vms": 4}], [(3, 4)]),
        ({"min_vms": 2, "max_vms": 5}, [{}, {"min_vms": 1, "max_vms": 9}], [(0, 5), (1, 5)]),
        ({"max_vms": None}, [{}], [(0, None)]),
    ],
)
def test_a_pool_is_checked_for_the_clusters_limits_too(settings: Any, pools: Any, limits: Any) -> None:
    made = tuple(Pool(f"p{number}", "site", ("m5.large",), **pool) for number, pool in enumerate(pools))
    limited = check._limited(Settings("test", pools=made, **settings))
    assert [(pool.min_vms, pool.max_vms) for pool in limited.pools] == limits


def test_what_is_unknown_for_one_reason_is_told_once_to_a_person_and_whole_to_a_program() -> None:
    off = "not looked at: the endpoint gave no answer"
    checks = [("endpoint", "error", "refused", "mend it"), ("clock", "unknown", off, ""), ("image", "unknown", off, "")]
    checks += [("user data", "ok", "none", ""), ("flavours", "unknown", off, "")]
    rows = [dict(zip(("subject", "level", "text", "remedy"), one), source="site") for one in checks]
    counts = {"ok": 1, "warning": 0, "unknown": 3, "error": 1}
    text = check._text({"version": "2", "cluster": "c", "level": "error", "counts": counts, "checks": rows})
    first, _, _, source, *lines = text.splitlines()
    assert first == "elastiq 2 for cluster c: 1 error, 3 unknown, 1 ok" and source == "site"
    assert [line.split()[0] for line in lines] == ["endpoint", "->", "2", "user", "flavours"]
    assert lines[2].endswith(f"unknown  clock, image: {off}")
