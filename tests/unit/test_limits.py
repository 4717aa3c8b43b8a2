"""Hard stops: machines an hour, cost an hour, cost a day."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Optional

import pytest

from elastiq import history
from elastiq.health import Health
from elastiq.interfaces import CapacityError, InstanceState
from elastiq.launching import Launching
from elastiq.limits import DAY_S, ENTRY_S, HOUR_S, Ledger, hourly
from elastiq.nodes import State
from elastiq.planner import plan
from elastiq.refusals import refused
from elastiq.settings import Settings
from elastiq.situation import Allowance, Launch
from elastiq.store import Store
from tests.unit.config_files import load, problems, with_ec2
from tests.unit.fakes import Surroundings
from tests.unit.test_planner import launched, reason
from tests.unit.values import NOW, WALL, a_node, a_pool, a_registry, an_instance, group, situation, some_settings

PRICED = a_pool(prices={"medium": 0.5})


def priced(**changed: Any) -> Settings:
    return some_settings(**{"pools": (PRICED,), "max_vms": None, **changed})


def a_ledger(stored: Optional[dict[str, Any]] = None, wall: float = WALL) -> Ledger:
    return Ledger(stored, NOW, wall)


def planned(settings: Settings, ledger: Ledger, waiting: int, machines: int = 0, now: float = NOW) -> tuple[int, str]:
    """How many machines a plan launches for so many jobs of four cores, and why no more."""
    nodes = [a_node(State.BUSY, number) for number in range(1, machines + 1)]
    allowances = ledger.allowances(settings, a_registry(*nodes), now)
    made = plan(situation(group(waiting=4 * waiting), nodes=nodes, settings=settings, allowances=allowances))
    return sum(launched(made).values()), reason(made)


# --------------------------------------------------------------------------- what binds


def test_no_more_machines_are_launched_in_an_hour_than_allowed() -> None:
    settings, ledger = priced(max_launches_per_hour=5), a_ledger()
    assert planned(settings, ledger, 9) == (5, "max_launches_per_hour 5 is reached (5 asked for)")
    ledger.launched(5)
    assert planned(settings, ledger, 9, now=NOW + HOUR_S) == (0, "max_launches_per_hour 5 is reached (5 asked for)")
    assert planned(settings, ledger, 9, now=NOW + HOUR_S + ENTRY_S + 1)[0] == 5


def test_all_machines_together_cost_no_more_an_hour_than_allowed() -> None:
    settings, ledger = priced(max_cost_per_hour=2.0), a_ledger()
    assert planned(settings, ledger, 9) == (4, "max_cost_per_hour 2 would be passed (2 an hour)")
    assert planned(settings, ledger, 9, machines=3)[0] == 1
    assert planned(settings, ledger, 9, machines=7) == (0, "max_cost_per_hour 2 would be passed (3.5 an hour)")


def test_a_price_that_does_not_divide_the_cap_is_no_reason_to_pass_it() -> None:
    settings = priced(max_cost_per_hour=1.0, pools=(a_pool(prices={"medium": 0.3}),))
    assert planned(settings, a_ledger(), 9)[0] == 3
    settings = priced(max_cost_per_hour=0.3, pools=(a_pool(prices={"medium": 0.1}),))
    assert planned(settings, a_ledger(), 9)[0] == 3  # although 0.1 + 0.1 + 0.1 > 0.3 in binary


def test_a_day_costs_no_more_than_allowed_when_another_hour_of_all_machines_is_paid() -> None:
    settings, ledger = priced(max_cost_per_day=4.0), a_ledger()
    assert planned(settings, ledger, 9)[0] == 8
    nodes = a_registry(a_node(State.BUSY, 1), a_node(State.BUSY, 2))
    ledger.allowances(settings, nodes, NOW + 2 * HOUR_S)  # two machines for two hours: 2.0
    launches, why = planned(settings, ledger, 9, machines=2, now=NOW + 2 * HOUR_S)
    assert launches == 2
    assert why == "max_cost_per_day 4 would be passed (4 in the last 24 hours and the next one)"
    assert planned(settings, ledger, 9, now=NOW + 2 * HOUR_S + DAY_S + ENTRY_S)[0] == 8


def test_the_cheaper_flavour_of_a_size_serves_as_far_as_the_cap_allows() -> None:
    pool = a_pool(flavours=("medium", "small"), prices={"medium": 3.0, "*": 0.5})
    settings = priced(max_cost_per_hour=4.0, pools=(pool,))
    allowances = a_ledger().allowances(settings, a_registry(), NOW)
    made = plan(situation(group(waiting=40), settings=settings, allowances=allowances))
    assert launched(made) == {"ec2/small": 8}


@pytest.mark.parametrize(("asked", "cap"), [(5, "; max_launches_per_hour 5 is reached (5 asked for)"), (4, "")])
def test_where_a_block_and_a_cap_bind_both_are_named(asked: int, cap: str) -> None:
    settings, ledger, health = priced(max_launches_per_hour=5), a_ledger(), Health()
    ledger.launched(asked)
    refused(health, PRICED.offers()[0], "aws", CapacityError("none left"), NOW)
    allowances = ledger.allowances(settings, a_registry(), NOW)
    made = plan(situation(group(waiting=40), settings=settings, allowances=allowances, health=health))
    assert reason(made) == f"offer ec2/medium is held back for another 60 s: none left{cap}"
    assert launched(made) == {}


def test_the_minimum_is_no_exception() -> None:
    settings = priced(max_cost_per_hour=1.0, min_vms=5)
    allowances = a_ledger().allowances(settings, a_registry(), NOW)
    assert launched(plan(situation(settings=settings, allowances=allowances))) == {"ec2/medium": 2}


def test_a_limit_is_of_the_whole_plan_and_a_plan_changes_none() -> None:
    allowance = Allowance("max_launches_per_hour 3", 3, 0, "asked for")
    groups = [group("a", 8), group("b", 8)]
    asked = situation(*groups, settings=priced(), allowances=(allowance,))
    assert launched(plan(asked)) == launched(plan(asked)) == {"ec2/medium": 3}


def test_a_cap_on_the_cost_has_the_price_of_the_cheapest_machine_that_could_come() -> None:
    pools = (a_pool(flavours=("medium", "small"), prices={"medium": 3.0, "*": 0.5}), a_pool("gpu", prices={"*": 9.0}))
    settings = priced(pools=pools, max_cost_per_hour=4.0, max_cost_per_day=20.0, max_launches_per_hour=3)
    allowances = a_ledger().allowances(settings, a_registry(), NOW)
    assert [one.least for one in allowances] == [1.0, 0.5, 0.5]


@pytest.mark.parametrize("state", [state for state in State if state is not State.GONE])
def test_whatever_is_not_confirmed_gone_costs(state: State) -> None:
    assert hourly(priced(), [a_node(state)]) == 0.5


def test_a_machine_without_a_price_is_taken_for_the_dearest() -> None:
    settings = priced(pools=(a_pool(prices={"medium": 0.5, "large": 2.0}),))
    assert hourly(settings, [a_node(flavour="renamed"), a_node(pool="removed")]) == 4.0


# --------------------------------------------------------------------------- over a restart


def test_a_restart_forgets_neither_launches_nor_cost_and_charges_the_time_between() -> None:
    settings = priced(max_cost_per_day=10.0, max_launches_per_hour=5)
    ledger, nodes = a_ledger(), a_registry(a_node(State.BUSY, 1), a_node(State.BUSY, 2))
    ledger.launched(2)
    ledger.allowances(settings, nodes, NOW + HOUR_S)
    again = Ledger(ledger.stored(WALL + HOUR_S), 7.0, WALL + 3 * HOUR_S)  # another monotonic clock, two hours later
    (launches, cost) = again.allowances(settings, nodes, 7.0)
    assert launches.used == 0  # they were asked for three hours ago
    assert cost.used == pytest.approx(3.0 + 1.0)


@pytest.mark.parametrize(("step_s", "charged"), [(-HOUR_S, 0.0), (90 * DAY_S, 24.0)])
def test_a_wall_clock_that_steps_counts_only_over_a_reboot_and_for_a_day_at_most(step_s: float, charged: float) -> None:
    settings = priced(max_cost_per_day=1000.0, pools=(a_pool(prices={"*": 1.0}),))
    for now, after_a_reboot in ((7.0, charged), (NOW, 0.0)):
        again = Ledger(a_ledger().stored(WALL), now, WALL + step_s)
        (cost,) = again.allowances(settings, a_registry(a_node()), now)
        assert cost.used == pytest.approx(after_a_reboot + 1.0)


def test_the_daemon_keeps_its_ledger_in_the_store(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    first = Surroundings(path, pools=(PRICED,), max_launches_per_hour=5)
    first.core.restore()
    assert first.core.ledger is not None
    first.core.ledger.launched(4)
    first.core.persist()
    first.store.close()
    second = Surroundings(path, pools=(PRICED,), max_launches_per_hour=5)
    second.core.restore()
    assert second.core.ledger is not None
    (allowance,) = second.core.ledger.allowances(second.settings, second.core.registry, second.now())
    assert (allowance.left, allowance.used) == (1, 4)


def test_launches_from_before_the_limit_was_set_count_within_their_hour(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    first = Surroundings(path, pools=(PRICED,))
    first.core.restore()
    for minutes_ago, count in ((61, 2), (59, 1), (1, 2)):
        at = first.core.wall() - 60.0 * minutes_ago
        first.store.save((), [(at, "launch", "name", "ec2", f"{count} of ec2/medium: 8 waiting jobs")])
        first.store.save((), [(at, "pending", "name", "ec2", "launched as i-1: 8 waiting jobs")])
    first.core.settings = priced(max_launches_per_hour=5)
    first.core.follow_limits()
    assert first.core.ledger is not None
    (allowance,) = first.core.ledger.allowances(first.core.settings, a_registry(), first.now())
    assert (allowance.used, allowance.left) == (3, 2)
    later = first.now() + 2 * 60.0 + ENTRY_S
    (allowance,) = first.core.ledger.allowances(first.core.settings, a_registry(), later)
    assert allowance.used == 2  # the second one is more than an hour ago now


def test_a_launch_counts_once_over_a_restart_though_ledger_and_history_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "store")
    limits: dict[str, Any] = {"pools": (PRICED,), "max_launches_per_hour": 5}
    first = Surroundings(path, **limits)
    first.core.restore()
    ticks = itertools.count(1)
    monkeypatch.setattr(first.core, "wall", lambda: first.clock.time() + 0.001 * next(ticks))
    assert Launching(first.core, lambda: None).launch(Launch(PRICED.offers()[0], 2, "8 waiting jobs"))
    assert [line[1:] for line in history.lines(first.store)] == [
        ("launch", "launch1", "ec2", "2 of ec2/medium: 8 waiting jobs")
    ]
    first.store.close()
    second = Surroundings(path, **limits)
    second.clock.step_wall(30.0)
    second.core.restore()
    assert second.core.ledger is not None
    (allowance,) = second.core.ledger.allowances(second.settings, a_registry(), second.now())
    assert allowance.used == 2


def test_launches_made_while_the_limit_was_unset_for_a_while_count(tmp_path: Path) -> None:
    ledger = a_ledger()
    ledger.launched(1)
    stored = ledger.stored(WALL)
    lines = [(WALL - 1.0, "launch", "a", "ec2", "1 of it: why"), (WALL + 600.0, "launch", "b", "ec2", "3 of it: why")]
    again = Ledger(stored, NOW + 1200.0, WALL + 1200.0, lines)
    (allowance,) = again.allowances(priced(max_launches_per_hour=5), a_registry(), NOW + 1200.0)
    assert allowance.used == 4


def test_a_launch_is_stored_at_once_and_cost_now_and_then() -> None:
    settings, ledger, nodes = priced(max_cost_per_day=9.0), a_ledger(), a_registry(a_node())
    ledger.stored(WALL)
    ledger.allowances(settings, nodes, NOW + 10)
    assert not ledger.is_due()
    ledger.launched(1)
    assert ledger.is_due()
    ledger.stored(WALL)
    ledger.allowances(settings, nodes, NOW + 100)
    assert ledger.is_due()


def test_no_limit_no_ledger() -> None:
    rig = Surroundings(pools=(PRICED,))
    rig.core.restore()
    assert rig.core.ledger is None


def test_the_ledger_stays_small() -> None:
    settings, ledger, nodes = priced(max_cost_per_day=9.0), a_ledger(), a_registry(a_node())
    for minute in range(3 * 24 * 60):
        ledger.allowances(settings, nodes, NOW + 60 * minute)
    assert len(ledger.entries) <= DAY_S / ENTRY_S + 2
    assert sum(entry[2] for entry in ledger.entries) == pytest.approx(12.0, rel=0.01)


# --------------------------------------------------------------------------- configuration


def test_prices_are_one_for_all_or_one_for_each_flavour(tmp_path: Path) -> None:
    head = "[quota]\nmax_launches_per_hour = 20\nmax_cost_per_hour = 2.5\nmax_cost_per_day = 30\n"
    loaded = load(tmp_path, with_ec2("flavour = a, b\nprice = 0.25\n[ec2:dear]\nprice = a=1, b = 2.5\n", head))
    settings = loaded.settings
    assert (settings.max_launches_per_hour, settings.max_cost_per_hour, settings.max_cost_per_day) == (20, 2.5, 30.0)
    assert [(pool.price("a"), pool.price("b")) for pool in settings.pools] == [(0.25, 0.25), (1.0, 2.5)]
    assert load(tmp_path, with_ec2("")).settings.pools[0].price("") is None


def test_a_spot_machine_may_have_a_price_of_its_own_and_else_counts_as_any() -> None:
    pool = a_pool(prices={"a": 1.0, "a/spot": 0.3, "*": 2.0, "*/spot": 0.5})
    assert [pool.price(flavour, "spot") for flavour in ("a", "b")] == [0.3, 0.5]
    assert [pool.price(flavour, market) for flavour in ("a", "b") for market in ("on-demand", "")] == [1, 1, 2, 2]
    assert a_pool(prices={"a": 1.0}).price("a", "spot") == 1.0
    assert a_pool(prices={"a/spot": 0.3}).price("a") is None


def test_running_spot_machines_count_by_their_price() -> None:
    pools = (a_pool(markets=("spot", "on-demand"), prices={"medium": 1.0, "medium/spot": 0.25}),)
    nodes = [a_node(State.BUSY, 1, market="spot"), a_node(State.BUSY, 2, market="on-demand"), a_node(State.BUSY, 3)]
    assert hourly(priced(pools=pools), nodes) == 2.25
    (cap,) = a_ledger().allowances(priced(pools=pools, max_cost_per_hour=9.0), a_registry(), NOW)
    assert cap.least == 0.25


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("flavour = a, b\nprice = a=1", "price: is missing for b, max_cost_per_day needs it; set it"),
        ("flavour = a", "price: is missing for a, max_cost_per_day needs it; set it"),
        ("", "price: is missing for the cloud's default, max_cost_per_day needs it; set it"),
        ("flavour = a\nprice = 31", "price: is above max_cost_per_day, which is 30: no machine could ever be launched"),
        ("flavour = a\nprice = a=1, aa=2", "price: names aa, which is no pool's flavour, write one that is"),
        ("flavour = a\nprice = *=1, b/spot=2", "price: names b/spot, which is no pool's flavour, write one that is"),
        ("flavour = a\nprice = a=1, a/sport=2", "price: names a/sport, which is no pool's flavour"),
        ("flavour = a\nmarket = spot, on-demand\nprice = a/spot=1", "price: is missing for a, max_cost_per_day"),
        ("flavour = a\nmarket = spot\nprice = a=1, a/spot=31", "price: is above max_cost_per_day, which is 30"),
        ("flavour = a\nprice = 1\n[ec2:gpu]\nflavour = g", "price: is missing for g, max_cost_per_day needs it"),
        ("price = cheap", "price: `cheap` is no price, write one as 0.17, or flavour=price, flavour=price"),
        ("price = $0.17", "price: `$0.17` is no price, write one as 0.17, or flavour=price, flavour=price"),
        ("price = 0,17", "price: `0,17` is no number, write the price with a decimal point: 0.17"),
        ("price = a=1, b = 0,17", "price: `0,17` is no number, write the price with a decimal point: 0.17"),
        ("price = a=-1", "price: `-1` is no price for a, write one as 0.17, or flavour=price, flavour=price"),
    ],
)
def test_a_cap_on_the_cost_needs_every_price(tmp_path: Path, lines: str, said: str) -> None:
    found = problems(tmp_path, with_ec2(lines, "[quota]\nmax_cost_per_day = 30\n"))
    assert any(said in problem for problem in found), found


def test_a_price_is_judged_together_with_the_other_mistakes_of_its_pool(tmp_path: Path) -> None:
    head = "[quota]\nmax_cost_per_day = 30\n"
    found = problems(tmp_path, with_ec2("flavour = a\nprice = 31\nmax_vms = many\ncpus = few", head))
    assert len(found) == 3 and any("price: is above max_cost_per_day" in problem for problem in found), found
    found = problems(tmp_path, with_ec2("flavour = a\nprice = cheap\nmax_vms = many", head))
    assert len(found) == 2, "of a price that cannot be read nothing else is said"


def test_a_store_is_read_by_who_uses_it(tmp_path: Path) -> None:
    """What is stored is JSON."""
    store = Store(str(tmp_path / "store"))
    ledger = a_ledger()
    ledger.launched(3)
    store.remember("ledger", ledger.stored(WALL))
    assert store.recall("ledger") == {"clock_s": 0.0, "wall": WALL, "monotonic": NOW, "entries": [[0.0, 3, 0.0]]}


def test_one_price_for_all_is_inherited_only_with_its_flavours(tmp_path: Path) -> None:
    lines = "flavour = a\nprice = 1\n[ec2:same]\nmax_vms = 2\n[ec2:other]\nflavour = b\n"
    pools = load(tmp_path, with_ec2(lines)).settings.pools
    assert [pool.price(pool.flavours[0]) for pool in pools] == [1.0, 1.0, None]
    lines = "flavour = a, b\nprice = a=1, b=2\n[ec2:other]\nflavour = b\n"
    assert load(tmp_path, with_ec2(lines)).settings.pools[1].price("b") == 2.0


def test_after_a_lost_state_the_launches_of_listed_machines_count_each_once() -> None:
    settings, ledger = priced(max_launches_per_hour=5), a_ledger()
    ended = an_instance("i-1", InstanceState.TERMINATED, launched_at=WALL - 60.0)
    old = an_instance("i-2", launched_at=WALL - HOUR_S - 1.0)
    unknown = an_instance("i-3", launched_at=None)
    for _ in range(2):
        ledger.found((ended, old, unknown), WALL)
    (allowance,) = ledger.allowances(settings, a_registry(), NOW)
    assert (allowance.used, allowance.left) == (2, 3)
