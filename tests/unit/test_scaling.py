"""A person brings the cluster or a pool to a number of machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastiq import history
from elastiq.commanding import carry_out
from elastiq.nodes import State
from elastiq.protocol import Refused
from elastiq.reload import take_over
from elastiq.status import snapshot
from elastiq.store import StoreError
from tests.unit.test_daemon import Rig
from tests.unit.values import a_node, a_pool, a_worker, an_instance, some_settings, state_of

POOLS = (a_pool("a", max_vms=3), a_pool("b"))


def scale(rig: Rig, vms: Any, pool: Any = None) -> dict[str, int]:
    answer: dict[str, int] = carry_out(rig.daemon, "scale", {"vms": vms, "pool": pool})["scaled"]
    rig.run()
    return answer


def refusal(rig: Rig, vms: Any, pool: Any = None) -> tuple[str, str]:
    before = dict(rig.core.scaled)
    with pytest.raises(Refused) as refused:
        scale(rig, vms, pool)
    assert rig.core.scaled == before
    return refused.value.code, str(refused.value)


def launched(rig: Rig) -> list[tuple[str, int]]:
    """By pool."""
    rig.answer()
    for act in rig.executor.acts("cloud"):
        act.finish()
    return [(intent.offer.pool, intent.count) for (intent,) in rig.cloud.script.calls("launch")]


def test_the_cluster_is_brought_to_so_many_machines() -> None:
    rig = Rig(pools=POOLS)
    assert scale(rig, 4) == {"": 4}
    assert sum(count for _, count in launched(rig)) == 4


def test_a_pool_is_brought_to_so_many_machines() -> None:
    rig = Rig(pools=POOLS)
    assert scale(rig, 2, "b") == {"b": 2}
    assert launched(rig) == [("b", 2)]
    assert [pool["min_vms"] for pool in snapshot(rig.daemon)["pools"]] == [0, 2]


def test_below_a_minimum_of_the_file_idle_machines_go_as_if_it_were_the_minimum() -> None:
    node = a_node(State.IDLE, seen=None, idle_s=9000.0)
    rig = Rig(node, min_vms=1)
    rig.batch.set_workers(a_worker())
    rig.cloud.set_instances(an_instance())
    rig.answer()
    assert state_of(node) is State.IDLE
    scale(rig, 0)
    assert state_of(node) is State.DRAINING


def test_it_is_held_until_auto_over_restarts_and_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    rig = Rig(store_path=path, pools=POOLS)
    scale(rig, 4)
    scale(rig, 2, "a")
    rig.store.close()
    again = Rig(store_path=path, pools=POOLS)
    status = snapshot(again.daemon)
    assert (status["scaled"], status["quota"]["min_vms"]) == ({"": 4, "a": 2}, 4)
    told = (
        "scale: the cluster is held at 4 or more machines, until elastiqctl scale auto; "
        "pool a is held at 2 or more machines, until elastiqctl scale auto --pool a"
    )
    assert told in status["notices"]
    assert scale(again, None) == {"a": 2} and scale(again, None, "a") == {}
    status = snapshot(again.daemon)
    assert not [line for line in status["notices"] if line.startswith("scale")] and status["quota"]["min_vms"] == 0
    assert [reason for _, what, _, _, reason in history.lines(again.store) if what == "scale"] == [
        "elastiqctl scale 4",
        "elastiqctl scale 2 --pool a",
        "elastiqctl scale auto",
        "elastiqctl scale auto --pool a",
    ]


def test_above_max_vms_it_is_refused_with_one_line() -> None:
    rig = Rig(pools=POOLS)
    assert refusal(rig, 11) == ("impossible", "11 is above the cluster's max_vms, which is 10: nothing was changed")
    assert refusal(rig, 4, "a") == ("impossible", "4 is above pool a's max_vms, which is 3: nothing was changed")
    scale(rig, 3, "a")
    code, text = refusal(rig, 8, "b")
    assert code == "impossible" and "10 is below the pools' min_vms, which are 11 together" in text


def test_more_than_the_pools_have_room_for_is_refused() -> None:
    rig = Rig(pools=(a_pool("a", max_vms=3), a_pool("b", max_vms=2)))
    assert refusal(rig, 6)[1] == "6 is above the pools' max_vms, which are 5 together: nothing was changed"


def test_a_max_vms_that_is_lowered_later_is_the_stronger_and_said() -> None:
    rig = Rig(pools=POOLS)
    scale(rig, 4)
    take_over(rig.daemon, some_settings(pools=POOLS, max_vms=2), rig.batch, {"aws": rig.cloud})
    status = snapshot(rig.daemon)
    assert status["quota"]["min_vms"] == 2
    assert any("held at 4 or more machines, but max_vms is 2 now" in line for line in status["notices"])


def test_a_pool_that_is_configured_no_more_can_be_let_go() -> None:
    rig = Rig(pools=POOLS)
    scale(rig, 2, "a")
    take_over(rig.daemon, some_settings(pools=(a_pool("b"),)), rig.batch, {"aws": rig.cloud})
    assert any("pool a is held" in line and "not configured" in line for line in snapshot(rig.daemon)["notices"])
    assert refusal(rig, 1, "a")[1] == "there is no pool `a`; there are b"
    assert scale(rig, None, "a") == {}
    assert refusal(rig, None, "a")[1] == "there is no pool `a`; there are b"


def test_a_pool_that_is_out_of_service_is_not_scaled() -> None:
    rig = Rig(pools=POOLS)
    carry_out(rig.daemon, "drain-pool", {"pool": "a"})
    assert refusal(rig, 1, "a")[1] == "pool a is out of service: elastiqctl undrain-pool a comes first"


@pytest.mark.parametrize("args", [(-1,), ("4",), (True,), (2.5,), (1, 7), (1, ["a"])])
def test_what_is_no_number_or_name_is_refused(args: tuple[Any, ...]) -> None:
    assert refusal(Rig(pools=POOLS), *args)[0] == "malformed"


def test_where_it_cannot_be_stored_nothing_is_changed() -> None:
    rig = Rig(pools=POOLS)

    def full(key: str, value: Any) -> None:
        raise StoreError("db: database or disk is full")

    rig.store.remember = full  # type: ignore[method-assign]
    assert refusal(rig, 2)[0] == "impossible"
    assert snapshot(rig.daemon)["scaled"] == {}
