"""A person takes a pool out of service, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastiq import history
from elastiq.cli import view
from elastiq.commanding import carry_out
from elastiq.interfaces import Jobs, Terms, WorkerState
from elastiq.nodes import State
from elastiq.protocol import Refused
from elastiq.reload import take_over
from elastiq.status import snapshot
from elastiq.store import StoreError
from tests.unit.test_daemon import Rig
from tests.unit.values import a_node, a_pool, a_worker, an_instance, group, some_settings, state_of

POOLS = (a_pool("a"), a_pool("b"))


def drain(rig: Rig, pool: Any = "a") -> list[str]:
    answer: list[str] = carry_out(rig.daemon, "drain-pool", {"pool": pool})["drained"]
    return answer


def undrain(rig: Rig, pool: Any = "a") -> list[str]:
    answer: list[str] = carry_out(rig.daemon, "undrain-pool", {"pool": pool})["drained"]
    return answer


def out_of_service(rig: Rig) -> dict[str, bool]:
    return {pool["name"]: pool["drained"] for pool in snapshot(rig.daemon)["pools"]}


def test_which_pools_are_out_of_service_is_answered_and_shown() -> None:
    rig = Rig(pools=POOLS)
    assert out_of_service(rig) == {"a": False, "b": False}
    assert (drain(rig), drain(rig), drain(rig, "b")) == (["a"], ["a"], ["a", "b"])
    assert out_of_service(rig) == {"a": True, "b": True}
    assert (undrain(rig), undrain(rig)) == (["b"], ["b"])
    assert out_of_service(rig) == {"a": False, "b": True}
    assert [(what, pool) for _, what, _, pool, _ in history.lines(rig.store)] == [
        ("drain-pool", "a"),
        ("drain-pool", "b"),
        ("undrain-pool", "a"),
    ]


def test_its_idle_machine_is_drained_at_once_and_jobs_get_machines_elsewhere() -> None:
    rig = Rig(a_node(State.IDLE, pool="a", seen=None), pools=POOLS)
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance(pool="a"))
    rig.answer()
    (node,) = rig.core.registry
    assert state_of(node) is State.IDLE
    drain(rig)
    rig.run()
    assert state_of(node) is State.DRAINING
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    rig.pass_time(15.0)
    launches = rig.executor.acts("cloud")
    assert [act.node for act in launches] == ["launch launch1"]
    launches[0].finish()
    assert [intent.offer.pool for (intent,) in rig.cloud.script.calls("launch")] == ["b"]


def test_what_is_being_drained_returns_with_its_pool() -> None:
    rig = Rig(a_node(State.IDLE, pool="a", seen=None), pools=POOLS)
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance(pool="a"))
    rig.answer()
    (node,) = rig.core.registry
    drain(rig)
    rig.run()
    assert state_of(node) is State.DRAINING
    undrain(rig)
    assert state_of(node) is State.IDLE
    rig.pass_time(60.0)
    assert rig.cloud.script.calls("terminate") == []


def test_a_busy_machine_ends_when_its_jobs_have_ended() -> None:
    rig = Rig(a_node(State.BUSY, pool="a", seen=None), pools=POOLS)
    rig.batch.set_workers(a_worker(state=WorkerState.BUSY))
    rig.cloud.set_instances(an_instance(pool="a"))
    rig.answer()
    (node,) = rig.core.registry
    drain(rig)
    rig.pass_time(60.0)
    assert state_of(node) is State.BUSY
    assert rig.executor.acts() == []
    rig.batch.set_workers(a_worker())
    rig.pass_time(60.0)
    assert state_of(node) is State.DRAINING


def test_it_is_launched_from_again_as_soon_as_it_is_back_in_service() -> None:
    rig = Rig(pools=(a_pool("a"),))
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=4),))
    drain(rig)
    rig.pass_time(30.0)
    assert rig.executor.acts() == []
    assert "pool a is being drained" in rig.daemon.last_plan.summary
    undrain(rig)
    rig.run()
    assert len(rig.executor.acts("cloud")) == 1


def test_it_outlives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig = Rig(store_path=path, pools=POOLS)
    drain(rig)
    rig.store.close()
    again = Rig(store_path=path, pools=POOLS)
    assert out_of_service(again) == {"a": True, "b": False}
    assert undrain(again) == []
    again.store.close()
    assert out_of_service(Rig(store_path=path, pools=POOLS)) == {"a": False, "b": False}


@pytest.mark.parametrize("verb", ["drain-pool", "undrain-pool"])
def test_an_unknown_pool_is_refused_with_those_that_there_are(verb: str) -> None:
    rig = Rig(pools=POOLS)
    with pytest.raises(Refused) as refused:
        carry_out(rig.daemon, verb, {"pool": "c"})
    assert (refused.value.code, str(refused.value)) == ("impossible", "there is no pool `c`; there are a, b")


@pytest.mark.parametrize("args", [{}, {"pool": None}, {"pool": ["a"]}, {"pool": 1}])
@pytest.mark.parametrize("verb", ["drain-pool", "undrain-pool"])
def test_what_is_no_name_is_refused(verb: str, args: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        carry_out(Rig(pools=POOLS).daemon, verb, args)
    assert refused.value.code == "malformed"


def test_a_pool_that_is_configured_no_more_can_be_taken_back_before_it_returns() -> None:
    rig = Rig(pools=POOLS)
    drain(rig)
    take_over(rig.daemon, some_settings(pools=(a_pool("b"),)), rig.batch, {"aws": rig.cloud})
    with pytest.raises(Refused):
        drain(rig)
    assert undrain(rig) == []


def test_where_it_cannot_be_stored_nothing_is_changed() -> None:
    rig = Rig(pools=POOLS)

    def full(key: str, value: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.remember = full  # type: ignore[method-assign]
    with pytest.raises(Refused) as refused:
        drain(rig)
    assert refused.value.code == "impossible"
    assert out_of_service(rig) == {"a": False, "b": False}


def test_a_person_sees_it_below_the_pool_and_how_to_undo_it() -> None:
    rig = Rig(pools=(a_pool("a"), a_pool("b", min_vms=1, max_vms=5, terms=Terms(min_idle_vms=2, priority=1.5))))
    drain(rig)
    lines = view.text(snapshot(rig.daemon), 4711, 1.0).splitlines()
    at = lines.index("pool a: 0 count")
    assert lines[at + 1] == "  ! out of service, until elastiqctl undrain-pool a"
    assert lines[at + 2] == "pool b: 0 count of at most 5, min_vms 1, min_idle_vms 2, priority 1.5"
