"""What is taken for granted in a simulation: sizes, prices, boot times, and whose word counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.whatif.assuming import BOOT_S, Given, Observed, suppose
from elastiq.whatif.ec2_sizes import size_by_name
from elastiq.whatif.overrides import OverrideError

SMALL, LARGE = Resources(cpus=2.0, memory_mb=4000.0), Resources(cpus=16.0, memory_mb=64_000.0)
POOL = Pool("ec2", "aws", ("small", "large"))
SETTINGS = Settings("alice", (POOL,))
BOTH = Given({"small": SMALL, "large": LARGE})


def test_the_sizes_are_what_a_person_says() -> None:
    assert suppose(SETTINGS, BOTH, Observed()).assumed.flavours == {"small": SMALL, "large": LARGE}


def test_what_workers_had_counts_where_nobody_says_it() -> None:
    seen = Observed({("ec2", "small"): Resources(cpus=1.0), ("ec2", "large"): LARGE})
    found = suppose(SETTINGS, Given({"small": SMALL}), seen).assumed.flavours
    assert found == {"small": SMALL, "large": LARGE}


def test_the_keys_of_the_pool_go_before_both() -> None:
    settings = Settings("alice", (replace(POOL, capacity=Resources(cpus=8.0)),))
    seen = Observed({("ec2", "small"): SMALL})
    assert suppose(settings, Given(), seen).assumed.flavours["small"] == Resources(cpus=8.0, memory_mb=4000.0)


def test_a_size_that_nobody_knows_is_asked_for() -> None:
    with pytest.raises(OverrideError, match=r"pool ec2, flavour large: .* --flavour large=CORES"):
        suppose(SETTINGS, Given({"small": SMALL}), Observed())


@pytest.mark.parametrize(
    ("pool", "flavour", "said"),
    [
        (replace(POOL, capacity=SMALL), "smal", "--flavour smal: no pool has this flavour, did you mean small"),
        (replace(POOL, capacity=SMALL), "small", "pool ec2 says itself what its machines have"),
    ],
)
def test_a_flavour_that_is_of_no_use_is_refused(pool: Pool, flavour: str, said: str) -> None:
    with pytest.raises(OverrideError, match=said):
        suppose(Settings("alice", (pool,)), Given({flavour: LARGE}), Observed())


@pytest.mark.parametrize(
    ("prices", "small", "large"),
    [
        ([("", 0.1)], 0.1, 0.1),
        ([("ec2", 0.1)], 0.1, 0.1),
        ([("", 0.1), ("large", 0.4)], 0.1, 0.4),
        ([("large", 0.4)], 0.3, 0.4),
    ],
)
def test_a_price_is_that_of_all_or_of_a_pool_or_a_flavour(
    prices: list[tuple[str, float]], small: float, large: float
) -> None:
    settings = Settings("alice", (replace(POOL, prices={"small": 0.3}),))
    found = suppose(settings, replace(BOTH, prices=prices), Observed())
    assert found.assumed.prices == {("ec2", "small"): small, ("ec2", "large"): large}
    assert [found.settings.pools[0].price(name) for name in ("small", "large")] == [small, large]


def test_a_price_of_a_flavour_holds_in_every_market_of_its() -> None:
    pool = replace(POOL, markets=("spot", "on-demand"), prices={"*": 0.3, "small/spot": 0.05})
    found = suppose(Settings("alice", (pool,)), replace(BOTH, prices=[("small", 0.2)]), Observed())
    assert found.assumed.prices == {("ec2", "small"): 0.2, ("ec2", "large"): 0.3}
    assert any("no spot machine is taken away" in note for note in found.notes)


def test_a_price_of_nothing_is_refused() -> None:
    with pytest.raises(OverrideError, match="--price larg=1: no pool or flavour has this name, did you mean large"):
        suppose(SETTINGS, replace(BOTH, prices=[("larg", 1.0)]), Observed())


def test_how_jobs_are_placed_is_said_and_by_default_that_it_can_be_changed() -> None:
    of_default, of_own = (
        suppose(SETTINGS, BOTH, Observed()),
        suppose(SETTINGS, replace(BOTH, placement="oldest", own_size=True), Observed()),
    )
    assert any("fewest free cores" in note and "--placement" in note for note in of_default.notes)
    (said,) = [note for note in of_own.notes if "oldest machine of the smallest size" in note]
    assert "starts only jobs of more than half of its cores" in said and "--placement" not in said
    assert (of_own.assumed.placement, of_own.assumed.own_size) == ("oldest", True)


def test_without_prices_the_cost_is_said_not_to_be_known() -> None:
    assert "no price of small, large" in suppose(SETTINGS, BOTH, Observed()).unpriced


@pytest.mark.parametrize(
    ("given", "seen", "boot_s", "said"),
    [
        (None, Observed(), (BOOT_S, BOOT_S), "that is assumed"),
        (None, Observed(boot_s=90.4, boots=12), (90.4, 90.4), "90 s, the mean of 12 boots that elastiq saw here"),
        ((60.0, 90.0), Observed(boot_s=90.4, boots=12), (60.0, 90.0), "boots in 60 s to 90 s"),
    ],
)
def test_the_boot_time_is_given_or_seen_or_assumed(
    given: tuple[float, float], seen: Observed, boot_s: tuple[float, float], said: str
) -> None:
    found = suppose(SETTINGS, replace(BOTH, boot_s=given), seen)
    assert found.assumed.boot_s == boot_s
    assert any(said in note for note in found.notes)


@pytest.mark.parametrize(
    "given", [Given({"huge": LARGE}), Given(prices=[("huge", 1.0)]), Given(prices=[("huge/spot", 1.0)])]
)
def test_what_is_said_of_a_flavour_of_another_run_is_of_no_use_here_and_no_mistake(given: Given) -> None:
    settings = Settings("alice", (replace(POOL, capacity=SMALL),))
    found = suppose(settings, replace(given, elsewhere=frozenset({"huge"})), Observed())
    assert "huge" not in found.assumed.flavours and found.assumed.prices == {}
    with pytest.raises(OverrideError, match="huge"):
        suppose(settings, given, Observed())


@pytest.mark.parametrize(
    ("name", "cpus", "gib"),
    [
        ("c5.xlarge", 4, 8), ("c5.18xlarge", 72, 144), ("c6g.medium", 1, 2), ("m5.large", 2, 8), ("m7a.medium", 1, 4),
        ("m6i.32xlarge", 128, 512), ("r5.24xlarge", 96, 768), ("r6i.2xlarge", 8, 64), ("t3.micro", 2, 1),
        ("t4g.2xlarge", 8, 32), ("m7i-flex.large", 2, 8),
    ],
)  # fmt: skip
def test_a_name_at_ec2_tells_what_its_machine_has(name: str, cpus: float, gib: float) -> None:
    assert size_by_name(name) == Resources(cpus, gib * 1024)
    settings = Settings("alice", (replace(POOL, flavours=(name,), kind="ec2"),))
    found = suppose(settings, Given(), Observed())
    assert found.assumed.flavours[name].cpus == cpus and any(f"{name}: {cpus} core" in note for note in found.notes)
    said = suppose(settings, Given({name: SMALL}), Observed())
    assert said.assumed.flavours[name] == SMALL and not any("by its name" in note for note in said.notes)


@pytest.mark.parametrize(
    "name",
    "c5 c5.metal c5n.xlarge c4.xlarge m4.large g5.xlarge p4d.24xlarge x2idn.16xlarge t2.micro m5.medium small".split(),
)
def test_a_name_that_does_not_follow_the_rule_is_not_guessed(name: str) -> None:
    assert size_by_name(name) is None
    with pytest.raises(OverrideError, match="what a machine has is not known"):
        suppose(Settings("alice", (replace(POOL, flavours=(name,), kind="ec2"),)), Given(), Observed())


def test_names_of_ec2_mean_nothing_elsewhere() -> None:
    with pytest.raises(OverrideError, match="what a machine has is not known"):
        suppose(Settings("alice", (replace(POOL, flavours=("c5.xlarge",), kind="openstack"),)), Given(), Observed())
