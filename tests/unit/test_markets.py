"""The market of a pool: what its key means, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastiq.interfaces import Offer
from tests.unit.config_files import load, problems, with_ec2


@pytest.mark.parametrize(
    ("line", "markets"),
    [("", ("",)), ("market = spot", ("spot",)), ("market = Spot, on-demand", ("spot", "on-demand"))],
)
def test_a_pool_has_its_markets_in_the_order_of_preference(tmp_path: Path, line: str, markets: tuple[str, ...]) -> None:
    assert load(tmp_path, with_ec2(line)).settings.pools[0].markets == markets


def test_the_next_market_of_a_flavour_comes_before_the_next_flavour(tmp_path: Path) -> None:
    (pool,) = load(tmp_path, with_ec2("flavour = a, b\nmarket = spot, on-demand")).settings.pools
    assert pool.offers() == (
        Offer("ec2", "a", "", "spot"),
        Offer("ec2", "a", "", "on-demand"),
        Offer("ec2", "b", "", "spot"),
        Offer("ec2", "b", "", "on-demand"),
    )


def test_a_further_pool_may_have_another_market(tmp_path: Path) -> None:
    pools = load(tmp_path, with_ec2("market = spot\n[ec2:sure]\nmarket = on-demand\n[ec2:cheap]")).settings.pools
    assert [(pool.name, pool.markets) for pool in pools] == [
        ("ec2", ("spot",)),
        ("sure", ("on-demand",)),
        ("cheap", ("spot",)),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("market = sport", "market: `sport` is not known, write spot or on-demand, or both"),
        ("market = spot, spot", "market: has `spot` twice, remove one"),
        ("market = spot\nspot_max_price = 0.001", "spot_max_price: must be above 0.001"),
        ("spot_max_price = 0.1", "spot_max_price: is of no use without market"),
        ("market = spot\nidle_action = stop", "idle_action: cannot be stop for spot machines"),
        ("market = spot\ndialect = outscale", "market: names spot, which the site aws does not have, remove it"),
        ("market = spot, on-demand\ndialect = eucalyptus", "market: names spot, which the site aws does not have"),
    ],
)
def test_a_market_that_cannot_be_is_a_mistake(tmp_path: Path, lines: str, said: str) -> None:
    (problem,) = problems(tmp_path, with_ec2(lines))
    assert said in problem


@pytest.mark.parametrize("lines", ["dialect = outscale", "dialect = aws\nidle_action = stop", "dialect = generic"])
def test_on_demand_is_everywhere(tmp_path: Path, lines: str) -> None:
    assert load(tmp_path, with_ec2(f"market = on-demand\n{lines}")).settings.pools[0].markets == ("on-demand",)
