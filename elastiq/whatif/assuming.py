"""What neither the configuration nor the trace tells: what machines have, what they cost, and how long they boot.

For each there is an order of whom to believe, and a note that says what was taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Iterator, Mapping, Optional, Sequence

from elastiq.interfaces import Pool, Resources
from elastiq.names import nearest
from elastiq.settings import Settings
from elastiq.whatif.ec2_sizes import size_by_name
from elastiq.whatif.overrides import OverrideError
from elastiq.whatif.placing import DEFAULT, words
from elastiq.whatif.study import sizes_of
from elastiq.whatif.terms import Assumed
from elastiq.wording import counted

BOOT_S = 120.0


@dataclass(frozen=True)
class Observed:
    """What an elastiq that ran here has seen: what workers have, by pool and flavour, and the mean time from a launch
    until the machine was a worker, over so many ``boots``."""

    flavours: Mapping[tuple[str, str], Resources] = field(default_factory=dict)
    boot_s: float = BOOT_S
    boots: int = 0


@dataclass(frozen=True)
class Given:
    """What a person says of it. ``prices`` are an hour's, with the name of a pool or flavour, or none for all.
    ``elsewhere``: flavours of the file or of other runs, of which something may be said though it is of no use here.
    ``placement`` and ``own_size`` as in `Assumed`."""

    flavours: Mapping[str, Resources] = field(default_factory=dict)
    prices: Sequence[tuple[str, float]] = ()
    boot_s: Optional[tuple[float, float]] = None
    billed_s: float = 1.0
    seed: int = 1
    elsewhere: frozenset[str] = frozenset()
    placement: str = DEFAULT
    own_size: bool = False


@dataclass(frozen=True)
class Supposition:
    """What is played: ``settings`` have the prices, ``machines`` are the sizes that there can be."""

    settings: Settings
    assumed: Assumed
    machines: tuple[Resources, ...]
    notes: tuple[str, ...]
    unpriced: str = ""  # what is to be said where a cost is not known


def suppose(settings: Settings, given: Given, observed: Observed) -> Supposition:
    """Raises `OverrideError` where a size is not known, or something is said of what there is not."""
    settings = _priced(settings, given)
    by_name: dict[str, Resources] = {}
    sizes = {
        (pool.name, flavour): size
        for pool in settings.pools
        for flavour, size in _sizes(pool, given, observed, by_name)
    }
    _all_used(settings, given)
    boot_s, of_boot = _boot(given, observed)
    prices, unpriced = {}, []
    for pool in settings.pools:
        for flavour in pool.flavours:
            price = pool.price(flavour, pool.markets[0])
            if price is None:
                unpriced.append(flavour or f"pool {pool.name}")
            else:
                prices[pool.name, flavour] = price
    notes, no_price = [*map(_of_name, by_name.items()), of_boot], ""
    if unpriced:
        names = ", ".join(dict.fromkeys(unpriced))
        no_price = f"cost is not known: no price of {names}; say it with --price 0.10, or the key price of the pool"
    elif given.billed_s != 1.0:
        notes.append(f"machines are paid in units of {given.billed_s:g} s")
    if any("spot" in pool.markets for pool in settings.pools):
        notes.append("no spot machine is taken away, and each costs what the first market of its pool does")
    flavours = {flavour: size for (_, flavour), size in sizes.items()}
    notes.append(words(given.placement, given.own_size))
    assumed = Assumed(flavours, prices, boot_s, given.billed_s, given.seed, given.placement, given.own_size)
    return Supposition(settings, assumed, tuple(sizes_of(settings, assumed).values()), tuple(notes), no_price)


def _sizes(
    pool: Pool, given: Given, observed: Observed, by_name: dict[str, Resources]
) -> Iterator[tuple[str, Resources]]:
    """By the pool's own keys, else by a person, else by workers that joined, else by the name at EC2: what that tells
    is added to ``by_name``."""
    for flavour in pool.flavours:
        said = given.flavours.get(flavour, Resources())
        learned = observed.flavours.get((pool.name, flavour), Resources())
        size = pool.capacity.merged(said).merged(learned)
        named = size_by_name(flavour) if size.cpus is None and pool.kind == "ec2" else None
        if named is not None:
            size = by_name[flavour] = size.merged(named)
        if size.cpus is None:
            where = f"pool {pool.name}" + (f", flavour {flavour}" if flavour else "")
            say = f"--flavour {flavour}=CORES:MEMORY_MB" if flavour else "--set pool:" + pool.name + ".cpus=CORES"
            raise OverrideError(f"{where}: what a machine has is not known; say it with {say}, or the pool's key cpus")
        yield flavour, size


def _of_name(found: tuple[str, Resources]) -> str:
    name, size = found
    has = f"{counted(size.cpus or 0.0, 'core')}, {(size.memory_mb or 0.0) / 1024:g} GiB"
    return f"{name}: {has} by its name; say otherwise with --flavour"


def _all_used(settings: Settings, given: Given) -> None:
    names = {flavour for pool in settings.pools for flavour in pool.flavours}
    for name in given.flavours:
        if name not in names and name in given.elsewhere:
            continue
        if name not in names:
            raise OverrideError(f"--flavour {name}: no pool has this flavour, {_hint(name, names)}")
        stating = [pool.name for pool in settings.pools if name in pool.flavours and pool.capacity.cpus is not None]
        if stating:
            change = f"change that with --set pool:{stating[0]}.cpus=CORES"
            raise OverrideError(f"--flavour {name}: pool {stating[0]} says itself what its machines have; {change}")


def _hint(name: str, names: set[str]) -> str:
    meant = nearest(name, names)
    return f"did you mean {meant}?" if meant else f"there are: {', '.join(sorted(filter(None, names)))}"


def _priced(settings: Settings, given: Given) -> Settings:
    pools = list(settings.pools)
    for name, price in given.prices:
        flavour = name.partition("/")[0]
        named = [pool for pool in pools if name in ("", pool.name)]
        if named:
            pools = [replace(pool, prices={"*": price}) if pool in named else pool for pool in pools]
        elif any(flavour in pool.flavours for pool in pools):
            pools = [_with_price(pool, name, price) if flavour in pool.flavours else pool for pool in pools]
        elif flavour not in given.elsewhere:
            names = {pool.name for pool in pools} | {flavour for pool in pools for flavour in pool.flavours}
            raise OverrideError(f"--price {name}={price:g}: no pool or flavour has this name, {_hint(name, names)}")
    return replace(settings, pools=tuple(pools))


def _with_price(pool: Pool, name: str, price: float) -> Pool:
    """Of a flavour, its price in every market, unless a market is named, too."""
    others = {its: cost for its, cost in pool.prices.items() if not its.startswith(f"{name}/")}
    markets = {} if "/" in name else {f"{name}/{market}": price for market in pool.markets if market}
    return replace(pool, prices={**others, **markets, name: price})


def _boot(given: Given, observed: Observed) -> tuple[tuple[float, float], str]:
    if given.boot_s is not None:
        low, high = given.boot_s
        return given.boot_s, f"a machine boots in {low:g} s" + (f" to {high:g} s" if low != high else "")
    if observed.boots:
        boots = counted(observed.boots, "boot")
        seen = f"a machine boots in {observed.boot_s:.0f} s, the mean of {boots} that elastiq saw here"
        return (observed.boot_s, observed.boot_s), seen
    return (BOOT_S, BOOT_S), f"a machine boots in {BOOT_S:g} s: that is assumed, say it with --boot-time"
